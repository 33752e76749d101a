// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/nested_budget.h"

#include "memory/cpu_device.h"

#include <c10/util/ScopeExit.h>

#include <utility>

namespace spillway {

NestedBudget::NestedBudget(std::shared_ptr<Device> device, BudgetOwner& owner)
    : device_(std::move(device)), owner_(owner), loan_(device_) {}

bool NestedBudget::is_inside(NestedBudget const& other) {
    std::shared_ptr<NestedBudget> const outer = loan_.lender();
    return outer != nullptr && (outer.get() == &other || outer->is_inside(other));
}

void NestedBudget::nest(
    std::shared_ptr<NestedBudget> const& inner, std::shared_ptr<NestedBudget> const& outer
) {
    if (outer == inner || outer->is_inside(*inner)) {
        return;
    }
    inner->loan_.begin(outer);
    outer->add_borrower(inner);
}

void NestedBudget::add_borrower(std::shared_ptr<NestedBudget> const& inner) {
    MutexLock const lock(mutex_);
    std::erase_if(borrowers_, [&](auto const& borrower) {
        // By its owner: a pointer taken here could be the last one, and end a session under the
        // mutex.
        bool const is_inner = !borrower.owner_before(inner) && !inner.owner_before(borrower);
        return borrower.expired() || is_inner;
    });
    borrowers_.push_back(inner);
}

bool NestedBudget::lend(std::int64_t bytes, bool make_room) {
    if (asker_ == std::this_thread::get_id()) {
        return false;  // what it asks a borrower for is not lent to that one first
    }
    auto& device = dynamic_cast<CpuDevice&>(*device_);
    while (!device.lend(bytes)) {  // which keeps a page
        std::int64_t const needed = bytes + kArenaPageBytes;
        if (!make_room || asks_borrowers_ || !owner_.make_room(needed)) {
            return false;
        }
    }
    return true;
}

std::vector<std::shared_ptr<NestedBudget>> NestedBudget::borrowers() {
    std::vector<std::shared_ptr<NestedBudget>> living;
    {
        MutexLock const lock(mutex_);
        for (auto const& weak : borrowers_) {
            if (std::shared_ptr<NestedBudget> borrower = weak.lock()) {
                living.push_back(std::move(borrower));
            }
        }
    }
    std::erase_if(living, [&](auto const& borrower) {
        return device_->is_host() && borrower->loan_.lender().get() != this;
    });
    return living;
}

std::int64_t NestedBudget::trim_borrowers() {
    std::int64_t back = 0;
    for (auto const& borrower : borrowers()) {
        back += borrower->loan_.trim();
    }
    return back;
}

bool NestedBudget::borrow(std::int64_t size_bytes, bool last_resort) {
    if (last_resort && asks_borrowers_.exchange(true)) {
        return false;  // one that was asked asks back
    }
    if (last_resort) {
        asker_ = std::this_thread::get_id();
    }
    auto const asked = c10::make_scope_exit([&] {
        if (last_resort) {
            asker_ = std::thread::id();
            asks_borrowers_ = false;
        }
    });
    std::int64_t back = trim_borrowers();
    for (auto const& borrower : borrowers()) {
        if (last_resort && !borrower->loan_.is_asking() && back < size_bytes) {
            bool const has_freed = borrower->owner_.make_room_for_another(size_bytes - back);
            back += has_freed && !device_->is_host() ? size_bytes : 0;  // which all count as theirs
            back += borrower->loan_.trim();
        }
    }
    return back > 0 || loan_.extend(size_bytes, last_resort);
}

}  // namespace spillway
