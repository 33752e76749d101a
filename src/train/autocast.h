// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// torch's automatic mixed precision on the CPU, for the length of a scope.
#pragma once

#include <ATen/autocast_mode.h>

namespace spillway::train {

/// With `wanted`, operators that gain from it run in bf16. Casts of weights are kept until the end
/// of the scope, as torch.autocast does.
class Autocast {
  public:
    explicit Autocast(bool wanted) : wanted_(wanted) {
        if (wanted_) {
            at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
            at::autocast::set_autocast_enabled(at::kCPU, true);
            at::autocast::increment_nesting();
        }
    }
    ~Autocast() {
        if (wanted_) {
            if (at::autocast::decrement_nesting() == 0) {
                at::autocast::clear_cache();
            }
            at::autocast::set_autocast_enabled(at::kCPU, false);
        }
    }
    Autocast(Autocast const&) = delete;
    Autocast& operator=(Autocast const&) = delete;

  private:
    bool wanted_;
};

}  // namespace spillway::train
