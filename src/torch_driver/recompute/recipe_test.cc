// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recompute/recipe.h"

#include "torch_driver/recorder/call_recorder.h"
#include "torch_driver/recorder/copied_source.h"
#include "torch_driver/recorder/recipe_rules.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace spillway {
namespace {

using at::Tensor;
using Found = std::variant<Recipe, Recipe::Refused>;

bool same_bytes(c10::Storage const& one, c10::Storage const& other) {
    return one.nbytes() == other.nbytes() &&
           std::memcmp(one.data(), other.data(), one.nbytes()) == 0;
}

void write_raw(Tensor const& x) {
    *x.mutable_data_ptr<float>() = 5;
    x.unsafeGetTensorImpl()->bump_version();
}

void write_silently(Tensor const& x) {
    *x.mutable_data_ptr<float>() = 5;
}

void write_below(Tensor const& x) {
    at::AutoDispatchBelowADInplaceOrView const below;
    x.add_(1);
}

TORCH_LIBRARY(spillway_recipe_test, library) {
    library.def("write_raw(Tensor x) -> ()", &write_raw);
    library.def("write_below(Tensor x) -> ()", &write_below);
    library.def("write_silently(Tensor x) -> ()", &write_silently);
}

#ifdef SPILLWAY_MUTANTS
/// In a build for mutants: the rule that SPILLWAY_BREAK names does not hold, in any test here.
[[maybe_unused]] bool const is_rule_broken = [] {
    char const* const name = std::getenv("SPILLWAY_BREAK");
    auto const at = std::find(kRecipeRuleNames.begin(), kRecipeRuleNames.end(), name ? name : "");
    bool const is_one = at != kRecipeRuleNames.end();
    broken_recipe_rule = is_one ? static_cast<std::int32_t>(at - kRecipeRuleNames.begin()) : -1;
    return is_one;
}();
#endif

/// Records what a test runs.
class RecipeTest : public testing::Test {
  protected:
    RecipeTest() { at::manual_seed(1); }

    ContentRef content(Tensor const& tensor) {
        return recorder_.content_of(tensor.storage().unsafeGetStorageImpl());
    }
    /// From what no operator made, and from what `kept` hold.
    Found recipe_of(Tensor const& tensor, std::vector<Tensor> const& kept = {}) {
        auto const is_source = [&](Content const& each) {
            for (Tensor const& one : kept) {
                if (content(one).get() == &each) {
                    return true;
                }
            }
            return !each.maker && each.why == NoMaker::external && !each.storage.expired();
        };
        return Recipe::of(content(tensor), is_source, 16);
    }
    /// Of a product, or what else is dear.
    static Recipe costly_recipe_of(CallRecorder const& recorder, Tensor const& tensor) {
        Found found = Recipe::of(
            recorder.content_of(tensor.storage().unsafeGetStorageImpl()),
            [](Content const&) { return true; },
            16
        );
        return std::get<Recipe>(std::move(found));
    }
    /// Made again it has the bits that it has, in bytes of its own; the generator stays.
    std::size_t expect_same(Tensor const& tensor, std::vector<Tensor> const& kept = {}) {
        UnrecordedCalls const unrecorded;
        Found const found = recipe_of(tensor, kept);
        if (auto const* const refused = std::get_if<Recipe::Refused>(&found)) {
            ADD_FAILURE() << "refused: " << static_cast<int>(refused->why) << ", "
                          << static_cast<int>(refused->no_maker);
            return 0;
        }
        Recipe const& recipe = std::get<Recipe>(found);
        std::vector<c10::Storage> sources;
        std::vector<Tensor> before;
        std::vector<std::size_t> uses;
        for (ContentRef const& source : recipe.sources()) {
            sources.emplace_back(source->storage.lock());
            before.push_back(bytes_of(sources.back()).clone());
            uses.push_back(sources.back().use_count());
        }
        Tensor const state = at::globalContext().defaultGenerator(at::kCPU).get_state();
        for (int i = 0; i < 2; ++i) {
            Result<c10::Storage> const made = recipe.run(sources);
            EXPECT_TRUE(made.ok());
            EXPECT_TRUE(same_bytes(*made, tensor.storage())) << "time " << i;
            EXPECT_NE(made->data(), tensor.storage().data());
        }
        EXPECT_TRUE(at::equal(state, at::globalContext().defaultGenerator(at::kCPU).get_state()));
        for (std::size_t i = 0; i < sources.size(); ++i) {
            EXPECT_TRUE(same_bytes(sources[i], before[i].storage())) << "source " << i;
            EXPECT_EQ(sources[i].use_count(), uses[i]) << "nothing keeps it";
        }
        return recipe.calls();
    }
    NoMaker why_not(Tensor const& tensor) {
        Found const found = recipe_of(tensor);
        auto const* const refused = std::get_if<Recipe::Refused>(&found);
        EXPECT_NE(refused, nullptr);
        return refused == nullptr ? NoMaker::none : refused->no_maker;
    }

