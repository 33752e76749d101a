// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// For the loop's own files.
#pragma once

#include "session/loop.h"

namespace spillway {

/// While it lives the program computes nothing, as far as a trace counts.
class Loop::Pause {
  public:
    explicit Pause(Loop& loop);
    ~Pause();
    Pause(Pause const&) = delete;
    Pause& operator=(Pause const&) = delete;

  private:
    Loop& loop_;
};

}  // namespace spillway
