// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/steal_guard.h"

#include "torch_driver/autograd/engine.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
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
    std::vector<Guard> all;
    std::atomic<std::size_t> count = 0;  ///< of `all`
};

Guards& guards() {
    static auto* const known = new Guards;  // leaked: graphs may outlive main()
    return *known;
}

/// Takes out those that `ends` is true of.
template <typename Ends>
void end_guards(Ends const& ends) {
    if (guards().count.load(std::memory_order_relaxed) == 0) {
        return;
    }
    std::vector<Guard> ended;  // goes after the lock: freeing runs foreign code
    std::lock_guard const lock(guards().mutex);
    std::vector<Guard>& all = guards().all;
    auto const first =
        std::partition(all.begin(), all.end(), [&](Guard const& guard) { return !ends(guard); });
    ended.assign(std::make_move_iterator(first), std::make_move_iterator(all.end()));
    all.erase(first, all.end());
    guards().count = all.size();
}

}  // namespace

void guard_from_stealing(at::Tensor const& handed_out) {
    int const task = torch::autograd::get_current_graph_task_id();
    if (task == -1) {
        return;
    }
    bool is_first = false;
    {
        std::lock_guard const lock(guards().mutex);
        std::vector<Guard>& all = guards().all;
        bool const is_known = std::any_of(all.begin(), all.end(), [&](Guard const& guard) {
            return guard.tensor.is_same(handed_out);
        });
        if (is_known) {
            return;
        }
        is_first = std::none_of(all.begin(), all.end(), [&](Guard const& guard) {
            return guard.task == task;
        });
        all.push_back({task, handed_out});
        guards().count = all.size();
    }
    if (is_first) {
        auto const end = [task](void*) {
            end_guards([&](Guard const& guard) { return guard.task == task; });
        };
        keep_for_backward(std::shared_ptr<void>(&guards(), end));
    }
}

void end_idle_guards() {
    // As AccumulateGrad asks it: a Python wrapper that nobody refers to does not count.
    end_guards([](Guard const& guard) {
        return torch::autograd::impl::is_tensor_stealable(guard.tensor);
    });
}

std::size_t guards_from_stealing() {
    return guards().count.load();
}

}  // namespace spillway
