// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// State of optimizers that is away between their steps, beside activations that want its room.

#include "torch_driver/states/away_states.h"
#include "torch_driver/suite/suite.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr int kStates = 4;

/// As an optimizer keeps them: alone in their storages, and nobody differentiates through them.
Tensors states() {
    Tensors all;
    for (int i = 0; i < kStates; ++i) {
        all.push_back(leaf(70 + i).detach().clone());
    }
    return all;
}

Tensors on_plain(Tensors const& tensors) {
    Tensors copies;
    for (Tensor const& tensor : tensors) {
        copies.push_back(tensor.to(suite().plain, /*non_blocking=*/false, /*copy=*/true));
    }
    return copies;
}

void expect_equal(Tensors const& tensors, Tensors const& expected) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_TRUE(at::equal(tensors[i].to(suite().plain), expected[i])) << "state " << i;
    }
}

/// A forward and backward that need more than the cap holds beside the states.
void train(Rig& rig) {
    Tensor x = leaf(80);
    Tensor y = rig.record([&] { return chain(x).sum(); });
    y.backward();
}

std::string words_of(std::function<void()> const& read) {
    try {
        read();
    } catch (c10::Error const& error) {
        return error.what_without_backtrace();
    }
    return "";
}

TEST(States, leave_for_activations_and_come_back_with_their_bits) {
    Rig rig;
    {
        AwayStates away(rig.session);
        Tensors const all = states();
        Tensors expected = on_plain(all);
        for (int step = 0; step < 3; ++step) {
            away.let_leave(all);
            train(rig);
            away.bring_back(all);
            expect_equal(all, expected);
            for (std::size_t i = 0; i < all.size(); ++i) {
                all[i].mul_(0.5);  // the optimizer's step
                expected[i].mul_(0.5);
            }
        }
        EXPECT_GE(rig.session->report().stored_bytes, 3 * values(kStates));
    }
    rig.expect_clean();
}

TEST(States, that_stay_are_written_where_they_lie) {
    Rig rig(values(64));
    AwayStates away(rig.session);
    Tensors const all = states();
    Tensors const expected = on_plain(all);
    std::vector<void*> before;
    for (Tensor const& state : all) {
        before.push_back(state.mutable_data_ptr());
    }
    away.let_leave(all);
    away.bring_back(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i].mutable_data_ptr(), before[i]);
    }
    expect_equal(all, expected);
    EXPECT_EQ(rig.session->report().stored_bytes, 0);
}

TEST(States, cannot_be_read_while_they_are_away) {
    Rig rig;
    AwayStates away(rig.session);
    Tensors const all = states();
    Tensors const expected = on_plain(all);
    away.let_leave(all);
    std::string const says = "waits off the device";
    EXPECT_NE(words_of([&] { (void)all[0].sum(); }).find(says), std::string::npos);
    EXPECT_NE(words_of([&] { all[0].mul_(2); }).find(says), std::string::npos);
    EXPECT_NE(words_of([&] { (void)all[0].clone(); }).find(says), std::string::npos);
    EXPECT_NE(words_of([&] { (void)all[0].mutable_data_ptr(); }).find(says), std::string::npos);
    away.give_back(all);
    expect_equal(all, expected);
}

TEST(States, that_others_have_stay) {
    Rig rig;
    AwayStates away(rig.session);
    Tensor const flat = leaf(90).detach().clone();
    Tensors const parts{flat.narrow(0, 0, rows() / 2), flat.narrow(0, rows() / 2, rows() / 2)};
    Tensor const wants_gradient = leaf(91);
    Tensor const small = at::zeros({4}, flat.options());
    away.let_leave({parts[0], parts[1], flat, wants_gradient, small, Tensor()});
    EXPECT_EQ(words_of([&] { (void)(flat.sum() + parts[1].sum() + wants_gradient.sum()); }), "");
    EXPECT_EQ(words_of([&] { (void)small.sum(); }), "");
}

TEST(States, that_end_or_are_given_other_bytes_are_forgotten) {
    Rig rig;
    AwayStates away(rig.session);
    Tensors all = states();
    away.let_leave(all);
    Tensor const other = leaf(92).detach().clone();
    all[0].set_data(other.clone());
    all.pop_back();
    train(rig);
    Tensors const rest{all[1], all[2]};
    away.bring_back(all);
    EXPECT_TRUE(at::equal(all[0].to(suite().plain), other.to(suite().plain)));
    EXPECT_EQ(words_of([&] { (void)(all[1].sum() + all[2].sum()); }), "");
    away.let_leave({});
    rig.expect_clean();
}

TEST(States, whose_bytes_are_corrupt_stop_the_step_and_stay_away) {
    Rig rig(
        values(12), {{.kind = Fault::Kind::flip, .way = Direction::load, .first = 1, .count = 100}}
    );
    {
        AwayStates away(rig.session);
        Tensors const all = states();
        away.let_leave(all);
        Tensor const x = leaf(93);
        {
            Tensor const y = rig.record([&] { return chain(x).sum(); });
        }
        std::string const words = words_of([&] { away.bring_back(all); });
        EXPECT_NE(words.find("an optimizer's state ["), std::string::npos) << words;
    }
    rig.expect_clean();
}

}  // namespace
}  // namespace spillway
