// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recompute/recipe.h"

#include "base/assert.h"
#include "base/hash.h"
#include "torch_driver/recorder/copied_source.h"
#include "torch_driver/recorder/own_work.h"
#include "torch_driver/recorder/recipe_rules.h"
#include "torch_driver/recorder/tensors_of.h"

#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <utility>
#include <variant>

namespace spillway {

namespace {

c10::Storage empty_storage(std::int64_t size_bytes, c10::Device device) {
    return at::empty({size_bytes}, at::TensorOptions().device(device).dtype(at::kByte)).storage();
}

/// Of `size_bytes`, as far as an algorithm may be chosen by it.
std::int64_t size_class(std::int64_t size_bytes) {
    return static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(size_bytes)));
}

}  // namespace

/// Walks from what is wanted to what is there.
class Recipe::Builder {
  public:
    Builder(Recipe& recipe, IsSource const& is_source, std::size_t most_calls)
        : recipe_(recipe), is_source_(is_source), most_calls_(most_calls) {}

    /// Whether all that `content` needs is there or is made by the steps so far.
    [[nodiscard]] bool add(ContentRef const& content) {
        if (find(recipe_.uses_, *content) != nullptr) {
            return true;
        }
        bool const is_gone =
            content->is_replaced && keeps(RecipeRule::replaced_contents_are_no_source);
        if (content != recipe_.wanted_ && !is_gone && is_source_(*content)) {
            recipe_.sources_.push_back(content);
            recipe_.uses_.emplace_back(content.get(), 0);
            return true;
        }
        if (!content->maker) {
            bool const is_known =
                content->why != NoMaker::external && content->why != NoMaker::not_planned;
            refused_ = {
                is_known ? NoRecipe::no_maker : NoRecipe::lost_source, content->why, content};
            return false;
        }
        return add_call(content);
    }
    [[nodiscard]] Refused const& refused() const { return refused_; }

  private:
    [[nodiscard]] bool add_call(ContentRef const& content) {
        Call& call = *content->maker;
        auto step = step_of(call);
        if (step == recipe_.steps_.end()) {
            if (++under_way_ + recipe_.steps_.size() > most_calls_) {
                refused_ = {NoRecipe::too_long, {}, content};
                return false;
            }
            for (TensorArgument const& tensor : call.tensors) {
                if (!tensor.is_overwritten && !add(tensor.content)) {
                    return false;
                }
            }
            --under_way_;
            for (TensorArgument const& tensor : call.tensors) {
                if (!tensor.is_overwritten) {
                    ++*find(recipe_.uses_, *tensor.content);
                }
            }
            recipe_.steps_.push_back({content->maker, {}});
            step = std::prev(recipe_.steps_.end());
        }
        step->made.push_back(content);
        if (find(recipe_.uses_, *content) == nullptr) {
            recipe_.uses_.emplace_back(content.get(), 0);
        }
        return true;
    }
    [[nodiscard]] std::vector<Step>::iterator step_of(Call const& call) {
        return std::find_if(recipe_.steps_.begin(), recipe_.steps_.end(), [&](Step const& step) {
            return step.call.get() == &call;
        });
    }

    Recipe& recipe_;
    IsSource const& is_source_;
    std::size_t const most_calls_;
    std::size_t under_way_ = 0;
    Refused refused_;
};

std::variant<Recipe, Recipe::Refused> Recipe::of(
    ContentRef const& wanted, IsSource const& is_source, std::size_t most_calls
) {
    Recipe recipe;
    recipe.wanted_ = wanted;
    Builder builder(recipe, is_source, most_calls);
    if (!builder.add(wanted)) {
        return builder.refused();
    }
    return recipe;
}

std::int64_t Recipe::duration_ns() const {
    std::int64_t sum = 0;
    for (Step const& step : steps_) {
        sum += step.call->time.ns();
    }
    return sum;
}

std::function<std::int64_t()> Recipe::exact_duration_ns(std::int64_t more_ns) const {
    std::vector<CallTime> times;
    for (Step const& step : steps_) {
        times.push_back(step.call->time);
    }
    if (std::ranges::none_of(times, &CallTime::is_on_stream)) {
        return nullptr;
    }
    return [times = std::move(times), more_ns] {
        std::int64_t sum = more_ns;
        for (CallTime const& time : times) {
            time.wait();
            sum += time.ns();
        }
        return sum;
    };
}

std::int64_t Recipe::transient_bytes() const {
    std::int64_t sum = 0;
    for (Step const& step : steps_) {
        for (ContentRef const& made : step.made) {
            sum += made == wanted_ ? 0 : made->size_bytes;
        }
    }
    return sum;
}

