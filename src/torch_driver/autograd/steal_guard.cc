// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/steal_guard.h"

#include "torch_driver/autograd/engine.h"
#include "torch_driver/python/python_lock.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

namespace {

struct Guard {
    int task = -1;  ///< the backward
    at::Tensor tensor;
};

struct Guards {
    std::mutex mutex;
    std::unordered_map<c10::TensorImpl*, Guard> all;
    std::map<int, std::size_t> of_task;  ///< how many; a task that has none is not there
    std::atomic<std::size_t> count = 0;  ///< of `all`
    std::size_t to_skip = 0;             ///< looks at all of them that are left out
};

Guards& guards() {
    static auto* const known = new Guards;  // leaked: graphs may outlive main()
    return *known;
}

/// Nobody else has it; a Python wrapper that nobody refers to does not count, as AccumulateGrad
/// sees it. Without Python's lock, which another thread may hold that waits for ours.
bool is_idle(at::Tensor const& tensor) {
    std::size_t const references = tensor.use_count();
    if (references != 2) {
        return references == 1;
    }
    PyObject const* const wrapper = tensor.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
    return wrapper != nullptr && python_references(wrapper) == 1;
}

/// Takes out those that `ends` is true of. Called with the mutex held; free what it returns
/// without.
template <typename Ends>
std::vector<at::Tensor> take_out(Guards& of, Ends const& ends) {
    std::vector<at::Tensor> ended;
    for (auto at = of.all.begin(); at != of.all.end();) {
        if (!ends(at->second)) {
            ++at;
            continue;
        }
        auto const counted = of.of_task.find(at->second.task);
        if (--counted->second == 0) {
            of.of_task.erase(counted);
        }
        ended.push_back(std::move(at->second.tensor));
        at = of.all.erase(at);
    }
    of.count = of.all.size();
    return ended;
}

void end_with(int task);

/// To be called once for the first guard of a backward that runs a node on this thread.
void end_with_this_backward(int task) {
    auto const end = [task](void*) { end_with(task); };
    keep_for_backward(std::shared_ptr<void>(&guards(), end));
    // That may be some time after the backward has returned, on a device's thread.
    torch::autograd::Engine::get_default_engine().queue_callback([] { end_idle_guards(true); });
}

/// The backward is over. Where it ran inside another one, its gradients may go on in that.
void end_with(int task) {
    int const outer = torch::autograd::get_current_graph_task_id();
    std::vector<at::Tensor> ended;  // goes after the lock: freeing runs foreign code
    bool is_first = false;
    {
        std::lock_guard const lock(guards().mutex);
        if (outer == -1 || outer == task) {
            ended = take_out(guards(), [&](Guard const& guard) { return guard.task == task; });
        } else if (auto const own = guards().of_task.extract(task); !own.empty()) {
            std::size_t& of_outer = guards().of_task[outer];
            is_first = of_outer == 0;
            of_outer += own.mapped();
            for (auto& [impl, guard] : guards().all) {
                guard.task = guard.task == task ? outer : guard.task;
            }
        }
    }
    if (is_first) {
        end_with_this_backward(outer);
    }
}

/// What unpack returns where torch makes a variable of it: a copy, for which it asks here.
class Guarded final : public c10::TensorImpl {
  public:
    explicit Guarded(at::Tensor tensor)
        : TensorImpl(tensor.unsafeGetTensorImpl()->key_set(), tensor.dtype(), tensor.device()),
          tensor_(std::move(tensor)) {
        set_version_counter(tensor_.unsafeGetTensorImpl()->version_counter());
    }

    c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
        c10::VariableVersion const& version, bool allows_change
    ) const override {
        auto copy = tensor_.unsafeGetTensorImpl()->shallow_copy_and_detach(version, allows_change);
        guard_from_stealing(at::Tensor(copy));
        return copy;
    }
    c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
        c10::VariableVersion&& version, bool allows_change
    ) const override {
        return shallow_copy_and_detach(std::as_const(version), allows_change);
    }

  private:
    at::Tensor const tensor_;
};

}  // namespace

void guard_from_stealing(at::Tensor const& handed_out) {
    int const task = torch::autograd::get_current_graph_task_id();
    if (task == -1) {
        return;
    }
    bool is_first = false;
    {
        std::lock_guard const lock(guards().mutex);
        Guard const guard{task, handed_out};
        if (!guards().all.emplace(handed_out.unsafeGetTensorImpl(), guard).second) {
            return;
        }
        is_first = guards().of_task[task]++ == 0;
        guards().count = guards().all.size();
    }
    if (is_first) {
        end_with_this_backward(task);
    }
}

at::Tensor guarded_when_wrapped(at::Tensor const& tensor) {
    return at::Tensor(c10::make_intrusive<Guarded>(tensor));
}

void end_idle_guards(bool now) {
    constexpr std::size_t kFew = 16;  // up to so many are all looked at each time
    if (guards().count.load(std::memory_order_relaxed) == 0) {
        return;
    }
    std::vector<at::Tensor> ended;  // goes after the lock: freeing runs foreign code
    std::lock_guard const lock(guards().mutex);
    if (!now && guards().to_skip > 0) {
        --guards().to_skip;
        return;
    }
    ended = take_out(guards(), [](Guard const& guard) { return is_idle(guard.tensor); });
    guards().to_skip = guards().all.size() / kFew;  // so that all looks together stay linear
}

std::size_t guards_from_stealing() {
    return guards().count.load();
}

}  // namespace spillway
