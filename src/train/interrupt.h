// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Ctrl-C, asked politely: the first one is noted, the second ends the process at once.
#pragma once

namespace spillway::train {

/// Watches SIGINT and SIGTERM while it lives; there is one at a time. A second signal exits 130.
class InterruptWatch {
  public:
    InterruptWatch();
    ~InterruptWatch();
    InterruptWatch(InterruptWatch const&) = delete;
    InterruptWatch& operator=(InterruptWatch const&) = delete;

    [[nodiscard]] bool asked() const;
};

}  // namespace spillway::train