namespace {

/// Whether it may choose among kernels, or the order of a sum: a flag, the groups of a convolution,
/// the dimensions of a mean. Sizes of what is allocated do not.
bool chooses_kernel(OperatorFacts const& facts, c10::IValue const& argument) {
    if (facts.allowed) {
        return argument.isScalar() || argument.isString();
    }
    return (argument.isInt() && facts.replay == Replay::costly) || argument.isBool() ||
           (argument.isIntList() && facts.replay != Replay::allocates);
}

}  // namespace

std::uint64_t Recipe::signature() const {
    Hash hash;
    auto const add = [&hash](auto const& value) { hash.add(std::as_bytes(std::span(&value, 1))); };
    for (Step const& step : steps_) {
        add(&step.call->facts);
        add(step.call->ambient.threads);
        add(step.call->ambient.default_dtype);
        add(step.call->ambient.denormals);
        add(step.call->ambient.is_deterministic);
        add(step.call->ambient.has_mkldnn);
        add(step.call->ambient.has_cudnn);
        add(step.call->ambient.is_cudnn_deterministic);
        add(step.call->ambient.benchmarks_cudnn);
        if (step.call->products) {
            add(step.call->products->float32);
            add(step.call->products->fp16_reduction);
            add(step.call->products->bf16_reduction);
            add(step.call->products->accumulates_fp16);
            add(step.call->products->blas);
        }
        for (c10::IValue const& argument : step.call->arguments) {
            if (!chooses_kernel(step.call->facts, argument)) {
                continue;
            }
            if (argument.isIntList()) {
                for (std::int64_t const each : argument.toIntVector()) {
                    add(each);
                }
            } else {
                add(c10::IValue::hash(argument));
            }
        }
        for (TensorArgument const& each : step.call->tensors) {
            Geometry const& geometry = each.geometry;
            add(each.argument);
            add(each.is_overwritten);
            add(each.device.type());
            add(c10::typeMetaToScalarType(geometry.dtype));
            add(geometry.sizes.size());
            add(size_class(each.storage_bytes));
            add(geometry.strides.empty() || geometry.strides.back() == 1);
        }
    }
    add(size_class(wanted_->size_bytes));
    return hash.value();
}

void Recipe::add_operators(OperatorSet& all) const {
    for (Step const& step : steps_) {
        all.insert(&step.call->facts);
    }
}

bool Recipe::has_allowed() const {
    return std::ranges::any_of(steps_, [](Step const& step) {
        return step.call->facts.allowed.has_value();
    });
}

std::string Recipe::operators() const {
    std::string text;
    for (Step const& step : steps_) {
        text += (text.empty() ? "" : ", ") + step.call->facts.name;
    }
    return text;
}

int* Recipe::find(Uses& uses, Content const& content) {
    for (auto& [known, count] : uses) {
        if (known == &content) {
            return &count;
        }
    }
    return nullptr;
}

bool Recipe::is_source(Content const& content) const {
    return std::any_of(sources_.begin(), sources_.end(), [&](ContentRef const& source) {
        return source.get() == &content;
    });
}

/// One carrying out of a recipe.
class Recipe::Run {
  public:
    Run(Recipe const& recipe, std::vector<c10::Storage> const& sources)
        : recipe_(recipe), uses_(recipe.uses_) {
        for (std::size_t i = 0; i < sources.size(); ++i) {
            bytes_[recipe.sources_[i].get()] = sources[i];
        }
    }

    [[nodiscard]] Result<void> carry_out(Step const& step) {
        Call const& call = *step.call;
        if (Result<void> const fine = check_settings(call); !fine) {
            return fine;
        }
        auto const handle = call.facts.to_run();
        if (!handle) {
            return Error{
                Errc::not_found,
                call.facts.name +
                    " cannot run again: it was removed or defined anew after it ran; define it "
                    "before the forward, or open the session with recompute \"off\"",
                ""};
        }
        torch::jit::Stack stack = call.arguments;
        for (c10::IValue& argument : stack) {
            argument = keeps(RecipeRule::lists_are_not_shared) ? with_lists_of_its_own(argument)
                                                               : argument;
        }
        if (call.generator && keeps(RecipeRule::generators_are_recorded)) {
            stack[static_cast<std::size_t>(*call.facts.generator)] =
                keeps(RecipeRule::generators_are_cloned) ? call.generator->clone()
                                                         : *call.generator;
        }
        c10::Storage const written = fill_in(call, stack);
        {
            WithAmbient const ambient(
                keeps(RecipeRule::ambient_is_restored) ? call.ambient : Ambient::now()
            );
            handle->callBoxed(stack);
        }
        for (ContentRef const& made : step.made) {
            c10::Storage const storage =
                made->output == Content::kWritten ? written : storage_at(stack, made->output);
            if (static_cast<std::int64_t>(storage.nbytes()) != made->size_bytes &&
                keeps(RecipeRule::sizes_are_compared)) {
                return Error{
                    Errc::corrupt,
                    call.facts.name + " made " + std::to_string(storage.nbytes()) +
                        " bytes again that were " + std::to_string(made->size_bytes),
                    ""};
            }
            bytes_[made.get()] = storage;
        }
        let_go(call);
        return {};
    }
    [[nodiscard]] c10::Storage take(Content const& content) { return bytes_.at(&content); }

