// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Operators of each kind that the fallback tells apart give what the CPU gives, bit for bit.

#include "late/test_support.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace late {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Of a [6, 8] and a [8, 5] matrix of floats, six indices and a mask [6, 8].
struct Inputs {
    at::Tensor a;
    at::Tensor b;
    at::Tensor index;
    at::Tensor mask;

    [[nodiscard]] Inputs to(at::Device place) const {
        return {a.to(place), b.to(place), index.to(place), mask.to(place)};
    }
};

struct Operator {
    std::string name;
    std::function<Tensors(Inputs const&)> run;
};

template <typename Tuple>
Tensors list(Tuple const& tuple) {
    return std::apply([](auto const&... each) { return Tensors{each...}; }, tuple);
}

std::vector<Operator> const kOperators = {
    {"add_alpha", [](Inputs const& in) { return Tensors{at::add(in.a, in.a, 0.3)}; }},
    {"broadcast",
     [](Inputs const& in) { return Tensors{in.a / (in.a.select(1, 0).unsqueeze(1) + 9)}; }},
    {"matmul", [](Inputs const& in) { return Tensors{at::matmul(in.a, in.b)}; }},
    {"bfloat16_matmul",
     [](Inputs const& in) {
         return Tensors{at::matmul(in.a.to(at::kBFloat16), in.b.to(at::kBFloat16))};
     }},
    {"bmm",
     [](Inputs const& in) {
         return Tensors{at::bmm(in.a.expand({3, 6, 8}), in.b.expand({3, 8, 5}))};
     }},
    {"einsum",
     [](Inputs const& in) {
         return Tensors{at::einsum("ij,jk->ki", {in.a, in.b})};
     }},
    {"softmax",
     [](Inputs const& in) {
         return Tensors{at::softmax(in.a, 1), at::log_softmax(in.a, 0)};
     }},
    {"reductions",
     [](Inputs const& in) {
         return Tensors{
             in.a.sum(), in.a.mean(1), at::amax(in.a, 0), in.a.std(1), at::logsumexp(in.a, 1)};
     }},
    {"norm",
     [](Inputs const& in) {
         return Tensors{in.a.norm(), at::linalg_vector_norm(in.a, 1)};
     }},
    {"sort", [](Inputs const& in) { return list(in.a.sort(1)); }},
    {"topk", [](Inputs const& in) { return list(in.a.topk(3)); }},
    {"max_with_indices", [](Inputs const& in) { return list(in.a.max(1)); }},
    {"unique", [](Inputs const& in) { return list(at::_unique2(in.index, true, true, true)); }},
    {"nonzero",
     [](Inputs const& in) {
         return Tensors{in.mask.nonzero(), in.a.masked_select(in.mask)};
     }},
    {"index",
     [](Inputs const& in) {
         return Tensors{in.a.index({in.index}), in.a.index({in.mask})};
     }},
    {"index_put",
     [](Inputs const& in) { return Tensors{in.a.clone().index_put_({in.index}, in.a, true)}; }},
    {"index_select", [](Inputs const& in) { return Tensors{in.a.index_select(0, in.index)}; }},
    {"gather_scatter",
     [](Inputs const& in) {
         at::Tensor const at_column = in.index.unsqueeze(1);
         return Tensors{in.a.gather(1, at_column), in.a.clone().scatter_(1, at_column, 5.0)};
     }},
    {"masked_fill_where",
     [](Inputs const& in) {
         return Tensors{in.a.masked_fill(in.mask, -1e9), at::where(in.mask, in.a, in.a * 2)};
     }},
    {"cat_stack",
     [](Inputs const& in) {
         return Tensors{at::cat({in.a, in.a}, 1), at::stack({in.a, in.a}), at::flip(in.a, {0})};
     }},
    {"views",
     [](Inputs const& in) {
         return Tensors{
             in.a.t().contiguous(),
             in.a.unfold(1, 3, 2).clone(),
             in.a.as_strided({4, 3}, {8, 2}, 1).clone(),
             in.a.view(at::kInt).clone(),
             in.a.transpose(0, 1).reshape({48})};
     }},
    {"tril_cumsum",
     [](Inputs const& in) {
         return Tensors{at::tril(in.a), in.a.cumsum(1)};
     }},
    {"batch_norm",
     [](Inputs const& in) {
         at::Tensor const mean = at::zeros({8}, in.a.options());
         at::Tensor const variance = at::ones({8}, in.a.options());
         at::Tensor out = at::batch_norm(in.a, {}, {}, mean, variance, true, 0.1, 1e-5, false);
         return Tensors{out, mean, variance};
     }},
    {"layer_norm", [](Inputs const& in) { return Tensors{at::layer_norm(in.a, {8})}; }},
    {"fft", [](Inputs const& in) { return Tensors{at::view_as_real(at::fft_rfft(in.a))}; }},
    {"svd", [](Inputs const& in) { return list(at::linalg_svd(in.a, false)); }},
    {"foreach",
     [](Inputs const& in) {
         Tensors list{in.a.clone(), in.b.clone()};
         at::_foreach_add_(list, 2.0);
         Tensors more = at::_foreach_mul(list, 0.5);
         list.insert(list.end(), more.begin(), more.end());
         return list;
     }},
    {"out_of_no_elements",
     [](Inputs const& in) {
         at::Tensor out = at::empty({0}, in.a.options());
         at::mm_out(out, in.a, in.b);
         at::Tensor indices = at::empty({0}, in.index.options());
         at::Tensor picked = at::empty({0}, in.a.options());
         at::index_select_out(picked, in.a, 0, in.index);
         return Tensors{out, picked};
     }},
    {"resize",
     [](Inputs const& in) {
         at::Tensor grown = in.b.clone();
         grown.resize_({9, 5}).narrow(0, 8, 1).fill_(1);
         return Tensors{grown};
     }},
    {"factories",
     [](Inputs const& in) {
         return Tensors{
             at::arange(7, in.index.options()),
             at::full({2, 2}, 3.0, in.a.options()),
             at::eye(4, in.a.options()),
             at::linspace(0, 1, 9, in.a.options())};
     }},
    {"casts",
     [](Inputs const& in) {
         return Tensors{in.a.to(at::kHalf), in.a.to(at::kLong), in.mask.to(at::kFloat)};
     }},
    {"attention",
     [](Inputs const& in) {
         at::Tensor const q = in.a.view({1, 1, 6, 8});
         return Tensors{
             std::get<0>(at::_scaled_dot_product_attention_math(q, q, q, {}, 0.0, true))};
     }},
    {"embedding_backward",
     [](Inputs const& in) {
         return Tensors{at::embedding_dense_backward(in.a, in.index, 9, -1, false)};
     }},
    {"convolution",
     [](Inputs const& in) {
         at::Tensor const image = in.a.view({1, 1, 6, 8});
         at::Tensor const kernel = in.b.view({2, 1, 4, 5});
         auto const gradients = at::convolution_backward(
             at::conv2d(image, kernel),
             image,
             kernel,
             at::OptionalIntArrayRef({2}),
             {1, 1},
             {0, 0},
             {1, 1},
             false,
             {0, 0},
             1,
             {true, true, true}
         );
         Tensors results = list(gradients);
         results.push_back(at::conv2d(image, kernel));
         return results;
     }},
    {"losses",
     [](Inputs const& in) {
         return Tensors{at::cross_entropy_loss(in.a, in.index), at::mse_loss(in.a, in.a * 2)};
     }},
};

