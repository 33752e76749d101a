// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What users have today beside plain training, in C++: each block made again in backward, as
// torch.utils.checkpoint does it, and every saved tensor on the host, as
// torch.autograd.graph.save_on_cpu(pin_memory=True) does it.
#pragma once

#include "train/autocast.h"
#include "train/model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace spillway::bench {

/// What backward needs to run a block again.
struct BlockToRun : torch::CustomClassHolder {
    BlockToRun(train::RunBlock run_it, bool with_bf16) : run(std::move(run_it)), bf16(with_bf16) {}

    train::RunBlock run;
    bool bf16;
};

/// Keeps a block's input only, and runs the block again when its gradient is wanted. The block must
/// draw no random numbers.
struct Recomputed : torch::autograd::Function<Recomputed> {
    using Context = torch::autograd::AutogradContext;

    static at::Tensor forward(
        Context* context, at::Tensor const& x, c10::intrusive_ptr<BlockToRun> const& block
    ) {
        context->save_for_backward({x});
        context->saved_data["block"] = c10::IValue::make_capsule(block);
        return block->run(x);  // a Function's forward records nothing
    }

    static torch::autograd::variable_list backward(
        Context* context, torch::autograd::variable_list const& gradients
    ) {
        at::AutoGradMode const with_grad(true);
        auto const capsule = context->saved_data["block"].toCapsule();
        auto const& block = static_cast<BlockToRun const&>(*capsule);
        at::Tensor const x = context->get_saved_variables()[0].detach().requires_grad_();
        at::Tensor y;
        {
            train::Autocast const autocast(block.bf16, x.device().type());
            y = block.run(x);
        }
        torch::autograd::backward({y}, {gradients[0]});
        return {x.grad(), at::Tensor()};
    }
};

/// Bytes that save_on_cpu has copied.
struct MovedBytes {
    std::atomic<std::int64_t> out{0};
    std::atomic<std::int64_t> in{0};
};

/// One saved tensor on the host: copied on the stream that computes, in pinned memory, and copied
/// back when it is unpacked.
class HostHook : public torch::autograd::SavedVariableHooks {
  public:
    explicit HostHook(MovedBytes& moved) : moved_(moved) {}

    void call_pack_hook(at::Tensor const& tensor) override {
        device_ = tensor.device();
        bool const pinned = !device_.is_cpu();
        auto const options =
            at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU).pinned_memory(pinned);
        packed_ = at::empty(tensor.sizes(), options);
        packed_.copy_(tensor, /*non_blocking=*/pinned);
        moved_.out += static_cast<std::int64_t>(packed_.nbytes());
    }
    at::Tensor call_unpack_hook() override {
        moved_.in += static_cast<std::int64_t>(packed_.nbytes());
        return packed_.to(device_, packed_.scalar_type(), /*non_blocking=*/true);
    }
    std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data(
    ) const override {
        return std::nullopt;
    }

  private:
    MovedBytes& moved_;
    at::Device device_ = at::kCPU;
    at::Tensor packed_;
};

/// torch's engine, which hooks what is saved while this thread asks for it. C++ has no other door
/// for default hooks.
class HookingEngine : public torch::autograd::Engine {
  public:
    HookingEngine() = default;
    ~HookingEngine() override { stop(); }

    std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks(
    ) override {
        return wanted() != nullptr ? std::make_unique<HostHook>(*wanted()) : nullptr;
    }
    /// Where this thread's copies are counted; null: nothing is hooked.
    static MovedBytes*& wanted() {
        static thread_local MovedBytes* moved = nullptr;
        return moved;
    }
    /// Puts it in the place of torch's, before the first backward of the process.
    static void install() {
        static auto* const engine = new HookingEngine;  // leaked: its threads outlive main()
        torch::autograd::set_default_engine_stub([]() -> torch::autograd::Engine& {
            return *engine;
        });
    }
};

}  // namespace spillway::bench
