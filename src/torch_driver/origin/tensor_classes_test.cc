// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The class of every tensor that real operators save.

#include "torch_driver/origin/tensor_classes.h"

#include "torch_driver/recorder/observer.h"
#include "torch_driver/suite/suite.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace spillway {
namespace {

using Names = std::vector<std::string>;

/// A session that classifies everything.
struct Classes {
    Classes() {
        SessionOptions options;
        options.device_budget_bytes = 64_MiB;
        options.min_value_bytes = 1;
        session = open_session(options);
        session->saved_tensors().classify_tensors();
        allocate_from(session, false);
    }

    Tensor parameter(std::vector<std::int64_t> sizes) {
        Tensor made = at::randn(sizes).requires_grad_();
        session->own({made});
        return made;
    }
    static Tensor input(std::vector<std::int64_t> sizes) {
        return at::randn(sizes).requires_grad_();
    }

    /// Of what `body` saves, in the order of the first save of each storage.
    Names of(std::function<Tensor()> const& body) {
        Tensor result;
        {
            OperatorObserver const observer(ObserverLevel::arguments);
            result = recorded(session, body);
        }
        Names names;
        for (auto const& [what, saver] : session->saved_tensors().classes()) {
            names.emplace_back(name_of(saver.tensor_class));
        }
        return names;
    }