    static Tensor bytes_of(c10::Storage const& storage) {
        return at::empty({0}, at::kByte)
            .set_(storage, 0, {static_cast<std::int64_t>(storage.nbytes())}, {1});
    }

    Tensor const x_ = at::randn({8, 16}).requires_grad_();
    Tensor const weight_ = at::randn({16}).requires_grad_();
    CallRecorder recorder_;
    CallRecording recording_{recorder_};
};

TEST_F(RecipeTest, one_operator) {
    EXPECT_EQ(expect_same(at::gelu(x_)), 1u);
    EXPECT_EQ(expect_same(at::softmax(x_, -1)), 1u);
    EXPECT_EQ(expect_same(x_ * 0.37), 1u);
    EXPECT_EQ(expect_same(x_.to(at::kBFloat16)), 1u);
    EXPECT_EQ(expect_same(at::layer_norm(x_, {16}, weight_, weight_)), 1u);
    EXPECT_EQ(expect_same(at::cat({x_, x_ * 2}, 0)), 2u);
    EXPECT_EQ(expect_same(x_.t().contiguous()), 1u);
}

TEST_F(RecipeTest, of_several_results_each) {
    auto const [y, mean, deviation] = at::native_layer_norm(x_, {16}, weight_, weight_, 1e-5);
    expect_same(mean);
    expect_same(deviation);
    EXPECT_EQ(expect_same(y * mean + deviation), 3u) << "the norm runs once";
}

TEST_F(RecipeTest, operators_inside_others_do_not_count) {
    CallRecorder recorder(/*runs_costly=*/true);
    Tensor const images = at::randn({2, 3, 8, 8});
    Tensor const filters = at::randn({4, 3, 3, 3}).requires_grad_();
    CallRecording const recording(recorder);
    Tensor const y = at::conv2d(images, filters);
    ContentRef const made = recorder.content_of(y.storage().unsafeGetStorageImpl());
    ASSERT_TRUE(made->maker);
    EXPECT_EQ(made->maker->facts.handle.schema().name(), "aten::convolution");
}

TEST_F(RecipeTest, a_saved_result_is_known_when_its_operator_ends) {
    c10::NoGradGuard const no_grad;
    Tensor const y = at::mul(x_, 2);
    std::shared_ptr<SavedContent> saved;
    {
        RECORD_FUNCTION("around", std::vector<c10::IValue>{x_});
        saved = recorder_.saved(y, ValueId(1), /*is_output=*/true);
        y.add_(1);
    }
    EXPECT_EQ(saved->content, content(y)) << "what its storage held before is another";
}

TEST_F(RecipeTest, chains_and_where_they_begin) {
    Tensor const y = at::gelu(x_ * 2);
    Tensor const z = at::tanh(y) + y;
    EXPECT_EQ(expect_same(z), 4u) << "gelu runs once, though twice used";
    EXPECT_EQ(expect_same(z, {y}), 2u);
}

TEST_F(RecipeTest, what_is_not_listed_has_none) {
    Tensor const product = at::mm(x_, x_.t());
    EXPECT_EQ(why_not(product), NoMaker::not_listed);
    EXPECT_EQ(why_not(at::relu(product)), NoMaker::not_listed);
    EXPECT_EQ(expect_same(at::relu(product), {product}), 1u);
}

TEST_F(RecipeTest, a_product_needs_the_precision_that_it_had) {
    CallRecorder recorder(/*runs_costly=*/true);
    CallRecording const recording(recorder);
    Tensor const product = at::mm(x_, x_.t());
    UnrecordedCalls const unrecorded;
    Recipe const recipe = costly_recipe_of(recorder, product);
    at::globalContext().setFloat32MatmulPrecision("medium");
    Result<c10::Storage> const other = recipe.run({x_.storage()});
    at::globalContext().setFloat32MatmulPrecision("highest");
    Result<c10::Storage> const same = recipe.run({x_.storage()});
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().what.find("precision of products was changed"), std::string::npos);
    ASSERT_TRUE(same.ok());
    EXPECT_TRUE(same_bytes(*same, product.storage()));
}

