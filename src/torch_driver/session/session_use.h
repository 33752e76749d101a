// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Who uses a session, and whether it therefore counts and caps what its threads allocate.
#pragma once

#include "torch_driver/session/forks.h"

#include <atomic>
#include <cstddef>

namespace spillway {

/// Thread  any; each part is an atomic of its own, no two are read together
class SessionUse {
  public:
    /// `caps_from_open`: it caps from its opening until `end_cap`, or until its owner and its last
    /// use have gone; else only from when it is entered until it lapses.
    explicit SessionUse(bool caps_from_open) : caps_from_open_(caps_from_open) {}

    /// Whether it counts and caps what its threads allocate: until `end_cap`, and, where its owner
    /// has gone or it has lapsed, only while it is in use: a thread is in it, an optimizer steps,
    /// or a backward of what it recorded runs. Graphs that torch alone still keeps cap nothing.
    [[nodiscard]] bool caps() const {
        return caps_ && !is_forked() && ((has_owner_ && !lapsed_) || is_in_use());
    }
    [[nodiscard]] bool caps_from_open() const { return caps_from_open_; }
    [[nodiscard]] bool is_in_use() const { return uses_.load(std::memory_order_relaxed) > 0; }
    [[nodiscard]] bool has_owner() const { return has_owner_; }

    void end_cap() { caps_ = false; }
    /// What is left of its graphs may be an error's: until it is entered again it caps only while
    /// it is in use. Not where it caps from its opening to its end.
    void lapse() { lapsed_ = !caps_from_open_; }
    /// Its public handle is gone.
    void owner_gone() { has_owner_ = false; }

    /// A thread is in it, or a backward of its graph runs.
    void begin() { ++uses_; }
    /// True where this was the last use, and there is no owner: nothing begins one any more.
    [[nodiscard]] bool end() { return --uses_ == 0 && !has_owner_ && !is_forked(); }

    /// A thread is in it, under so many hooks of Python's.
    void enter(std::size_t python_hooks) {
        python_hooks_ = python_hooks;
        lapsed_ = false;
        ++entered_;
        begin();
    }
    /// The thread has left it; its use goes on until `end`.
    void leave() { --entered_; }
    [[nodiscard]] bool is_entered() const { return entered_ > 0 && !is_forked(); }
    /// Where it was entered last.
    [[nodiscard]] std::size_t python_hooks() const { return python_hooks_; }

    /// This process is a child of the one that opened it: there it neither caps nor records.
    [[nodiscard]] bool is_forked() const { return forks_so_far() != forks_; }

  private:
    bool const caps_from_open_;
    int const forks_ = forks_so_far();
    std::atomic<bool> caps_ = true;
    std::atomic<bool> has_owner_ = true;
    std::atomic<bool> lapsed_ = false;
    std::atomic<int> uses_ = 0;
    std::atomic<int> entered_ = 0;
    std::atomic<std::size_t> python_hooks_ = 0;
};

}  // namespace spillway
