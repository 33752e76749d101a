// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What autograd promises, kept under a cap that moves nearly everything: each case compares with
// plain autograd bit by bit, or raises where plain autograd raises.

#include "executor/event_log.h"
#include "test_paths.h"
#include "torch_driver/suite/suite.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace spillway {
namespace {

TEST(Semantics, a_chain_gives_the_plain_gradient) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(1);
        Tensor y = record([&] { return chain(x).sum(); });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

TEST(Semantics, retain_graph_gives_the_same_gradient_again) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(2);
        Tensor y = record([&] { return chain(x).sum(); });
        y.backward({}, true);
        Tensor const once = x.grad().clone();
        y.backward({}, true);
        y.backward();
        return Tensors{once, x.grad()};
    });
}

TEST(Semantics, what_a_function_wrote_to_what_it_unpacked_is_there_again) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(2);
        Tensor y = record([&] { return chain(WritesUnseen::apply(x * 1.5)).sum(); });
        y.backward({}, true);
        Tensor const once = x.grad().clone();
        record([&] { return chain(leaf(3)).sum(); }).backward();  // and what is retained leaves
        y.backward();
        return Tensors{once, x.grad()};
    });
}

TEST(Semantics, double_backward_gives_the_second_derivative) {
    // What the first backward saves for the second is recorded where backward runs in a recording,
    // and plain autograd's own (and stays) where it does not.
    for (bool const inside : {true, false}) {
        expect_like_plain(
            [&](auto const& record) {
                Tensor x = leaf(3);
                Tensor y = record([&] { return chain(x).sum(); });
                auto differentiate = [&] {
                    return torch::autograd::grad({y}, {x}, {}, true, true)[0];
                };
                Tensor const first = inside ? record(differentiate) : differentiate();
                Tensor const second = torch::autograd::grad({first.pow(2).sum()}, {x})[0];
                return Tensors{first.detach(), second};
            },
            values(inside ? 32 : 96)  // pending gradients alone are 20
        );
    }
}

TEST(Semantics, several_graphs_live_at_once_and_end_in_any_order) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(4);
        Tensors ys;
        for (int i = 0; i < 3; ++i) {
            ys.push_back(record([&] { return chain(x + i).sum(); }));
        }
        ys[1].backward();
        ys[0].backward();
        ys[2].backward();
        return Tensors{x.grad()};
    });
}

TEST(Semantics, views_and_expanded_and_transposed_tensors_come_back_as_they_were) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(5);
        Tensor y = record([&] {
            Tensor const a = chain(x);
            Tensor const cut = a.narrow(1, 3, rows() / 2).t();
            Tensor const wide = a.select(0, 5).expand({64, rows()});
            Tensor const stepped = a.slice(0, 1, rows(), 3);
            return torch::sin(cut).sum() + (wide * wide).sum() + torch::exp(stepped).mean() +
                   chain(a).sum();
        });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

TEST(Semantics, one_tensor_saved_by_many_nodes_moves_once) {
    Rig rig;
    Tensor x = leaf(6);
    Tensor y = rig.record([&] {
        Tensor const a = chain(x);
        return (a * a).sum() + torch::sin(a).sum() + torch::exp(a).sum() + chain(a).sum();
    });
    y.backward();
    Report const report = rig.session->report();
    EXPECT_LE(report.stored_bytes, report.saved_bytes);
    EXPECT_LT(report.saved_values, report.saved_tensors);
    y = Tensor();
    rig.expect_clean();
}

TEST(Semantics, unused_branches_and_partial_inputs) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(7);
        Tensor z = leaf(8);
        Tensor unused;
        Tensor y = record([&] {
            unused = chain(z);
            return (chain(x) * chain(z)).sum();
        });
        Tensor const only = torch::autograd::grad({y}, {z})[0];
        return Tensors{only};
    });
}

TEST(Semantics, graphs_dropped_without_backward_leave_nothing) {
    Rig rig;
    std::int64_t const before = rig.session->report().device_bytes;
    for (int i = 0; i < 5; ++i) {
        Tensor x = leaf(9 + i);
        Tensor y = rig.record([&] { return chain(x).sum(); });
    }
    rig.expect_clean();
    EXPECT_EQ(rig.session->report().device_bytes, before);
}

TEST(Semantics, an_exception_in_mid_forward_leaves_nothing) {
    Rig rig;
    for (int i = 0; i < 3; ++i) {
        Tensor x = leaf(20 + i);
        EXPECT_THROW(
            rig.record([&]() -> Tensor {
                Tensor y = chain(x);
                throw std::runtime_error("in the middle");
            }),
            std::runtime_error
        );
    }
    rig.expect_clean();
}