/// The CPU has no attention that drops out, so it is told of a call that nothing ran.
TEST_F(RecipeTest, attention_that_drops_out_has_none) {
    CallRecorder recorder(/*runs_costly=*/true);
    CallRecording const recording(recorder);
    auto const attention = c10::Dispatcher::singleton().findSchemaOrThrow(
        "aten::_scaled_dot_product_flash_attention", ""
    );
    auto const why = [&](double share) {
        Tensor const made = at::detach(at::empty({4}));
        std::vector<c10::IValue> const arguments{x_, x_, x_, share, false, false, c10::IValue()};
        recorder.begin_step();
        {
            at::RecordFunction function(at::RecordScope::FUNCTION);
            function.before(
                std::cref(attention.schema()),
                c10::ArrayRef<c10::IValue const>(arguments.data(), arguments.size())
            );
            function.setOutputs(std::vector<c10::IValue>{made});
        }
        return recorder.content_of(made.storage().unsafeGetStorageImpl())->why;
    };
    EXPECT_EQ(why(0), NoMaker::none);
    EXPECT_EQ(why(0.5), NoMaker::no_generator);
}

TEST_F(RecipeTest, in_place_operators_make_one_content_after_another) {
    Tensor const y = at::mul(x_, 2);
    ContentRef const before = content(y);
    y.add_(1);
    y.relu_();
    EXPECT_EQ(expect_same(y), 3u);
    EXPECT_TRUE(before->is_replaced);
    Tensor const rows = at::mul(x_, 3);
    rows.select(0, 1).mul_(5);
    EXPECT_EQ(expect_same(rows), 2u) << "of a view";
}

TEST_F(RecipeTest, a_base_that_is_used_twice_is_copied) {
    Tensor const y = at::mul(x_, 2);
    Tensor const z = at::sin(y);
    y.add_(1);
    EXPECT_EQ(expect_same(z * y), 4u);
    EXPECT_EQ(expect_same(y * z), 4u) << "also where it is written before it is read";
}

TEST_F(RecipeTest, what_was_there_before_an_operator_wrote_a_part_is_not_known) {
    c10::NoGradGuard const no_grad;
    Tensor const outside = at::ones({4});
    recorder_.begin_step();
    outside.select(0, 0).fill_(7);
    EXPECT_EQ(why_not(outside), NoMaker::partly_written);
    outside.copy_(x_.flatten().narrow(0, 0, 4));
    EXPECT_EQ(expect_same(outside), 1u) << "all of it is written";
}

TEST_F(RecipeTest, two_arguments_on_the_written_storage) {
    c10::NoGradGuard const no_grad;
    Tensor y = at::mul(x_, 2);
    Tensor out = y.view({8, 16});
    at::sin_out(out, y);
    EXPECT_EQ(why_not(y), NoMaker::written_twice);
    Tensor const z = at::mul(x_, 2);
    z.mul_(z);
    EXPECT_EQ(why_not(z), NoMaker::written_twice);
}

TEST_F(RecipeTest, results_of_out_variants) {
    c10::NoGradGuard const no_grad;
    Tensor y = at::empty({8, 16});
    at::sin_out(y, x_);
    EXPECT_LE(expect_same(y), 2u);
}

