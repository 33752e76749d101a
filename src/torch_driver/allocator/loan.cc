// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/loan.h"

#include "base/units.h"
#include "torch_driver/allocator/nested_budget.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

/// Borrowed at once, where it is free: asking costs two locks. A choice, not a measurement.
constexpr std::int64_t kLoanBytes = 2 << 20;

}  // namespace

void Loan::begin(std::shared_ptr<NestedBudget> const& lender) {
    if (this->lender() != nullptr) {
        return;
    }
    MutexLock const lock(mutex_);
    lender_ = lender;
    lent_of_ = lender->device();
    if (CpuDevice const* const device = host()) {
        own_bytes_ = device->bounded_bytes();
        borrower_->bound(own_bytes_);
    } else {
        std::int64_t const limit = lent_of_->limit_bytes();
        borrower_->bound(limit > 0 ? limit : Device::kUnbound);
    }
}

std::shared_ptr<NestedBudget> Loan::lender() {
    std::shared_ptr<NestedBudget> lender;  // goes after the lock
    {
        MutexLock const lock(mutex_);
        lender = lender_.lock();
        if (lender != nullptr && lender->caps()) {
            return lender;
        }
    }
    end();
    return nullptr;
}

void Loan::end() {
    std::shared_ptr<Device> of;  // goes after the lock
    MutexLock const lock(mutex_);
    of = std::exchange(lent_of_, nullptr);
    if (of == nullptr) {
        return;
    }
    lender_.reset();
    borrower_->bound(Device::kUnbound);
    if (auto* const device = dynamic_cast<CpuDevice*>(of.get())) {
        device->take_back(std::exchange(lent_bytes_, 0));
    }
}

/// How far the lender's budget falls short of `size_bytes` more; 0 where the borrower's own is what
/// does: then its own values leave first.
std::int64_t Loan::missing_bytes(std::int64_t size_bytes) {
    std::int64_t const more = borrower_->rounded(size_bytes);
    std::int64_t const limit = borrower_->limit_bytes();
    std::int64_t const used = borrower_->used_bytes();
    MutexLock const lock(mutex_);
    if (lent_of_ == nullptr) {
        return 0;
    }
    if (CpuDevice const* const device = host()) {
        bool const own_is_short = limit > 0 && used + more > limit;
        std::int64_t const free = own_bytes_ + lent_bytes_ - device->bounded_bytes();
        return own_is_short || more <= free ? 0 : round_up(more - free, kArenaPageBytes);
    }
    std::int64_t const bound = lent_of_->limit_bytes();
    return bound > 0 ? std::max<std::int64_t>(used + more - bound, 0) : 0;
}

std::optional<Refusal> Loan::refusal(std::int64_t size_bytes) {
    std::shared_ptr<NestedBudget> const from = lender();
    if (from == nullptr || missing_bytes(size_bytes) == 0) {
        return std::nullopt;
    }
    if (std::optional<Refusal> of_one_further_out = from->refusal(size_bytes)) {
        return of_one_further_out;
    }
    Device const& device = *from->device();
    return Refusal{
        .why = NoRoom::outer_full,
        .asked_bytes = size_bytes,
        .used_bytes = device.used_bytes(),
        .limit_bytes = device.limit_bytes(),
        .opened_at = from->opened_at()};
}

bool Loan::extend(std::int64_t size_bytes, bool last_resort) {
    bool const had_one = [this] {
        MutexLock const lock(mutex_);
        return lent_of_ != nullptr;
    }();
    std::shared_ptr<NestedBudget> const from = lender();
    if (from == nullptr) {
        return had_one;  // nothing of its bounds the borrower any more
    }
    bool const is_shared = host() == nullptr;  // the lender's bytes count as the borrower's
    if (asking_ > 0 || (missing_bytes(size_bytes) == 0 && !(is_shared && last_resort))) {
        return false;
    }
    ++asking_;
    auto const asked = c10::make_scope_exit([this] { --asking_; });
    return is_shared ? from->make_room(borrower_->rounded(size_bytes))
                     : extend_host(*from, size_bytes);
}

bool Loan::extend_host(NestedBudget& lender, std::int64_t size_bytes) {
    std::int64_t granted = std::max(missing_bytes(size_bytes), kLoanBytes);
    if (!lender.lend(granted, false)) {
        trim();  // or the lender, short itself, would take that back in the middle of this
        granted = missing_bytes(size_bytes);
        if (!lender.lend(granted, true)) {
            return false;
        }
    }
    MutexLock const lock(mutex_);
    if (lent_of_ == nullptr) {  // it ended meanwhile: nothing of the lender's bounds any more
        dynamic_cast<CpuDevice&>(*lender.device()).take_back(granted);
        return true;
    }
    lent_bytes_ += granted;
    borrower_->bound(own_bytes_ + lent_bytes_);
    return true;
}

std::int64_t Loan::trim() {
    MutexLock const lock(mutex_);
    auto* const of = dynamic_cast<CpuDevice*>(lent_of_.get());
    if (of == nullptr) {
        return 0;
    }
    std::int64_t const unused = own_bytes_ + lent_bytes_ - host()->bounded_bytes();
    std::int64_t const back = std::clamp<std::int64_t>(unused, 0, lent_bytes_);
    if (!host()->try_bound(own_bytes_ + lent_bytes_ - back)) {
        return 0;  // a thread has just allocated it
    }
    lent_bytes_ -= back;
    of->take_back(back);
    return back;
}

}  // namespace spillway
