// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session that was entered inside another one has of that one's budget: the borrower's side
// (nested_budget.h has the lender's).
#pragma once

#include "base/mutex.h"
#include "base/refusal.h"
#include "memory/cpu_device.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace spillway {

class NestedBudget;

/// Host memory is borrowed of the lender's budget by and by, and what is not in use is given back
/// when the lender is short. A device that counts what all sessions allocate lends nothing: there
/// the lender's limit holds for the borrower, too.
///
/// Thread  any; no mutex of the loan is held while the lender makes room
class Loan {
  public:
    explicit Loan(std::shared_ptr<Device> borrower) : borrower_(std::move(borrower)) {}
    ~Loan() { end(); }
    Loan(Loan const&) = delete;
    Loan& operator=(Loan const&) = delete;

    /// What the borrower allocates from now on counts in `lender`'s budget. Where another lender
    /// still caps, its loan goes on.
    void begin(std::shared_ptr<NestedBudget> const& lender);

    /// Who lends, while that one caps; else null, and only its own budget bounds the borrower.
    [[nodiscard]] std::shared_ptr<NestedBudget> lender();

    /// NoRoom::outer_full, where the budget of the lender, or of who lends to that, has no room for
    /// `size_bytes`, and not the borrower's own; else none.
    [[nodiscard]] std::optional<Refusal> refusal(std::int64_t size_bytes);

    /// Makes room for them, where it is so; as the `last_resort` also where the borrower's budget
    /// is short of bytes that are the lender's.
    [[nodiscard]] bool extend(std::int64_t size_bytes, bool last_resort);

    /// It is being extended: the borrower's loop is in the middle of that.
    [[nodiscard]] bool is_asking() const { return asking_ > 0; }

    /// Gives back what is not in use; returns how much that was.
    std::int64_t trim();

  private:
    [[nodiscard]] CpuDevice* host() const { return dynamic_cast<CpuDevice*>(borrower_.get()); }
    [[nodiscard]] std::int64_t missing_bytes(std::int64_t size_bytes);
    [[nodiscard]] bool extend_host(NestedBudget& lender, std::int64_t size_bytes);
    void end();

    std::shared_ptr<Device> const borrower_;
    std::atomic<int> asking_ = 0;
    Mutex mutex_;
    std::weak_ptr<NestedBudget> lender_ SPILLWAY_GUARDED_BY(mutex_);
    /// The lender's device; null: there is no loan.
    std::shared_ptr<Device> lent_of_ SPILLWAY_GUARDED_BY(mutex_);
    std::int64_t own_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;  ///< in use when the loan began
    std::int64_t lent_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway
