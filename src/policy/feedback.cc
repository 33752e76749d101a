// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/feedback.h"

#include <numeric>
#include <utility>

namespace spillway {

std::optional<Plan> Feedback::took(std::int64_t step_ns, ReturnWaits waits_ns, Mend const& mend) {
    if (is_done_) {
        return std::nullopt;
    }
    if (before_ && step_ns >= before_ns_) {
        is_done_ = true;
        return std::exchange(before_, std::nullopt);
    }
    std::int64_t const waited_ns = std::accumulate(
        waits_ns.begin(),
        waits_ns.end(),
        std::int64_t{0},
        [](std::int64_t sum, auto const& wait) { return sum + wait.second; }
    );
    is_done_ = rounds_ == kMostRounds || waited_ns <= step_ns / kWaitsShare;
    if (is_done_) {
        return std::nullopt;
    }
    present_.waits_ns = std::move(waits_ns);
    Result<Plan> mended = mend(present_);
    is_done_ = !mended.ok() || mended->fates == present_.plan.fates;
    if (is_done_) {
        return std::nullopt;
    }
    ++rounds_;
    before_ = std::exchange(present_.plan, std::move(mended).value());
    before_ns_ = step_ns;
    return present_.plan;
}

}  // namespace spillway
