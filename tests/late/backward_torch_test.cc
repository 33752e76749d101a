// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Backwards on a device's own threads, started as Python starts them: past our engine.

#include "late/late_session.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace spillway {
namespace {

/// The gradient of `y` by `x`, as a graph.
Tensor gradient_past_our_engine(Tensor const& y, Tensor const& x) {
    return torch::autograd::Engine::get_base_engine().execute(
        {torch::autograd::impl::gradient_edge(y)},
        {at::ones_like(y)},
        true,
        true,
        false,
        {torch::autograd::impl::gradient_edge(x)}
    )[0];
}

/// The second derivative of a chain; saves counted by `session`, where there is one.
Tensor second_derivative(
    std::shared_ptr<TorchSession> const& session, bool inside, std::int64_t* saved_in_backward
) {
    Tensor x = leaf(81);
    auto const forward = [&] { return chain(x).sum(); };
    auto const backward = [&](Tensor const& y) { return gradient_past_our_engine(y, x); };
    if (session == nullptr) {
        return torch::autograd::grad({backward(forward()).pow(2).sum()}, {x})[0];
    }
    Tensor y = recorded(session, forward);
    std::int64_t const before = session->report().saved_tensors;
    Tensor const first = inside ? recorded(session, [&] { return backward(y); }) : backward(y);
    *saved_in_backward = session->report().saved_tensors - before;
    return torch::autograd::grad({first.pow(2).sum()}, {x})[0];
}

TEST(LateBackward, it_saves_for_the_session_that_a_thread_is_in) {
    here() = c10::Device(c10::kCPU);
    std::int64_t saved = 0;
    Tensor const plain = second_derivative(nullptr, false, &saved);
    here() = suite().device;
    for (bool const inside : {true, false}) {
        Rig rig(values(96));
        EXPECT_TRUE(at::equal(plain, second_derivative(rig.session, inside, &saved).cpu()));
        EXPECT_EQ(saved > 12, inside) << saved;
        rig.expect_clean();
    }
}

/// Three steps through `depth` of them: after the first, room for what backward takes is made
/// ahead of it.
Tensor gradient_of_writing_sines(std::shared_ptr<TorchSession> const& session, int depth) {
    Tensor x = leaf(82);
    auto const forward = [&] {
        Tensor h = x;
        for (int i = 0; i < depth; ++i) {
            h = WritesUnseen::apply(h * 1.01);
        }
        return h.sum();
    };
    for (int step = 0; step < 3; ++step) {
        if (session != nullptr) {
            session->loop().begin_step(step);
        }
        Tensor const y = session == nullptr ? forward() : recorded(session, forward);
        y.backward({}, true);
        y.backward();
    }
    return x.grad();
}

TEST(LateBackward, a_value_that_is_being_stored_is_written_after_the_copy) {
    for (int const depth : {1, 2, 3, 12}) {
        here() = c10::Device(c10::kCPU);
        Tensor const plain = gradient_of_writing_sines(nullptr, depth);
        here() = suite().device;
        for (int spare = 6; spare < 10; ++spare) {  // the less, the more has left by then
            Rig rig(values(depth + spare));
            EXPECT_TRUE(at::equal(plain, gradient_of_writing_sines(rig.session, depth).cpu()));
            rig.expect_clean();
        }
    }
}

}  // namespace
}  // namespace spillway