class Operators : public LateTest, public ::testing::WithParamInterface<Operator> {
  protected:
    Operators() {
        at::Generator draw = at::detail::createCPUGenerator(11);
        inputs_ = {
            at::randn({6, 8}, draw),
            at::randn({8, 5}, draw),
            at::randint(5, {6}, draw, at::kLong),
            at::randn({6, 8}, draw) > 0};
    }

    Inputs inputs_;
};

TEST_P(Operators, give_the_same_as_on_the_cpu) {
    Tensors const expected = GetParam().run(inputs_);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        reset(seed);
        Tensors const actual = GetParam().run(inputs_.to(device()));
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i) {
            EXPECT_EQ(actual[i].device(), device()) << "result " << i;
            EXPECT_EQ(actual[i].dtype(), expected[i].dtype()) << "result " << i;
            EXPECT_TRUE(at::equal(actual[i].cpu(), expected[i])) << "result " << i;
        }
        EXPECT_EQ(all_reports(), "");
    }
    EXPECT_TRUE(damage().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Each,
    Operators,
    ::testing::ValuesIn(kOperators),
    [](::testing::TestParamInfo<Operator> const& parameter) { return parameter.param.name; }
);

class Random : public LateTest {};

TEST_F(Random, numbers_are_those_of_the_cpu_for_the_same_seed) {
    auto const draw = [](at::TensorOptions const& options) {
        at::Generator const& own = at::globalContext().defaultGenerator(options.device());
        return Tensors{
            at::randn({5, 7}, options),
            at::rand({9}, options),
            at::randint(100, {8}, options),
            at::randperm(12, options.dtype(at::kLong)),
            at::empty({20}, options).bernoulli_(0.3, own),
            at::full({20}, 0.5, options).bernoulli(own),
            at::multinomial(at::ones({10}, options), 4),
            at::empty({6}, options).exponential_(1, own)};
    };
    at::manual_seed(5);
    Tensors const expected = draw(at::TensorOptions());
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        reset(seed);
        manual_seed(5);
        Tensors const actual = draw(on_late());
        for (std::size_t i = 0; i < actual.size(); ++i) {
            EXPECT_TRUE(at::equal(actual[i].cpu(), expected[i])) << "result " << i;
        }
    }
}