TEST_F(RecipeTest, storages_of_another_size) {
    c10::NoGradGuard const no_grad;
    Tensor y = at::mul(x_, 2);
    y.storage().unsafeGetStorageImpl()->set_nbytes(256);
    EXPECT_EQ(why_not(at::exp(y.narrow(0, 0, 1))), NoMaker::unseen_write);
    Tensor grown = at::empty({0});
    at::exp_out(grown, x_);
    EXPECT_EQ(expect_same(grown), 1u);
}

TEST_F(RecipeTest, dropout_draws_what_it_drew) {
    Tensor const y = at::dropout(x_, 0.5, true);
    Tensor const later = at::rand({3});
    expect_same(y);
    auto generator = at::detail::createCPUGenerator(7);
    expect_same(at::bernoulli(x_.sigmoid(), generator));
}

TEST_F(RecipeTest, factories_that_python_calls) {
    c10::impl::ExcludeDispatchKeyGuard const below(c10::autograd_dispatch_keyset);
    Tensor const noise = at::randn_like(x_);
    expect_same(noise);
}

TEST_F(RecipeTest, batch_norm_leaves_its_statistics) {
    Tensor const images = at::randn({2, 16, 3, 3});
    Tensor const mean = at::zeros({16});
    Tensor const variance = at::ones({16});
    recorder_.begin_step();
    Tensor const y =
        at::batch_norm(images, weight_, weight_, mean, variance, true, 0.1, 1e-5, false);
    Tensor const mean_now = mean.clone();
    Tensor const variance_now = variance.clone();
    EXPECT_EQ(expect_same(y), 1u);
    EXPECT_TRUE(at::equal(mean, mean_now));
    EXPECT_TRUE(at::equal(variance, variance_now));
    EXPECT_EQ(why_not(mean), NoMaker::unseen_write);
    Tensor const z =
        at::batch_norm(images, weight_, weight_, mean, variance, false, 0.1, 1e-5, false);
    EXPECT_EQ(expect_same(z, {mean, variance}), 1u) << "they are read where it does not train";
}

TEST_F(RecipeTest, tensor_lists_with_gaps) {
    Tensor const rows = at::tensor({0, 3, 3});
    std::optional<Tensor> const none;
    c10::List<std::optional<Tensor>> indices;
    indices.push_back(none);
    indices.push_back(rows);
    EXPECT_EQ(expect_same(at::index(x_, indices)), 1u);
    EXPECT_EQ(expect_same(at::stack({x_, x_})), 1u);
}

TEST_F(RecipeTest, under_autocast_it_has_the_casts_that_it_had) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    Tensor const y = at::softmax(at::mul(x_.to(at::kBFloat16), 2), -1);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    expect_same(y);
}

TEST_F(RecipeTest, autocast_around_the_replay_changes_nothing) {
    CallRecorder recorder(/*runs_costly=*/true);
    CallRecording const recording(recorder);
    Tensor const product = at::mm(x_, x_.t());
    UnrecordedCalls const unrecorded;
    Recipe const recipe = costly_recipe_of(recorder, product);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    EXPECT_EQ(at::mm(x_, x_.t()).scalar_type(), at::kBFloat16);
    Result<c10::Storage> const made = recipe.run({x_.storage()});
    at::autocast::set_autocast_enabled(at::kCPU, false);
    ASSERT_TRUE(made.ok());
    EXPECT_TRUE(same_bytes(*made, product.storage()));
}

TEST_F(RecipeTest, a_number_promotes_types_as_it_did) {
    Tensor const counts = at::arange(6);
    Tensor number = at::scalar_tensor(0.37, at::kDouble);
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
    Tensor const y = at::mul(counts, number);
    ASSERT_EQ(y.scalar_type(), at::kFloat);
    number = Tensor();
    EXPECT_EQ(expect_same(y), 2u);
}

TEST_F(RecipeTest, settings_are_as_they_were) {
    Tensor const y = at::mul(at::arange(6), 0.5);
    auto const before = at::get_default_dtype();
    at::set_default_dtype(caffe2::TypeMeta::Make<double>());
    expect_same(y);
    EXPECT_EQ(at::get_default_dtype(), caffe2::TypeMeta::Make<double>());
    at::set_default_dtype(before);
}

TEST_F(RecipeTest, results_in_inference_mode_have_none) {
    c10::InferenceMode const inference;
    EXPECT_EQ(why_not(at::exp(x_)), NoMaker::special_tensor);
}

