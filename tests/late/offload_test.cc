// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A model's saved tensors go to pinned memory and come back through autograd's hooks, on streams of
// their own. Each order that is left out is reported under every seed.

#include "late/gpt.h"
#include "late/test_support.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

namespace late {
namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

enum class LeftOut {
    nothing,
    store_waits_for_main,
    record_of_what_is_stored,
    reload_waits_for_its_store,
    main_waits_for_the_reload,
    record_of_what_is_reloaded
};

struct Offload {
    c10::Stream store;
    c10::Stream load;
    LeftOut left_out = LeftOut::nothing;
    int tensors = 0;
    std::set<at::ScalarType> types;
};

Offload* offload = nullptr;  // while it is on

class Hook final : public SavedVariableHooks {
  public:
    explicit Hook(Offload& run) : run_(run) {}

    void call_pack_hook(at::Tensor const& tensor) override {
        if (tensor.device().type() != c10::kPrivateUse1 || !tensor.is_non_overlapping_and_dense()) {
            kept_ = tensor;
            return;
        }
        ++run_.tensors;
        run_.types.insert(tensor.scalar_type());
        away_ = at::empty_strided(
            tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU).pinned_memory(true)
        );
        if (run_.left_out != LeftOut::store_waits_for_main) {
            order(main_stream(), run_.store);
        }
        {
            c10::StreamGuard const guard(run_.store);
            away_.copy_(tensor, true);
        }
        stored_.record(run_.store);
        if (run_.left_out != LeftOut::record_of_what_is_stored) {
            tensor.record_stream(run_.store);
        }
    }

    at::Tensor call_unpack_hook() override {
        if (kept_.defined()) {
            return kept_;
        }
        c10::Stream const main = main_stream();
        if (run_.left_out != LeftOut::reload_waits_for_its_store) {
            stored_.block(run_.load);
        }
        at::Tensor back;
        {
            c10::StreamGuard const guard(run_.load);
            back =
                at::empty_strided(away_.sizes(), away_.strides(), on_late().dtype(away_.dtype()));
            back.copy_(away_, true);
        }
        if (run_.left_out != LeftOut::main_waits_for_the_reload) {
            order(run_.load, main);
        }
        if (run_.left_out != LeftOut::record_of_what_is_reloaded) {
            back.record_stream(main);
        }
        return back;
    }

  private:
    Offload& run_;
    at::Tensor kept_;
    at::Tensor away_;
    c10::Event stored_{c10::kPrivateUse1};
};

/// Torch's own engine with hooks of ours; that one has the threads.
class HookEngine final : public Engine {
  public:
    explicit HookEngine(Engine& own) : own_(own) {}
    ~HookEngine() override { stop(); }
    torch::autograd::variable_list execute(
        torch::autograd::edge_list const& roots,
        torch::autograd::variable_list const& inputs,
        bool keep_graph,
        bool create_graph,
        bool accumulate_grad,
        torch::autograd::edge_list const& outputs
    ) override {
        return own_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    }
    std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
        return offload == nullptr ? nullptr : std::make_unique<Hook>(*offload);
    }

  private:
    Engine& own_;
};

Engine& hook_engine() {
    static auto* const engine = new HookEngine(Engine::get_base_engine());  // leaked, as that one
    return *engine;
}

constexpr std::int64_t kOffloadSteps = 2;
constexpr std::uint64_t kOffloadSeeds = 20;

class Offloading : public LateTest {
  protected:
    Offloading() { torch::autograd::set_default_engine_stub(hook_engine); }
    ~Offloading() override { offload = nullptr; }

    /// Trains with the order left out. Returns whether the result is that of the CPU; an index that
    /// is poison raises.
    static bool train(LeftOut left_out, std::uint64_t seed) {
        reset(seed);
        run_.emplace(Offload{side_stream(), side_stream(), left_out, 0, {}});
        offload = &*run_;
        bool right = false;
        try {
            right = train_gpt(3, device(), kOffloadSteps) == on_cpu();
        } catch (c10::Error const&) {
            EXPECT_NE(left_out, LeftOut::nothing);
        }
        offload = nullptr;
        wait_idle();
        return right;
    }

    static Trained const& on_cpu() {
        static Trained const trained = train_gpt(3, at::kCPU, kOffloadSteps);
        return trained;
    }

    static std::optional<Offload> run_;
};

std::optional<Offload> Offloading::run_;

TEST_F(Offloading, with_all_orders_trains_as_on_the_cpu_and_nothing_is_reported) {
    (void)on_cpu();
    for (std::uint64_t seed = 0; seed < kOffloadSeeds; ++seed) {
        EXPECT_TRUE(train(LeftOut::nothing, seed)) << "seed " << seed;
        EXPECT_EQ(all_reports(), "") << "seed " << seed;
        EXPECT_TRUE(damage().empty()) << "seed " << seed;
        EXPECT_EQ(stats().devices[0].live_blocks, 0);
        EXPECT_EQ(stats().pinned.live_blocks, 0);
    }
    EXPECT_GT(run_->tensors, 60 * kOffloadSteps);
    EXPECT_EQ(run_->types, (std::set<at::ScalarType>{at::kFloat, at::kLong, at::kBool}));
}

TEST_F(Offloading, each_order_left_out_is_reported_under_every_seed_and_wrong_under_some) {
    (void)on_cpu();
    for (LeftOut const left_out :
         {LeftOut::store_waits_for_main,
          LeftOut::record_of_what_is_stored,
          LeftOut::reload_waits_for_its_store,
          LeftOut::main_waits_for_the_reload,
          LeftOut::record_of_what_is_reloaded}) {
        int wrong = 0;
        for (std::uint64_t seed = 0; seed < kOffloadSeeds; ++seed) {
            wrong += train(left_out, seed) ? 0 : 1;
            EXPECT_FALSE(reports().empty()) << static_cast<int>(left_out) << " seed " << seed;
        }
        EXPECT_GT(wrong, 0) << static_cast<int>(left_out);
        EXPECT_TRUE(train(LeftOut::nothing, 0)) << "after " << static_cast<int>(left_out);
        RecordProperty("wrong_without_" + std::to_string(static_cast<int>(left_out)), wrong);
    }
}

}  // namespace
}  // namespace late
