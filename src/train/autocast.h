// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// torch's automatic mixed precision on one kind of device, for the length of a scope.
#pragma once

#include <ATen/autocast_mode.h>

namespace spillway::train {

/// With `wanted`, operators that gain from it run in bf16. Casts of weights are kept until the end
/// of the scope, as torch.autocast does.
class Autocast {
  public:
    Autocast(bool wanted, c10::DeviceType type) : wanted_(wanted), type_(type) {
        if (wanted_) {
            at::autocast::set_autocast_dtype(type_, at::kBFloat16);
            at::autocast::set_autocast_enabled(type_, true);
            at::autocast::increment_nesting();
        }
    }
    ~Autocast() {
        if (wanted_) {
            if (at::autocast::decrement_nesting() == 0) {
                at::autocast::clear_cache();
            }
            at::autocast::set_autocast_enabled(type_, false);
        }
    }
    Autocast(Autocast const&) = delete;
    Autocast& operator=(Autocast const&) = delete;

  private:
    bool wanted_;
    c10::DeviceType type_;
};

}  // namespace spillway::train
