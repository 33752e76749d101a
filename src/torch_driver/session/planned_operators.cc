// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/planned_operators.h"

#include <utility>

namespace spillway {

namespace {

constexpr std::int64_t kEntriesToLearn = 2;

}  // namespace

std::shared_ptr<OperatorSet const> PlannedOperators::to_record(
    std::int64_t plan, std::int64_t made_again, c10::function_ref<OperatorSet()> used
) {
    if (has_given_up_) {
        return nullptr;
    }
    if (plan != plan_) {
        *this = PlannedOperators();
        plan_ = plan;
        made_again_ = made_again;  // until here it was not by this plan
        used_ = used().size();
    }
    if (known_ == nullptr && made_again > made_again_) {
        made_again_ = made_again;
        OperatorSet now = used();
        entries_ = now.size() != used_ ? 0 : entries_ + 1;
        used_ = now.size();
        if (entries_ >= kEntriesToLearn) {
            known_ = std::make_shared<OperatorSet const>(std::move(now));
        }
    }
    return known_;
}

}  // namespace spillway