  private:
    /// Whether they are, or can be made, what they were.
    [[nodiscard]] static Result<void> check_settings(Call const& call) {
        std::string const& name = call.facts.name;
        if (call.products && *call.products != ProductSettings::now(call.device()) &&
            keeps(RecipeRule::products_have_their_precision)) {
            return Error{
                Errc::broken_promise,
                name +
                    " cannot run again: the precision of products was changed after it ran; set "
                    "it before the forward, or open the session with recompute \"off\"",
                ""};
        }
        if (!AmbientUser::is_alone() && !call.ambient.is_same_process(Ambient::now())) {
            return Error{
                Errc::broken_promise,
                name +
                    " cannot run again: the default dtype, the deterministic mode, oneDNN or "
                    "cuDNN was switched after it ran, and another session is open, which may "
                    "compute meanwhile; switch it before the forward, or open the session with "
                    "recompute \"off\"",
                ""};
        }
        return {};
    }

  private:
    /// Puts the tensors in their places. Returns the storage that the call writes, if one.
    [[nodiscard]] c10::Storage fill_in(Call const& call, torch::jit::Stack& stack) {
        c10::Storage written;
        for (std::size_t i = 0; i < call.tensors.size(); ++i) {
            TensorArgument const& each = call.tensors[i];
            bool const is_written = call.written && static_cast<std::size_t>(*call.written) == i;
            c10::Storage const storage = is_written ? base_of(each) : bytes_.at(each.content.get());
            written = is_written ? storage : written;
            at::Tensor tensor = view_of(storage, each.geometry);
            put(each, std::move(tensor), stack[static_cast<std::size_t>(each.argument)]);
        }
        return written;
    }

    static void put(TensorArgument const& where, at::Tensor tensor, c10::IValue& argument) {
        auto const element = static_cast<std::size_t>(where.element);
        if (where.element < 0) {
            argument = std::move(tensor);
        } else if (argument.isTensorList()) {
            argument.toTensorList().set(element, std::move(tensor));
        } else {
            argument.toOptionalTensorList().set(element, std::move(tensor));
        }
    }

    /// A list in an IValue is shared by its copies.
    static c10::IValue with_lists_of_its_own(c10::IValue const& argument) {
        return argument.isTensorList()           ? argument.toTensorList().copy()
               : argument.isOptionalTensorList() ? argument.toOptionalTensorList().copy()
                                                 : argument;
    }

    /// What the call writes into: nobody else's.
    [[nodiscard]] c10::Storage base_of(TensorArgument const& written) {
        Content const& content = *written.content;
        if (written.is_overwritten) {
            return empty_storage(written.storage_bytes, written.device);
        }
        bool const is_ours = (*find(uses_, content) == 1 && !recipe_.is_source(content) &&
                              &content != recipe_.wanted_.get()) ||
                             !keeps(RecipeRule::bases_are_private);
        c10::Storage const& base = bytes_.at(&content);
        return is_ours ? base : copy_of_storage(base, content.size_bytes);
    }

    /// The storage of a result by its number.
    [[nodiscard]] static c10::Storage storage_at(torch::jit::Stack const& results, int output) {
        c10::Storage found;
        int number = 0;
        each_tensor(results, [&](int, int, at::Tensor const& tensor) {
            bool const is_it = number++ == output || !keeps(RecipeRule::outputs_are_told_apart);
            found = is_it ? tensor.storage() : found;
        });
        return found;
    }

    void let_go(Call const& call) {
        for (TensorArgument const& each : call.tensors) {
            if (!each.is_overwritten && --*find(uses_, *each.content) == 0) {
                bytes_.erase(each.content.get());
            }
        }
    }

    Recipe const& recipe_;
    Uses uses_;  ///< that are left
    std::unordered_map<Content const*, c10::Storage> bytes_;
};

Result<c10::Storage> Recipe::run(std::vector<c10::Storage> const& sources) const {
    SPILLWAY_ASSERT(sources.size() == sources_.size(), "each source is given");
    for (std::size_t i = 0; i < sources.size(); ++i) {
        if (static_cast<std::int64_t>(sources[i].nbytes()) != sources_[i]->size_bytes) {
            return Error{
                Errc::broken_promise,
                "a source has " + std::to_string(sources[i].nbytes()) + " bytes and had " +
                    std::to_string(sources_[i]->size_bytes),
                ""};
        }
    }
    OwnWork const below;
    Run run(*this, sources);
    for (Step const& step : steps_) {
        Result<void> const outcome = run.carry_out(step);
        if (!outcome.ok()) {
            return outcome.error();
        }
    }
    return run.take(*wanted_);
}

}  // namespace spillway
