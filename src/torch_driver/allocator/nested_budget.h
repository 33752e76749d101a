// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The budget of a session that may be inside another one, and may have others inside it: what a
// session inside allocates counts here and there, so that both budgets hold.
#pragma once

#include "base/mutex.h"
#include "memory/device.h"
#include "torch_driver/allocator/loan.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace spillway {

/// What a budget asks of its session.
///
/// Thread  every function may be called from any thread
class BudgetOwner {
  public:
    BudgetOwner() = default;
    BudgetOwner(BudgetOwner const&) = delete;
    BudgetOwner& operator=(BudgetOwner const&) = delete;
    virtual ~BudgetOwner() = default;

    /// Whether it counts and caps what its threads allocate.
    [[nodiscard]] virtual bool caps() const = 0;
    /// Lets values go, as for an allocation of `size_bytes`. False: nothing eligible is left.
    [[nodiscard]] virtual bool make_room(std::int64_t size_bytes) = 0;
    /// The same for another session's thread, which has the turn there. False also where this one's
    /// turn does not come soon.
    [[nodiscard]] virtual bool make_room_for_another(std::int64_t size_bytes) = 0;
    /// As SessionOptions::opened_at.
    [[nodiscard]] virtual std::string const& opened_at() const = 0;
};

/// Owned by its session, and reached through pointers that keep that session.
///
/// Thread  any; no mutex is held while a session makes room
class NestedBudget {
  public:
    /// `owner` outlives it.
    NestedBudget(std::shared_ptr<Device> device, BudgetOwner& owner);

    /// What is allocated in `inner` from now on counts in `outer`, too. Does nothing where they
    /// were entered the other way round before: it counts there already.
    static void nest(
        std::shared_ptr<NestedBudget> const& inner, std::shared_ptr<NestedBudget> const& outer
    );

    /// What this one's session allocates counts in `other`, too, at one or more levels.
    [[nodiscard]] bool is_inside(NestedBudget const& other);

    [[nodiscard]] std::shared_ptr<Device> const& device() const { return device_; }
    [[nodiscard]] bool caps() const { return owner_.caps(); }
    [[nodiscard]] bool make_room(std::int64_t size_bytes) { return owner_.make_room(size_bytes); }

    /// Sets `bytes` of this budget aside for one inside it, on a device of host memory; where they
    /// are not free, `make_room` frees them.
    [[nodiscard]] bool lend(std::int64_t bytes, bool make_room);

    /// Makes room for an allocation of the session's own, before its own values leave for that:
    /// takes back what it lent and is not in use, or borrows. As the `last_resort`, when no value
    /// can leave any more, what sessions inside can let go is taken back, too. True: room was made,
    /// or the lender bounds this one no more.
    [[nodiscard]] bool borrow(std::int64_t size_bytes, bool last_resort);

    /// Takes back what sessions inside do not use; returns how much that was.
    std::int64_t trim_borrowers();

    /// As Loan::refusal.
    [[nodiscard]] std::optional<Refusal> refusal(std::int64_t size_bytes) {
        return loan_.refusal(size_bytes);
    }
    [[nodiscard]] std::string const& opened_at() const { return owner_.opened_at(); }

  private:
    /// Whose room can become this one's. One that was entered here before may borrow host memory
    /// of another session now, and gives it back to that one.
    [[nodiscard]] std::vector<std::shared_ptr<NestedBudget>> borrowers();
    void add_borrower(std::shared_ptr<NestedBudget> const& inner);

    std::shared_ptr<Device> const device_;  ///< shared with the session
    BudgetOwner& owner_;
    Loan loan_;                                 ///< of the budget around this one
    std::atomic<bool> asks_borrowers_ = false;  ///< to let values go, as the last resort
    std::atomic<std::thread::id> asker_;        ///< the thread that does; none: the default one
    Mutex mutex_;
    std::vector<std::weak_ptr<NestedBudget>> borrowers_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