TEST(Semantics, a_tensor_that_was_given_other_bytes_since_counts_as_it_is_now) {
    expect_like_plain(
        [](auto const& run) {
            Tensor x = leaf(1);
            Tensor w = leaf(2);
            Tensor h;
            Tensor const out = run([&] {
                h = x * 2;
                return chain(x.mm(w) + h.sin());
            });
            Tensor const w_then = w.detach().clone();
            w.set_data(w_then * 3);  // as FSDP does with parameters
            h.set_data(w_then * 4);
            out.sum().backward();
            return Tensors{x.grad(), w.grad()};
        },
        values(13)
    );  // on a GPU its library of products takes some
}

TEST(Semantics, backward_after_the_session_object_is_gone) {
    Tensor x = leaf(30);
    Tensor plain = chain(x).sum();
    plain.backward();
    Tensor const expected = x.grad().clone();
    x.mutable_grad() = Tensor();
    Tensor y;
    {
        Rig rig;
        y = rig.record([&] { return chain(x).sum(); });
    }
    y.backward();
    EXPECT_TRUE(torch::equal(expected, x.grad()));
}

TEST(Semantics, tied_and_transposed_weights_are_never_moved) {
    Rig rig;
    Tensor weight = leaf(31);
    rig.own({weight});
    Tensor x = leaf(32);
    Tensor y = rig.record([&] {
        Tensor const a = torch::mm(x, weight);
        return torch::mm(a, weight.t()).sum();
    });
    y.backward();
    EXPECT_EQ(rig.session->report().saved_values, 2);  // x and a
}

TEST(Semantics, odd_tensors_pass_through_untouched) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(33);
        Tensor y = record([&] {
            Tensor const a = chain(x);
            Tensor const index = torch::arange(0, rows(), 2, here());
            Tensor out = a.index_select(0, index).sum() + torch::empty({0, 4}, here()).sin().sum() +
                         chain(a).sum();
            if (on_cpu()) {  // the late accelerator has neither
                Tensor const sparse = torch::sparse_coo_tensor(
                    torch::tensor({{0, 1}, {1, 0}}), torch::tensor({1.0F, 2.0F}), {rows(), rows()}
                );
                Tensor const z = torch::view_as_complex(a.reshape({rows(), rows() / 2, 2}));
                out = out + torch::mm(sparse, a).sum() + torch::real((z * z.conj()).sum());
            }
            return out;
        });
        y.backward();
        return Tensors{y.detach(), x.grad()};
    });
}

/// Writes in place to a tensor that a node saved, then runs backward. Returns the error message.
std::string words_after_write(
    std::function<Tensor(std::function<Tensor()>)> const& record, bool moved, bool small
) {
    Tensor x = leaf(
        40, small ? std::vector<std::int64_t>{2, 3} : std::vector<std::int64_t>{rows(), rows()}
    );
    Tensor saved;
    Tensor y = record([&] {
        saved = x * 2;
        Tensor out = (saved * saved).sum();
        return moved ? out + chain(leaf(41)).sum() : out;
    });
    saved.add_(1);
    try {
        y.backward();
    } catch (c10::Error const& error) {
        return error.what_without_backtrace();
    }
    return "nothing was raised";
}

TEST(Semantics, a_write_in_place_raises_the_words_of_plain_autograd) {
    for (bool const moved : {false, true}) {
        for (bool const small : {false, true}) {
            std::string const expected =
                words_after_write([](auto const& body) { return body(); }, moved, small);
            Rig rig;
            std::string const actual =
                words_after_write([&](auto const& body) { return rig.record(body); }, moved, small);
            EXPECT_EQ(expected, actual);
            EXPECT_NE(actual.find("modified by an inplace operation"), std::string::npos);
        }
    }
}

TEST(Semantics, a_write_after_the_value_left_raises_too) {
    Rig rig;
    Tensor x = leaf(42);
    Tensor view;
    Tensor y = rig.record([&] {
        Tensor const a = x * 2;
        view = a.detach();  // keeps the version counter and the storage
        Tensor const out = (a * a).sum();
        return out + chain(leaf(43)).sum();
    });
    view.mul_(3);
    EXPECT_THROW(y.backward(), c10::Error);
}

TEST(Semantics, a_write_raises_whatever_the_speed_of_the_disk) {
    for (std::int64_t const delay_ms : {0, 1, 4, 16}) {
        if (delay_ms > 0 && !on_cpu()) {
            break;  // the seed delays
        }
        for (bool const moved : {false, true}) {
            std::string const expected =
                words_after_write([](auto const& body) { return body(); }, moved, false);
            Rig rig(values(12), {}, "online", {}, std::make_unique<MemoryTier>(values(1024)));
            rig.tier->set_delay_ms(delay_ms);
            EXPECT_EQ(
                expected,
                words_after_write([&](auto const& body) { return rig.record(body); }, moved, false)
            );
        }
    }
}

TEST(Semantics, a_custom_function_saves_and_finds_its_tensors) {
    struct Cube : torch::autograd::Function<Cube> {
        static Tensor forward(torch::autograd::AutogradContext* context, Tensor const& x) {
            Tensor const square = x * x;
            context->save_for_backward({x, square});
            return square * x;
        }
        static torch::autograd::variable_list backward(
            torch::autograd::AutogradContext* context, torch::autograd::variable_list gradient
        ) {
            auto const saved = context->get_saved_variables();
            return {gradient[0] * (saved[1] + 2 * saved[0] * saved[0])};
        }
    };
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(44);
        Tensor y = record([&] { return chain(Cube::apply(x)).sum(); });
        y.backward();
        return Tensors{x.grad()};
    });
}

/// Its backward gives what it unpacked another storage, and lets the old one go: AddressSanitizer
/// sees whoever goes on with that.
struct Swaps : torch::autograd::Function<Swaps> {
    static Tensor forward(torch::autograd::AutogradContext* context, Tensor const& x) {
        context->save_for_backward({x});
        return x.sin();
    }
    static Tensors backward(torch::autograd::AutogradContext* context, Tensors const& gradients) {
        Tensor x = context->get_saved_variables()[0];
        Tensor const gradient = gradients[0] * x.cos();
        x.set_data(x.detach() * 0.5);
        return {gradient};
    }
};

TEST(Semantics, a_function_swaps_the_storage_of_what_it_unpacked) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(50);
        Tensor y = record([&] { return chain(Swaps::apply(chain(x * 1.5))).sum(); });
        for (int i = 0; i < 3; ++i) {
            y.backward({}, true);
            Tensor const again = record([&] { return chain(leaf(51 + i)).sum(); });
            again.backward();  // storages at addresses that were let go
        }
        Tensor const gradient = x.grad().clone();
        y.reset();
        return Tensors{gradient};
    });
}

TEST(Semantics, two_threads_save_one_tensor_first) {
    if (!on_cpu()) {
        GTEST_SKIP() << "the late accelerator's operators run on one thread at a time";
    }
    Rig rig(values(24));
    for (int round = 0; round < 50; ++round) {
        Tensor const shared = leaf(60 + round).detach() * 2;
        Tensors leaves{leaf(1), leaf(2)};
        std::atomic<int> ready = 0;
        auto const multiply = [&](std::size_t i) {
            Entered const entered(rig.session);
            Tensor const y = leaves[i] * 1.5;
            for (++ready; ready < 2;) {
            }
            chain(y * shared).sum().backward();
        };
        std::thread other(multiply, 1);
        multiply(0);
        other.join();
        for (Tensor& x : leaves) {
            Tensor const gradient = std::exchange(x.mutable_grad(), Tensor());
            chain(x * 1.5 * shared).sum().backward();
            EXPECT_TRUE(at::equal(gradient, x.grad())) << "round " << round;
        }
    }
    rig.expect_clean();
}

TEST(Semantics, other_threads_are_not_recorded) {
    Rig rig(values(on_cpu() ? 12 : 96));  // an accelerator counts every thread
    Tensor x = leaf(45);
    rig.record([&] {
        std::int64_t const before = rig.session->report().saved_tensors;
        std::thread other([&] { chain(x).sum().backward(); });
        other.join();
        EXPECT_EQ(rig.session->report().saved_tensors, before);
        return Tensor();
    });
}

TEST(Semantics, a_backward_within_a_recording_is_right) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(46);
        record([&] {
            chain(x).sum().backward();
            return Tensor();
        });
        return Tensors{x.grad()};
    });
}

TEST(Semantics, a_write_in_place_before_the_save_is_no_fault) {
    expect_like_plain([](auto const& record) {
        Tensor x = leaf(47);
        Tensor y = record([&] {
            Tensor a = x * 2;
            a.add_(1);
            a = torch::sin(a);
            a.mul_(2);
            return chain(a).sum();
        });
        y.backward();
        return Tensors{x.grad()};
    });
}

TEST(Semantics, autocast_casts_come_back) {
    c10::DeviceType const where = suite().device.type();
    if (where == c10::kPrivateUse1) {
        GTEST_SKIP() << "the late accelerator has no autocast lists";
    }
    expect_like_plain([&](auto const& record) {
        Tensor x = leaf(48);
        Tensor weight = leaf(49);
        Tensor y = record([&] {
            at::autocast::set_autocast_enabled(where, true);
            at::autocast::set_autocast_dtype(where, at::kBFloat16);
            Tensor a = x;
            for (int i = 0; i < 12; ++i) {
                a = torch::gelu(torch::mm(a, weight) * 0.1);
            }
            at::autocast::clear_cache();
            at::autocast::set_autocast_enabled(where, false);
            return a.to(torch::kFloat).sum();
        });
        y.backward();
        return Tensors{x.grad(), weight.grad()};
    });
}

