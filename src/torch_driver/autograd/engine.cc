// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/engine.h"

#include "torch_driver/autograd/saved_hook.h"
#include "torch_driver/compat.h"
#include "torch_driver/session/torch_session.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>

namespace spillway {

namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

Engine* previous = nullptr;  // the engine before ours: torch's own, or Python's

/// A backward, and who records it.
struct RunningBackward {
    ThreadRecording recording;
    Backward backward;
};

/// It on its way to the threads that run it. Those let go of this some time after the backward has
/// returned, so graph and session are dropped before.
class Carried final : public c10::DebugInfoBase {
  public:
    explicit Carried(RunningBackward running)
        : running_(std::make_shared<RunningBackward>(std::move(running))) {}

    [[nodiscard]] std::shared_ptr<RunningBackward const> running() const {
        std::lock_guard const lock(mutex_);
        return running_;
    }
    void end() {
        std::shared_ptr<RunningBackward const>
            going;  // goes after the lock: graphs free foreign things
        std::lock_guard const lock(mutex_);
        going.swap(running_);
    }

  private:
    mutable std::mutex mutex_;
    std::shared_ptr<RunningBackward const> running_;
};

constexpr std::string_view kCarriedName = "SPILLWAY_BACKWARD";
auto const kCarriedKind = debug_info_kind<c10::DebugInfoKind>(&kCarriedName);

/// What the calling thread runs a node of; null where it runs none.
std::shared_ptr<RunningBackward const> running_here() {
    auto const* const carried =
        static_cast<Carried const*>(c10::ThreadLocalDebugInfo::get(kCarriedKind));
    return carried == nullptr ? nullptr : carried->running();
}

/// Whose value a backward unpacked first on this thread.
struct Adopted {
    int task = -1;
    std::weak_ptr<TorchSession> session;
};

Adopted& adopted() {
    static thread_local Adopted here;
    return here;
}

ThreadRecording recording_of_adopted() {
    Adopted const& first = adopted();
    if (first.task == -1 || first.task != torch::autograd::get_current_graph_task_id()) {
        return {};
    }
    std::shared_ptr<TorchSession> session = first.session.lock();
    if (session == nullptr || !session->use().is_entered()) {
        return {};
    }
    std::size_t const python_hooks = session->use().python_hooks();
    return {std::move(session), python_hooks};
}

/// The calling thread's own recording, or the one of the backward that it runs.
ThreadRecording recording_here() {
    if (thread_recording().session != nullptr) {
        return thread_recording();
    }
    std::shared_ptr<RunningBackward const> const running = running_here();
    return running == nullptr ? recording_of_adopted() : running->recording;
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
        auto const carried =
            std::make_shared<Carried>(RunningBackward{recording_here(), Backward{roots, outputs}});
        c10::DebugInfoGuard const along(kCarriedKind, carried);
        auto const end = c10::make_scope_exit([&] { carried->end(); });
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
        if (thread_recording().session != nullptr) {
            return hooks_of(thread_recording());  // without a copy: this is asked at each save
        }
        return hooks_of(recording_here());
    }

  private:
    static std::unique_ptr<SavedVariableHooks> hooks_of(ThreadRecording const& recording) {
        if (recording.session == nullptr || !recording.session->use().is_entered() ||
            !ours_to_save(recording)) {
            return previous->get_default_saved_variable_hooks();
        }
        return std::make_unique<SavedHook>(recording.session);
    }

    /// Not while tracing, and not under hooks that Python pushed after us (checkpoint does).
    static bool ours_to_save(ThreadRecording const& recording) {
        auto const& python = at::SavedTensorDefaultHooks::get_tls_state();
        return !python.is_tracing && python.stack.size() <= recording.python_hooks;
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

ThreadRecording& thread_recording() {
    static thread_local ThreadRecording recording;
    return recording;
}

void adopt_backward(std::shared_ptr<TorchSession> const& session) {
    int const task = torch::autograd::get_current_graph_task_id();
    if (task == -1 || adopted().task == task || thread_recording().session != nullptr) {
        return;
    }
    auto const node = torch::autograd::get_current_node();
    if (node != nullptr && node->stream().has_value()) {  // else the thread that called runs it
        adopted() = {task, session};
    }
}

void keep_for_backward(std::shared_ptr<void> held) {
    Engine::get_default_engine().queue_callback([held = std::move(held)] {});
}

std::shared_ptr<Backward const> backward_here() {
    std::shared_ptr<RunningBackward const> const running = running_here();
    return running == nullptr ? nullptr
                              : std::shared_ptr<Backward const>(running, &running->backward);
}

Backward what_runs_here() {
    if (std::shared_ptr<Backward const> const known = backward_here(); known != nullptr) {
        return *known;
    }
    torch::autograd::Edge const now(torch::autograd::get_current_node(), 0);
    return now.function == nullptr ? Backward{} : Backward{{now}, {}};
}

std::size_t python_hook_depth() {
    return at::SavedTensorDefaultHooks::get_tls_state().stack.size();
}

}  // namespace spillway
