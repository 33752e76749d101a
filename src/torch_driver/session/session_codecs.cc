// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/session_codecs.h"

#include "base/clock.h"
#include "base/units.h"
#include "plan/planned_codec.h"
#include "session/given_plan.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <atomic>
#include <string>

namespace spillway {

namespace {

constexpr std::int64_t kStagingShare = 8;
constexpr std::int64_t kMostStagingBytes = 256_MiB;

/// What names the codecs: `codecs`, the plan, or the policy.
OptionFault of_codecs(SessionOptions const& options, OptionCode code, std::string detail = {}) {
    OptionFault fault{.code = code, .option = {}, .detail = std::move(detail)};
    if (!options.codecs.empty()) {
        fault.option = "codecs";
        fault.given = options.codecs;
    } else if (!options.plan.empty()) {
        fault.option = "plan";
        fault.given = options.plan;
    } else {
        fault.option = "policy";
        fault.given = options.policy;
    }
    return fault;
}

/// Whether the plan of a file, which was checked, names codecs.
bool plan_encodes(SessionOptions const& options) {
    std::optional<Plan> plan;
    return !read_given_plan(options, plan) && plan && has_codecs(*plan);
}

void check_lossy(SessionOptions const& options, CodecTable const& table) {
    std::optional<TensorClass> const lossy = first_lossy(table);
    if (lossy && !options.lossy) {
        std::string what =
            std::string(name_of(*lossy)) + '=' + to_text(table[static_cast<std::size_t>(*lossy)]);
        throw BadOption(of_codecs(options, OptionCode::loses_precision, std::move(what)));
    }
    if (options.lossy && at::globalContext().deterministicAlgorithms()) {
        throw BadOption({.code = OptionCode::not_deterministic, .option = "lossy"});
    }
}

std::string names_of_encoding_policies() {
    std::string names;
    for (Policy const& policy : policies()) {
        if (policy.codec_of != nullptr) {
            names += (names.empty() ? "" : ", ") + std::string(policy.name);
        }
    }
    return names;
}

/// One line for what no codec can do where nothing is encoded.
void refuse_lossy(SessionOptions const& options, std::string const& why) {
    OptionFault fault{.code = OptionCode::has_no_effect, .option = {}, .detail = why};
    if (options.lossy) {
        fault.option = "lossy";
    } else if (!options.codecs.empty()) {
        fault.option = "codecs";
        fault.given = options.codecs;
    } else if (options.nonfinite == "refuse") {
        fault.option = "nonfinite";
        fault.given = options.nonfinite;
    } else {
        return;
    }
    throw BadOption(std::move(fault));
}

}  // namespace

void check_or_throw(SessionOptions const& options) {
    if (std::optional<OptionFault> wrong = check_options(options)) {
        throw BadOption(*std::move(wrong));
    }
}

Policy const& policy_of(SessionOptions const& options) {
    Policy const* const policy = find_policy(options.policy);
    TORCH_INTERNAL_ASSERT(policy != nullptr, "options are checked before they are used");
    return *policy;
}

ChooserKind chooser_of(SessionOptions const& options) {
    return policy_of(options).moves ? ChooserKind::online : ChooserKind::keep_all;
}

std::uint64_t rounding_seed_of(SessionOptions const& options) {
    static std::atomic<std::uint64_t> opened = 0;
    std::uint64_t const number = opened++;
    if (options.rounding_seed >= 0) {
        return static_cast<std::uint64_t>(options.rounding_seed);
    }
    std::uint64_t const of_torch = at::detail::getDefaultCPUGenerator().current_seed();
    return c10::hash_combine(
        of_torch, c10::hash_combine(static_cast<std::uint64_t>(options.rank), number)
    );
}

NonFinite non_finite_of(SessionOptions const& options) {
    return options.nonfinite == "keep" ? NonFinite::keep : NonFinite::refuse;
}

std::optional<CodecTable> codecs_of(SessionOptions const& options) {
    check_or_throw(options);
    Policy const& policy = policy_of(options);
    // Below the budget a plan's other values move, too: what `sqrt_checkpoint` cannot make again.
    if (!policy.moves && policy.make_plan == nullptr) {
        refuse_lossy(options, "policy " + options.policy + " moves nothing");
        return std::nullopt;
    }
    if (policy.codec_of == nullptr && options.codecs.empty() && !plan_encodes(options)) {
        refuse_lossy(
            options,
            "policy " + options.policy + " encodes nothing; name a codec, or another policy (" +
                names_of_encoding_policies() + ")"
        );
        return std::nullopt;
    }
    CodecTable table = table_of(policy);
    if (!options.codecs.empty()) {
        table = value_or_throw(with_codecs(table, options.codecs), "codecs");
    }
    check_lossy(options, table);
    return table;
}

void check_codecs(
    SessionOptions const& options, std::span<Codec const> codecs, SessionDevice const& device
) {
    for (Codec const& codec : codecs) {
        bool const is_used = codec.kind != CodecKind::identity;
        bool const is_coded_here =
            device.device->is_host() || (device.coder != nullptr && device.coder->codes(codec));
        if (is_used && !is_coded_here) {
            std::string what = to_text(codec) + " on " + options.device;
            throw BadOption(of_codecs(options, OptionCode::no_kernels, std::move(what)));
        }
    }
}

void check_away_pool(SessionOptions const& options, bool has_one) {
    if (!has_one) {
        throw BadOption(of_codecs(options, OptionCode::no_tier));
    }
}

HostMemory open_coded_staging(SessionOptions const& options, SessionDevice const& device) {
    std::int64_t const share = options.device_budget_bytes / kStagingShare;
    std::int64_t const bytes = share > 0 ? std::min(share, kMostStagingBytes) : kMostStagingBytes;
    return value_or_throw(device.host_memory(bytes), "device_budget_bytes");
}

std::unique_ptr<CodecRule> make_rule(
    SessionOptions const& options,
    CodecTable const& table,
    std::optional<Plan> const& plan,
    Loop& loop
) {
    Measures measures{
        [&loop] { return steady_now_ns() - loop.stalled_ns(); }, [&loop] { return loop.report(); }};
    if (plan && has_codecs(*plan)) {
        return std::make_unique<PlannedRule>(table, std::move(measures), *plan);
    }
    Policy const& policy = policy_of(options);
    if (policy.make_rule == nullptr) {
        return std::make_unique<CodecRule>(table, std::move(measures));
    }
    return std::make_unique<PolicyRule>(table, std::move(measures), policy.make_rule());
}

}  // namespace spillway
