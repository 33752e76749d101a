// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/engine.h"

#include "torch_driver/compat.h"
#include "torch_driver/saved_hook.h"
#include "torch_driver/torch_session.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/engine.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>

namespace spillway {

namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

Engine* previous = nullptr;  // the engine before ours: torch's own, or Python's

/// A backward, and who records it, on their way to the threads that run it.
struct Carried final : c10::DebugInfoBase {
    Carried(Recorder from, Backward what) : recorder(std::move(from)), backward(std::move(what)) {}
    Recorder recorder;
    Backward backward;
};

constexpr std::string_view kCarriedName = "SPILLWAY_BACKWARD";
auto const kCarriedKind = debug_info_kind<c10::DebugInfoKind>(&kCarriedName);

Carried const* carried_here() {
    return static_cast<Carried const*>(c10::ThreadLocalDebugInfo::get(kCarriedKind));
}

/// The calling thread's own recorder, or the one of the backward that it runs.
Recorder const& recorder_here() {
    Recorder const& own = thread_recorder();
    if (own.session != nullptr) {
        return own;
    }
    Carried const* const carried = carried_here();
    return carried == nullptr ? own : carried->recorder;
}

template <typename Base, bool has_node_creation_hooks = HasNodeCreationHooks<Base>>
struct HandsOnNodeHooks : Base {};

template <typename Base>
struct HandsOnNodeHooks<Base, true> : Base {
    auto get_node_creation_hooks()
        -> decltype(std::declval<Base&>().get_node_creation_hooks()) override {
        return static_cast<Base*>(previous)->get_node_creation_hooks();
    }
};

class DelegatingEngine final : public HandsOnNodeHooks<Engine> {
  public:
    ~DelegatingEngine() override { stop(); }

    torch::autograd::variable_list execute(
        torch::autograd::edge_list const& roots,
        torch::autograd::variable_list const& inputs,
        bool keep_graph,
        bool create_graph,
        bool accumulate_grad,
        torch::autograd::edge_list const& outputs
    ) override {
        // Debug info goes along to the threads that run this backward.
        static std::atomic<std::int64_t> backwards{0};
        Backward backward{roots, outputs, backwards.fetch_add(1)};
        c10::DebugInfoGuard const along(
            kCarriedKind, std::make_shared<Carried>(recorder_here(), std::move(backward))
        );
        return previous->execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    }

    c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
        std::shared_ptr<torch::autograd::GraphTask> const& task,
        NodePtr root,
        torch::autograd::InputBuffer&& input
    ) override {
        return previous->execute_with_graph_task(task, std::move(root), std::move(input));
    }

    std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
        return previous->make_anomaly_metadata();
    }

    std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
        Recorder const& recorder = recorder_here();
        if (recorder.session == nullptr || !ours_to_save(recorder)) {
            return previous->get_default_saved_variable_hooks();
        }
        return std::make_unique<SavedHook>(recorder.session);
    }

  private:
    /// Not while tracing, and not under hooks that Python pushed after us (checkpoint does).
    static bool ours_to_save(Recorder const& recorder) {
        auto const& python = at::SavedTensorDefaultHooks::get_tls_state();
        return !python.is_tracing && python.stack.size() <= recorder.python_hooks;
    }
};

Engine& delegating_engine() {
    static auto* const engine = new DelegatingEngine;  // leaked: graphs may outlive main()
    return *engine;
}

}  // namespace

void install_engine() {
    static std::once_flag once;
    std::call_once(once, [] {
        previous = &Engine::get_default_engine();
        (void)delegating_engine();
        torch::autograd::set_default_engine_stub(delegating_engine);
    });
}

Recorder& thread_recorder() {
    static thread_local Recorder recorder;
    return recorder;
}

Backward const* backward_here() {
    Carried const* const carried = carried_here();
    return carried == nullptr ? nullptr : &carried->backward;
}

std::size_t python_hook_depth() {
    return at::SavedTensorDefaultHooks::get_tls_state().stack.size();
}

}  // namespace spillway
