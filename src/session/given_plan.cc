// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/given_plan.h"

#include "session/codec_rule.h"
#include "session/input_files.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

bool moves_to(Plan const& plan, Pool pool) {
    return std::any_of(plan.fates.begin(), plan.fates.end(), [pool](auto const& entry) {
        return entry.second.kind == FateKind::move && entry.second.pool == pool;
    });
}

/// What of its codecs this session cannot have.
std::optional<OptionFault> check_codecs(SessionOptions const& options, Plan const& plan) {
    OptionFault fault{.option = "plan", .given = options.plan};
    Result<std::vector<Codec>> const codecs = codecs_of(plan);
    if (!codecs.ok()) {
        fault.detail = "'" + options.plan + "': " + codecs.error().message();
        return fault;
    }
    auto const lossy = std::find_if(codecs->begin(), codecs->end(), [](Codec const& codec) {
        return is_lossy(codec);
    });
    if (options.lossy || lossy == codecs->end()) {
        return std::nullopt;
    }
    fault.code = OptionCode::loses_precision;
    fault.detail = "what it moves=" + to_text(*lossy);
    return fault;
}

}  // namespace

std::optional<OptionFault> read_given_plan(
    SessionOptions const& options, std::optional<Plan>& plan
) {
    if (options.plan.empty()) {
        return std::nullopt;
    }
    Result<Plan> read = read_plan(options.plan);
    if (!read.ok()) {
        return OptionFault{
            .code = OptionCode::not_readable,
            .option = "plan",
            .given = options.plan,
            .detail = read.error().what};
    }
    if (std::optional<OptionFault> wrong = check_codecs(options, *read)) {
        return wrong;
    }
    if (read->policy.empty()) {
        read->policy = options.plan;  // reports have to call it something
    }
    plan = std::move(read).value();
    return std::nullopt;
}

std::optional<OptionFault> check_given_plan(
    SessionOptions const& options, Plan const& plan, Places const& places
) {
    if (options.recompute == "off" && makes_again(plan)) {
        return OptionFault{
            .code = OptionCode::makes_again, .option = "plan", .given = options.plan};
    }
    bool const lacks_nvme = !places.nvme && moves_to(plan, Pool::nvme);
    bool const lacks_host = !places.host && moves_to(plan, Pool::host);
    if (!lacks_nvme && !lacks_host) {
        return std::nullopt;
    }
    std::string const place = lacks_nvme ? "NVMe, and there is no folder for them (`nvme`)"
                                         : "host memory, and there is none for them "
                                           "(`host_budget_bytes`)";
    return OptionFault{
        .option = "plan",
        .given = options.plan,
        .detail = "'" + options.plan + "' moves saved tensors to " + place};
}

}  // namespace spillway