TEST(Semantics, any_plan_gives_the_plain_gradients) {
    auto program = [](auto const& record) {
        Tensor x = leaf(52);
        Tensor y = record([&] { return chain(chain(x)).sum(); });
        y.backward();
        return Tensors{x.grad()};
    };
    Tensors const expected = program([](auto const& body) { return body(); });
    for (std::uint64_t seed = 0; seed < (on_cpu() ? 20U : 3U); ++seed) {
        Plan plan;
        std::mt19937_64 random(seed);
        for (std::int32_t i = 0; i < 30; ++i) {
            for (char const* const producer : {"AddBackward0", "SinBackward0", "input"}) {
                auto const kind = random() % 2 == 0 ? FateKind::keep : FateKind::move;
                if (random() % 3 != 0) {
                    plan.fates[{producer, 0, i}] = {kind, Pool::nvme};
                }
            }
        }
        Rig rig(values(12), {}, "planned");
        rig.session->loop().plan(plan);
        Tensors actual = program([&](auto const& body) { return rig.record(body); });
        EXPECT_TRUE(torch::equal(expected[0], actual[0])) << "seed " << seed;
        actual.clear();
        rig.expect_clean();
    }
}

std::string log_path() {
    return std::filesystem::path(build_folder()) /
           ("semantics_test." + std::to_string(::getpid()) + ".events");
}

/// The values of each backward whose order was reported, in that order.
std::vector<std::vector<ValueId>> reported_orders(std::string const& path) {
    std::vector<std::vector<ValueId>> orders;
    std::ifstream stream(path);
    for (std::string line; std::getline(stream, line);) {
        Result<Event> const event = parse_event(line);
        if (event.ok() && std::holds_alternative<BackwardOrder>(*event)) {
            orders.push_back(std::get<BackwardOrder>(*event).values);
        }
    }
    return orders;
}

TEST(Semantics, each_backward_tells_once_what_it_will_need_and_when) {
    std::string const path = log_path();
    {
        Rig rig(values(12), {}, "online", path);
        Tensor first = rig.record([] { return chain(leaf(70)).sum(); });
        Tensor second = rig.record([] { return chain(leaf(71)).sum(); });
        first.backward();
        second.backward();
    }
    std::vector<std::vector<ValueId>> const orders = reported_orders(path);
    std::filesystem::remove(path);
    ASSERT_EQ(orders.size(), 2U);
    for (auto const& values : orders) {
        EXPECT_EQ(values.size(), 12U);
        EXPECT_TRUE(std::is_sorted(values.rbegin(), values.rend())) << "last saved, first needed";
    }
    EXPECT_LT(orders[0].front(), orders[1].back()) << "the older graph ran first";
}

TEST(Semantics, a_backward_that_passes_our_engine_by_tells_what_is_below) {
    std::string const path = log_path();
    {
        Rig rig(values(12), {}, "online", path);
        Tensor x = leaf(72);
        Tensor y = rig.record([&] { return chain(x).sum(); });
        torch::autograd::Engine::get_base_engine().execute(  // as Python's backwards do
            {torch::autograd::impl::gradient_edge(y)},
            {at::ones({}, at::TensorOptions().device(here()))},
            false,
            false,
            true,
            {}
        );
        EXPECT_TRUE(x.grad().defined());
    }
    std::vector<std::vector<ValueId>> const orders = reported_orders(path);
    std::filesystem::remove(path);
    ASSERT_EQ(orders.size(), 1U);
    EXPECT_EQ(orders[0].size(), 12U);
}

TEST(Semantics, a_real_runs_event_log_replays_to_the_same_commands) {
    std::string const path = log_path();
    {
        Rig rig(values(12), {}, "online", path);
        for (int step = 0; step < 4; ++step) {
            rig.session->loop().begin_step(step);
            rig.session->loop().phase(Phase::forward);
            Tensor x = leaf(60 + step);
            Tensor y = rig.record([&] { return chain(chain(x)).sum(); });
            rig.session->loop().phase(Phase::backward);
            y.backward();
        }
    }
    std::ifstream stream(path);
    Result<ReplayOutcome> const outcome = replay(stream);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_TRUE(outcome->identical) << outcome->difference;
    EXPECT_GT(outcome->commands, 100);
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace spillway