TEST_F(RecipeTest, what_is_made_again_is_not_recorded) {
    Tensor const y = at::exp(x_);
    Found const found = recipe_of(y);
    Result<c10::Storage> const made = std::get<Recipe>(found).run({x_.storage()});
    EXPECT_FALSE(recorder_.content_of(made->unsafeGetStorageImpl()));
}

TEST_F(RecipeTest, writes_that_no_schema_tells) {
    c10::NoGradGuard const no_grad;
    for (char const* const name : {"write_raw", "write_below", "write_silently"}) {
        RECORD_FUNCTION("around", c10::ArrayRef<c10::IValue const>{});
        Tensor const y = at::mul(x_, 2);
        c10::Dispatcher::singleton()
            .findSchemaOrThrow((std::string("spillway_recipe_test::") + name).c_str(), "")
            .typed<void(Tensor const&)>()
            .call(y);
        EXPECT_EQ(why_not(y), NoMaker::unseen_write) << name;
    }
}

TEST_F(RecipeTest, a_version_that_moved_tells_of_a_write) {
    c10::NoGradGuard const no_grad;
    Tensor const y = at::mul(x_, 2);
    auto const saved = recorder_.saved(y, ValueId(1), false);
    EXPECT_FALSE(saved->is_written());
    {
        RECORD_FUNCTION("around", std::vector<c10::IValue>{y});
        write_raw(y);
    }
    EXPECT_EQ(why_not(y), NoMaker::unseen_write);
    Tensor const z = at::mul(x_, 2);
    auto const other = recorder_.saved(z, ValueId(2), false);
    write_raw(z);  // in no operator
    EXPECT_TRUE(other->is_written());
}

TEST_F(RecipeTest, writes_below_autograd_inside_an_operator) {
    c10::NoGradGuard const no_grad;
    Tensor const y = at::mul(x_, 2);
    {
        RECORD_FUNCTION("around", std::vector<c10::IValue>{});
        write_below(y);
    }
    EXPECT_EQ(why_not(y), NoMaker::unseen_write);
}

TEST_F(RecipeTest, an_operator_that_fails_makes_nothing) {
    c10::NoGradGuard const no_grad;
    Tensor const y = at::mul(x_, 2);
    Tensor const last = at::tensor({0, 1, 99});
    EXPECT_ANY_THROW(y.index_select(0, last));
    EXPECT_ANY_THROW(y.copy_(at::ones({3})));
    EXPECT_EQ(why_not(y), NoMaker::not_listed);
}

TEST_F(RecipeTest, conjugates_and_their_like_have_none) {
    Tensor const z = at::complex(at::randn({4}), at::randn({4}));
    EXPECT_EQ(why_not(at::mul(z.conj(), 2)), NoMaker::special_tensor);
}

TEST_F(RecipeTest, schemas_that_tell_of_a_write_to_no_byte) {
    Tensor const y = at::exp(x_);
    ContentRef const made = content(y);
    y.retain_grad();
    Tensor const plain = y.detach();
    plain.requires_grad_();
    plain.detach_();
    EXPECT_EQ(content(y).get(), made.get());
    EXPECT_FALSE(made->is_written);
    EXPECT_EQ(expect_same(y), 1u);
}

TEST_F(RecipeTest, another_storage_is_no_write) {
    c10::NoGradGuard const no_grad;
    Tensor const y = at::exp(x_);
    Tensor z = at::empty({0});
    z.set_(y);
    EXPECT_EQ(expect_same(y), 1u);
}

TEST_F(RecipeTest, a_source_that_was_written_since_is_none) {
    c10::NoGradGuard const no_grad;
    Tensor const outside = at::ones({4});
    recorder_.begin_step();
    Tensor const y = at::exp(outside);
    outside.add_(1);
    Found const found = recipe_of(y);
    ASSERT_TRUE(std::holds_alternative<Recipe::Refused>(found));
    EXPECT_EQ(std::get<Recipe::Refused>(found).why, NoRecipe::lost_source);
}

