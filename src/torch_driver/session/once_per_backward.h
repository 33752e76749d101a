// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Something that is done once a backward, by whichever of its nodes comes first.
#pragma once

#include <torch/csrc/autograd/graph_task.h>

#include <atomic>

namespace spillway {

/// Thread  any
class OncePerBackward {
  public:
    /// The calling thread runs a node of a backward that was not the last to be `first` in.
    [[nodiscard]] bool is_new() const {
        int const task = torch::autograd::get_current_graph_task_id();
        return task != -1 && last_.load(std::memory_order_relaxed) != task;
    }
    /// As `is_new`, and the backward is new no more: of threads that ask at once, one gets true.
    [[nodiscard]] bool first() {
        int const task = torch::autograd::get_current_graph_task_id();
        return is_new() && last_.exchange(task) != task;
    }

  private:
    std::atomic<int> last_ = -1;  ///< a graph task; -1: none
};

}  // namespace spillway