TEST_F(Random, a_generator_of_the_device_keeps_its_state) {
    at::Generator generator = at::globalContext().defaultGenerator(device());
    generator.set_current_seed(3);
    at::Tensor const state = generator.get_state();
    at::Tensor const once = at::randn({4}, generator, on_late());
    generator.set_state(state);
    EXPECT_TRUE(at::equal(at::randn({4}, generator, on_late()).cpu(), once.cpu()));
}

class Kinds : public LateTest {};

TEST_F(Kinds, attention_of_any_name_is_the_cpus_math) {
    at::Tensor const q = at::rand({2, 3, 6, 8});
    at::Tensor const on_cpu =
        std::get<0>(at::_scaled_dot_product_attention_math(q, q, q, {}, 0.0, true));
    at::Tensor const there = q.to(device());
    at::Tensor const actual = at::scaled_dot_product_attention(there, there, there, {}, 0.0, true);
    EXPECT_TRUE(at::equal(actual.cpu(), on_cpu));
}

TEST_F(Kinds, operators_run_under_autocast) {
    at::autocast::set_autocast_enabled(c10::kPrivateUse1, true);
    at::Tensor const a = at::ones({2, 2}, on_late());
    at::Tensor const product = at::mm(a, a);
    at::autocast::set_autocast_enabled(c10::kPrivateUse1, false);
    EXPECT_TRUE(at::equal(product.cpu(), at::full({2, 2}, 2.0)));
}

TEST_F(Kinds, second_derivatives_are_those_of_the_cpu) {
    auto const second = [](at::Device place) {
        at::Tensor const x = at::linspace(0, 1, 9).to(place).requires_grad_();
        at::Tensor const y = (x.sin() * x.exp()).sum();
        auto const once = torch::autograd::grad({y}, {x}, {}, true, true)[0];
        return torch::autograd::grad({once.pow(2).sum()}, {x})[0].cpu();
    };
    // The device's thread numbers its nodes by itself, so gradients may be summed in another order.
    EXPECT_TRUE(at::allclose(second(device()), second(at::kCPU), 1e-6, 1e-6));
    EXPECT_EQ(all_reports(), "");
}

class Refused : public LateTest {};

TEST_F(Refused, tensors_of_two_devices_and_of_the_cpu) {
    at::Tensor const here = at::ones({4}, on_late());
    EXPECT_THROW((void)at::mm(here.view({2, 2}), at::ones({2, 2}, on_late(1))), c10::Error);
    EXPECT_THROW((void)at::mm(here.view({2, 2}), at::ones({2, 2})), c10::Error);
    EXPECT_TRUE(at::equal((here + at::scalar_tensor(2)).cpu(), at::full({4}, 3.0)));
}

TEST_F(Refused, an_error_of_a_late_task_comes_at_the_next_wait) {
    at::Tensor const index = at::full({2}, 9, on_late().dtype(at::kLong));
    at::Tensor const picked = at::ones({4}, on_late()).index_select(0, index);
    EXPECT_THROW(main_stream().synchronize(), c10::Error);
    main_stream().synchronize();  // once
}

}  // namespace
}  // namespace late