TEST_F(RecipeTest, a_source_is_copied_before_it_is_written) {
    auto const write_below = [](Tensor const& x) {
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("spillway_recipe_test::write_below", "")
            .typed<void(Tensor const&)>()
            .call(x);
    };
    auto const write = [](Tensor const& x) { x.mul_(3); };
    for (std::function<void(Tensor const&)> const& writes :
         std::vector<std::function<void(Tensor const&)>>{write, write_below}) {
        Tensor const buffer = at::ones({8});
        Tensor const before = buffer.clone();
        Tensor const used = buffer * 2;
        auto const source = std::make_shared<CopiedSource>(
            buffer.storage().getWeakStorageImpl(), static_cast<std::int64_t>(buffer.nbytes())
        );
        content(buffer)->source = source;
        (void)at::neg(buffer);
        EXPECT_FALSE(source->has_copy()) << "it is read";
        writes(buffer);
        EXPECT_TRUE(source->has_copy());
        EXPECT_TRUE(same_bytes(source->storage(), before.storage()));
    }
}

TEST_F(RecipeTest, a_source_is_none_after_the_step) {
    c10::NoGradGuard const no_grad;
    ContentRef const made = content(at::exp(x_));
    recorder_.begin_step();
    auto const found = Recipe::of(
        made, [](Content const&) { return true; }, 16
    );
    EXPECT_TRUE(std::holds_alternative<Recipe::Refused>(found));
}

TEST_F(RecipeTest, a_source_without_its_bytes_is_an_error) {
    Found const found = recipe_of(at::exp(x_));
    EXPECT_FALSE(std::get<Recipe>(found).run({at::ones({3}).storage()}).ok());
}

TEST_F(RecipeTest, another_size_than_it_had_is_an_error) {
    Tensor const y = at::exp(x_);
    content(y)->size_bytes += 4;
    Found const found = recipe_of(y);
    auto const made = std::get<Recipe>(found).run({x_.storage()});
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().what.find("bytes again that were"), std::string::npos);
}

TEST_F(RecipeTest, buffers_that_anybody_may_fill_have_none) {
    Tensor const y = at::zeros({8});
    *y.mutable_data_ptr<float>() = 5;
    EXPECT_EQ(why_not(y), NoMaker::external);
    EXPECT_EQ(expect_same(y * 2), 1u) << "but they are sources";
}

TEST_F(RecipeTest, special_tensors_have_none) {
    Tensor const codes = at::quantize_per_tensor(x_.detach(), 0.1, 0, at::kQInt8);
    EXPECT_EQ(why_not(at::clone(codes)), NoMaker::special_tensor);
    Tensor const images = at::randn({2, 16, 3, 3}).to(at::kBFloat16);
    Tensor const norm =
        at::batch_norm(images, {}, {}, at::zeros({16}), at::ones({16}), true, 0.1, 1e-5, false);
    EXPECT_EQ(why_not(norm), NoMaker::special_tensor) << "of two precisions";
}

TEST_F(RecipeTest, statistics_that_other_norms_write_are_no_source_any_more) {
    c10::NoGradGuard const no_grad;
    Tensor const mean = at::randn({16});
    recorder_.begin_step();
    Tensor const y = mean * 2;
    (void)at::batch_norm_update_stats(at::randn({2, 16, 3}), mean, at::ones({16}), 0.1);
    Found const found = recipe_of(y, {mean});
    EXPECT_TRUE(std::holds_alternative<Recipe::Refused>(found));
}

TEST_F(RecipeTest, operators_that_are_left_out_make_what_was_there) {
    Tensor const x = at::randn({8, 8});
    Tensor const first = at::sin(x);
    auto const facts = content(first)->by;
    recorder_.record_only(std::make_shared<OperatorSet const>(OperatorSet{facts}));
    std::int64_t const before = recorder_.recorded_calls();
    Tensor const left_out = at::cos(x);
    EXPECT_EQ(recorder_.recorded_calls(), before);
    Tensor const second = at::sin(left_out);
    EXPECT_EQ(recorder_.recorded_calls(), before + 1);
    EXPECT_TRUE(content(left_out)->was_there);
    EXPECT_EQ(why_not(left_out), NoMaker::not_planned);
    expect_same(second, {left_out});
    left_out.add_(1);  // a write is seen whatever is left out
    EXPECT_EQ(recorder_.recorded_calls(), before + 2);
    EXPECT_TRUE(std::holds_alternative<Recipe::Refused>(recipe_of(second)));
}

