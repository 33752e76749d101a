// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Whether answers keep what executor.h promises of room and of the ledger. What breaks a promise is
// remembered by the memory (VirtualMemory::verdict). What a single command may break is checked
// where it is carried out.
#pragma once

#include "executor/executor.h"
#include "simulator/memory.h"
#include "simulator/virtual_mover.h"

#include <cstdint>

namespace spillway {

/// Thread  not thread-safe
class Promises {
  public:
    /// All outlive it.
    Promises(ExecutorOptions const& options, VirtualMemory& memory, VirtualMover const& mover)
        : options_(options), memory_(memory), mover_(mover) {}

    /// A `short` is to be answered now.
    void short_begins();
    /// It was, and its answer carried out: there is room for `size_bytes`, or it was refused with
    /// reason, where no command failed meanwhile.
    void short_answered(std::int64_t size_bytes, bool ok);

    /// When nothing is under way to the executor, it counts as held what is.
    void check_held(LedgerView const& ledger);
    /// Every value was dropped, and nothing is under way.
    void check_empty(LedgerView const& ledger);

  private:
    void check_refusal(std::int64_t size_bytes);

    ExecutorOptions const& options_;
    VirtualMemory& memory_;
    VirtualMover const& mover_;
    std::int64_t faults_before_ = 0;
    std::int64_t room_before_bytes_ = 0;
};

}  // namespace spillway