    std::shared_ptr<TorchSession> session;
};

TEST(TensorClasses, inputs_of_linear_layers) {
    Classes on;
    Tensor const weight = on.parameter({8, 16});
    Tensor const bias = on.parameter({8});
    Tensor const x = on.input({4, 16});
    EXPECT_EQ(on.of([&] { return at::linear(x, weight, bias); }), Names{"linear_input"});
    EXPECT_EQ(on.of([&] { return at::linear(x, weight); }), Names{"linear_input"});
    EXPECT_EQ(on.of([&] { return at::addmm(bias, x, weight.t()); }), Names{"linear_input"});
    EXPECT_EQ(on.of([&] { return at::mm(weight, x.t()); }), Names{"linear_input"});
    Tensor const deep = on.input({2, 4, 16});
    EXPECT_EQ(on.of([&] { return at::linear(deep, weight, bias); }), Names{"linear_input"});
    EXPECT_EQ(on.of([&] { return at::linear(deep, weight); }), Names{"linear_input"});
    EXPECT_EQ(on.of([&] { return at::matmul(deep, weight.t()); }), Names{"linear_input"});
    Tensor const experts = on.parameter({2, 16, 8});
    EXPECT_EQ(on.of([&] { return at::bmm(deep, experts); }), Names{"linear_input"});
}

TEST(TensorClasses, products_without_one_parameter_are_attention) {
    Classes on;
    Tensor const weight = on.parameter({8, 16});
    Tensor const x = on.input({4, 16});
    Tensor const y = on.input({16, 4});
    EXPECT_EQ(on.of([&] { return at::mm(x, y); }), (Names{"attention", "attention"}));
    EXPECT_EQ(on.of([&] { return at::mm(x, x.t()); }), Names{"attention"}) << "one storage";
    Tensor const square = on.input({4, 4});
    EXPECT_EQ(on.of([&] { return at::mm(square, square); }), Names{"other"});
    Tensor const other_weight = on.parameter({16, 8});
    EXPECT_EQ(on.of([&] { return at::mm(weight, other_weight); }), Names{});
    // A weight that was cast is one still; as an operand of an activation it is never lossy.
    EXPECT_EQ(
        on.of([&] { return at::mm(x.to(at::kBFloat16), weight.to(at::kBFloat16).t()); }),
        (Names{"other", "linear_input"})
    );
    // One that was made of a weight by arithmetic is nothing that is known.
    EXPECT_EQ(
        on.of([&] { return at::mm(x, (weight * 2).t()); }), (Names{"attention", "attention"})
    );
}

TEST(TensorClasses, a_storage_that_all_layers_read_alike_is_theirs) {
    Classes on;
    Tensor const q = on.parameter({16, 16});
    Tensor const k = on.parameter({16, 16});
    Tensor const x = on.input({4, 16});
    EXPECT_EQ(on.of([&] { return at::linear(x, q) + at::linear(x, k); }), Names{"linear_input"});
    EXPECT_EQ(
        on.of([&] {
            return at::linear(x, q) + at::linear(x.view({2, 2, 16}), k).view({4, 16});
        }),
        Names{"linear_input"}
    );
    // A tied weight: of the embedding and of the head.
    Tensor const ids = at::arange(4);
    EXPECT_EQ(
        on.of([&] { return at::linear(at::embedding(q, ids) + x, q); }),
        (Names{"index", "linear_input"})
    );
}

TEST(TensorClasses, a_storage_with_two_kinds_of_savers_is_none_of_theirs) {
    Classes on;
    Tensor const weight = on.parameter({16, 16});
    Tensor const scale = on.parameter({16});
    Tensor const x = on.input({4, 16});
    EXPECT_EQ(
        on.of([&] { return at::layer_norm(x, {16}, scale, scale) + at::linear(x, weight); }),
        (Names{"other", "statistics", "statistics"})
    );
    EXPECT_EQ(on.of([&] { return at::linear(x, weight) + x.sin(); }), Names{"other"});
    EXPECT_EQ(on.of([&] { return x.sin() + at::linear(x, weight); }), Names{"other"});
    EXPECT_EQ(
        on.of([&] { return x.sin() + at::linear(x, weight) + at::linear(x, weight); }),
        Names{"other"}
    ) << "for good";
    EXPECT_EQ(on.of([&] { return at::linear(at::relu(x), weight); }), Names{"other"});
    // The same bytes as two types.
    Tensor const zeros = at::zeros({4, 16}).requires_grad_();
    EXPECT_EQ(
        on.of([&] {
            return at::linear(zeros, weight).sum() +
                   weight.index_select(0, zeros.detach().view(at::kInt).flatten()).sum();
        }),
        Names{"other"}
    );
}

TEST(TensorClasses, norms) {
    Classes on;
    Tensor const scale = on.parameter({8});
    Tensor const x = on.input({2, 8, 5, 5});
    EXPECT_EQ(
        on.of([&] {
            return at::layer_norm(x, {5, 5});
        }),
        (Names{"norm_input", "statistics", "statistics"})
    );
    EXPECT_EQ(
        on.of([&] { return at::group_norm(x, 2, scale, scale); }),
        (Names{"norm_input", "statistics", "statistics"})
    );
    Tensor const width = on.parameter({5});
    EXPECT_EQ(
        on.of([&] { return at::rms_norm(x, {5}, width, 1e-5); }),
        (Names{"norm_input", "other", "norm_input"})
    ) << "its input, a number for each row, its input over that";
    Tensor const mean = at::zeros({8});
    Tensor const variance = at::ones({8});
    on.session->own({mean, variance});
    auto const batch_norm = [&](bool train) {
        return at::batch_norm(x, scale, scale, mean, variance, train, 0.1, 1e-5, false);
    };
    EXPECT_EQ(
        on.of([&] { return batch_norm(true); }), (Names{"norm_input", "statistics", "statistics"})
    );
    EXPECT_EQ(on.of([&] { return batch_norm(false); }).front(), "norm_input");
}

TEST(TensorClasses, convolutions) {
    Classes on;
    Tensor const weight = on.parameter({4, 2, 3, 3});
    Tensor const x = on.input({2, 2, 8, 8});
    EXPECT_EQ(on.of([&] { return at::conv2d(x, weight); }), Names{"convolution_input"});
    Tensor const made = on.input({4, 2, 3, 3});
    EXPECT_EQ(on.of([&] { return at::conv2d(x, made); }), (Names{"other", "other"}));
}

TEST(TensorClasses, activations) {
    Classes on;
    Tensor const x = on.input({4, 16});
    for (auto const function :
         {+[](Tensor const& t) { return at::gelu(t); },
          +[](Tensor const& t) { return at::silu(t); },
          +[](Tensor const& t) { return at::mish(t); },
          +[](Tensor const& t) { return at::softplus(t); }}) {
        EXPECT_EQ(on.of([&] { return function(x); }), Names{"activation_input"});
    }
    for (auto const function :
         {+[](Tensor const& t) { return at::tanh(t); },
          +[](Tensor const& t) { return at::sigmoid(t); },
          +[](Tensor const& t) { return at::exp(t); },
          +[](Tensor const& t) { return at::leaky_relu(t); },
          +[](Tensor const& t) { return at::pow(t, 3); }}) {
        EXPECT_EQ(on.of([&] { return function(x); }), Names{"other"});
    }
    EXPECT_EQ(on.of([&] { return at::relu(x); }), Names{"relu_output"});
    EXPECT_EQ(
        on.of([&] {
            Tensor y = x * 2;
            return at::relu_(y);
        }),
        Names{"relu_output"}
    );
    EXPECT_EQ(
        on.of([&] {
            Tensor y = x * 2;
            Tensor half = y.slice(0, 0, 2);
            return at::relu_(half);
        }),
        Names{"other"}
    ) << "the node of a write through a view is another";
}

TEST(TensorClasses, masks_and_integers) {
    Classes on;
    Tensor const x = on.input({16, 16});
    EXPECT_EQ(on.of([&] { return at::dropout(x, 0.3, true); }), Names{"mask"});
    EXPECT_EQ(
        on.of([&] {
            Tensor y = x * 2;
            return at::dropout_(y, 0.3, true);
        }),
        Names{"mask"}
    );
    EXPECT_EQ(on.of([&] { return std::get<0>(at::native_dropout(x, 0.3, true)); }), Names{"mask"});
    EXPECT_EQ(on.of([&] { return x.masked_fill(x > 0, 0); }), Names{"mask"});
    EXPECT_EQ(on.of([&] { return x * at::rand({16, 16}); }), Names{"other"}) << "no dropout";
    Tensor const ids = at::arange(8);
    EXPECT_EQ(on.of([&] { return x.index_select(0, ids); }), Names{"index"});
}

TEST(TensorClasses, attention) {
    Classes on;
    Tensor const q = on.input({2, 2, 8, 4});
    Tensor const k = on.input({2, 2, 8, 4});
    Tensor const v = on.input({2, 2, 8, 4});
    Names const fused =
        on.of([&] { return at::scaled_dot_product_attention(q, k, v, {}, 0, true); });
    EXPECT_EQ(std::count(fused.begin(), fused.end(), "attention"), 4);
    EXPECT_EQ(std::count(fused.begin(), fused.end(), "statistics"), 1);
    EXPECT_EQ(fused.size(), 5u);
    for (std::string const& name : on.of([&] {  // dropout takes the CPU to the path by parts
             return at::scaled_dot_product_attention(q, k, v, {}, 0.5, false);
         })) {
        EXPECT_TRUE(name == "attention" || name == "mask" || name == "other") << name;
    }
    EXPECT_EQ(on.of([&] { return at::softmax(q, -1); }), Names{"attention"});
}

TEST(TensorClasses, a_loss) {
    Classes on;
    Tensor const logits = on.input({8, 32});
    Tensor const target = at::arange(8);
    for (std::string const& name : on.of([&] { return at::cross_entropy_loss(logits, target); })) {
        EXPECT_TRUE(name == "other" || name == "index") << name;
    }
}

TEST(TensorClasses, under_autocast_the_cast_weight_is_a_parameter) {
    Classes on;
    Tensor const weight = on.parameter({8, 16});
    Tensor const bias = on.parameter({8});
    Tensor const x = on.input({4, 16});
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    Names const names = on.of([&] { return at::linear(x, weight, bias); });
    auto const all = on.session->saved_tensors().classes();
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    EXPECT_EQ(std::count(names.begin(), names.end(), "linear_input"), 1);
    EXPECT_EQ(std::count(names.begin(), names.end(), "other"), static_cast<int>(names.size()) - 1);
}

/// Saves its input by itself, with a layer's operator inside.
struct OwnLinear : torch::autograd::Function<OwnLinear> {
    static Tensor forward(
        torch::autograd::AutogradContext* context, Tensor const& x, Tensor const& w
    ) {
        context->save_for_backward({x});
        return at::linear(x, w);
    }
    static Tensors backward(torch::autograd::AutogradContext* context, Tensors const& gradients) {
        return {gradients[0] * context->get_saved_variables()[0].sum(), Tensor()};
    }
};

TEST(TensorClasses, what_functions_save_is_unknown) {
    Classes on;
    Tensor const weight = on.parameter({16, 16});
    Tensor const x = on.input({4, 16});
    EXPECT_EQ(on.of([&] { return OwnLinear::apply(x, weight); }), Names{"other"});
}

TEST(TensorClasses, what_is_saved_in_a_backward_is_unknown) {
    Classes on;
    Tensor const weight = on.parameter({16, 16});
    Tensor const x = on.input({4, 16});
    Names const names = on.of([&] {
        Tensor const y = at::gelu(at::linear(x, weight));
        return torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
    });
    EXPECT_EQ(
        std::count(names.begin(), names.end(), "linear_input"), 1
    );  // the gelu's is saved again
    EXPECT_EQ(std::count(names.begin(), names.end(), "other"), static_cast<int>(names.size()) - 1)
        << "what was saved in the forward alone keeps its class";
}

TEST(TensorClasses, unwatched_operators_are_unknown) {
    Classes on;
    Tensor const weight = on.parameter({16, 16});
    Tensor const x = on.input({4, 16});
    Tensor const y = recorded(on.session, [&] { return at::linear(x, weight); });
    auto const all = on.session->saved_tensors().classes();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].second.tensor_class, TensorClass::other);
}

TEST(TensorClasses, elements) {
    EXPECT_EQ(codec_dtype_of(at::kFloat), Dtype::f32);
    EXPECT_EQ(codec_dtype_of(at::kBFloat16), Dtype::bf16);
    EXPECT_EQ(codec_dtype_of(at::kHalf), Dtype::f16);
    EXPECT_EQ(codec_dtype_of(at::kDouble), Dtype::u8);
    EXPECT_EQ(codec_dtype_of(at::kLong), Dtype::u8);
}

}  // namespace
}  // namespace spillway