TEST_F(RecipeTest, a_recording_may_end_inside_an_operator) {
    c10::NoGradGuard const no_grad;
    Tensor const y = at::mul(x_, 2);
    auto other = std::make_unique<CallRecorder>();
    auto inner = std::make_unique<CallRecording>(*other);
    {
        RECORD_FUNCTION("around", std::vector<c10::IValue>{y});
        inner.reset();
    }
    inner = std::make_unique<CallRecording>(*other);
    Tensor const z = at::exp(x_);
    z.add_(1);
    EXPECT_TRUE(other->content_of(z.storage().unsafeGetStorageImpl())->maker);
    inner.reset();
    y.add_(1);
    EXPECT_EQ(why_not(y), NoMaker::partly_written) << "the other may have seen it written";
    Tensor const w = at::mul(x_, 3);
    w.add_(1);
    EXPECT_EQ(expect_same(w), 2u);
}

TEST_F(RecipeTest, what_has_gone_is_swept) {
    c10::NoGradGuard const no_grad;
    Tensor const first = at::mul(x_, 2);
    for (int i = 0; i < 10'000; ++i) {
        (void)at::mul(first, 2);
    }
    EXPECT_LT(recorder_.size(), 9'000u);
    EXPECT_EQ(expect_same(first), 1u);
}

TEST_F(RecipeTest, a_chain_as_long_as_a_step_ends_well) {
    c10::NoGradGuard const no_grad;
    Tensor y = x_.detach();
    for (int i = 0; i < 200'000; ++i) {
        y = y + 1;
    }
    Found const found = recipe_of(y);
    EXPECT_EQ(std::get<Recipe::Refused>(found).why, NoRecipe::too_long);
    recorder_.begin_step();
}

TEST_F(RecipeTest, what_a_living_tensor_was_made_of_is_forgotten) {
    c10::NoGradGuard const no_grad;
    for (bool const is_saved : {false, true}) {
        Tensor const other = at::mul(x_, 2);
        auto saved = is_saved ? recorder_.saved(other, ValueId(1), false) : nullptr;
        Tensor sum = at::mul(x_, 2);
        c10::weak_intrusive_ptr<Call> const first(content(sum)->maker);
        for (int i = 0; i < (is_saved ? 40'000 : 1'000); ++i) {
            Tensor const each = at::mul(x_, 3);  // saved once, in a graph that has gone
            (void)recorder_.saved(each, ValueId(2), false);
            sum = sum + each;
        }
        EXPECT_TRUE(first.expired());
        EXPECT_LT(recorder_.size(), 40'000u);
        if (is_saved) {
            EXPECT_EQ(expect_same(other), 1u) << "what is saved keeps its maker";
        }
        Tensor const now = sum * 2;
        EXPECT_EQ(expect_same(now, {sum}), 1u);
        saved.reset();
    }
}

TEST_F(RecipeTest, what_was_written_outside_of_a_forward_lies_there) {
    c10::NoGradGuard const no_grad;
    Tensor const weight = at::ones({4});
    recorder_.begin_step();
    (void)at::exp(weight);
    EXPECT_TRUE(content(weight)->is_of_before);
    Tensor const y = at::mul(x_, 2);
    auto saved = recorder_.saved(y, ValueId(1), false);
    saved->is_needed();
    weight.add_(1);  // an optimizer's, after backward
    EXPECT_TRUE(content(weight)->is_of_before);
    EXPECT_FALSE(content(weight)->is_changing);
    saved = recorder_.saved(y, ValueId(2), false);
    ContentRef const before = content(weight);
    weight.add_(1);  // in a forward
    EXPECT_TRUE(before->is_changing);
    EXPECT_TRUE(before->is_written);
    EXPECT_FALSE(content(weight)->is_of_before);
    saved->is_needed();
    weight.add_(1);
    EXPECT_TRUE(content(weight)->is_of_before);
    EXPECT_TRUE(content(weight)->is_changing) << "in the next forward, too";
}

}  // namespace
}  // namespace spillway
