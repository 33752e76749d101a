// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/qpo_plan.h"

#include "policy/forecast.h"
#include "policy/qpo.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace spillway {

namespace {

constexpr std::string_view kEightBits = "affine8:group=256,stochastic";
/// Of the quickest step: what is this near to it hides as well.
constexpr double kAsQuick = 1.01;

std::size_t place_of(TensorClass tensor_class) {
    return static_cast<std::size_t>(tensor_class);
}

/// Those that can move, in the order in which they become free to leave.
std::vector<ValueId> movable(StepView const& step) {
    std::vector<ValueId> order;
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        if (step.values[i].can_move()) {
            order.emplace_back(static_cast<std::int64_t>(i));
        }
    }
    std::stable_sort(order.begin(), order.end(), [&](ValueId one, ValueId other) {
        return step.free_ns(one) < step.free_ns(other);
    });
    return order;
}

Plan plan_by(PlanRequest const& request, StepView const& step, QpoSizes const& sizes) {
    TransferRates const rates = transfer_rates(request.machine, request.pool());
    std::vector<ValueId> moved = qpo_hidden(step, sizes, rates);
    std::vector<ValueId> rest;
    for (ValueId const id : movable(step)) {
        if (std::find(moved.begin(), moved.end(), id) == moved.end()) {
            rest.push_back(id);
        }
    }
    for (ValueId const id : fewest_that_fit(step, moved, rest, request.budgets.device_bytes)) {
        moved.push_back(id);
    }
    Plan plan;
    for (ValueId const id : moved) {
        plan.fates[step.slot_of(id)].codec = sizes.codecs[id.index()];
    }
    place_transfers(step, moved, rates, request.pool(), plan);
    keep_the_rest(step, plan);
    return plan;
}

struct TriedPlan {
    Plan plan;
    Forecast costs;
};

/// With each code, from the widest on, until one takes no longer than compute does. Widths that
/// change nothing are left out.
Result<std::vector<TriedPlan>> judge(PlanRequest const& request, StepView const& step) {
    std::vector<TriedPlan> judged;
    std::vector<std::string_view> last;
    for (QpoCodes const& codes : qpo_widths()) {
        QpoSizes const sizes = qpo_sizes(request.trace, codes);
        if (!judged.empty() && sizes.codecs == last) {
            continue;
        }
        last = sizes.codecs;
        Plan plan = plan_by(request, step, sizes);
        Result<Forecast> costs = forecast(request, request.budgets, plan);
        if (!costs.ok()) {
            return costs.error();
        }
        judged.push_back({std::move(plan), std::move(costs).value()});
        auto const compute_ns = static_cast<double>(step.begin_ns.back());
        Forecast const& of = judged.back().costs;
        if (of.fits && static_cast<double>(of.step_ns) <= kAsQuick * compute_ns) {
            break;
        }
    }
    return judged;
}

}  // namespace

std::vector<QpoCodes> qpo_widths() {
    QpoCodes narrowest;
    for (std::size_t i = 0; i < kTensorClasses; ++i) {
        std::string_view const codec = qpo_codec(static_cast<TensorClass>(i));
        narrowest[i] = codec == "identity" ? "" : codec;
    }
    std::vector<QpoCodes> widths(1);
    widths.push_back(widths.back());
    for (TensorClass const each : {TensorClass::mask, TensorClass::relu_output}) {
        widths.back()[place_of(each)] = narrowest[place_of(each)];
    }
    widths.push_back(widths.back());
    for (TensorClass const each : {TensorClass::linear_input, TensorClass::convolution_input}) {
        widths.back()[place_of(each)] = kEightBits;
    }
    widths.push_back(widths.back());
    for (TensorClass const each : {TensorClass::norm_input, TensorClass::activation_input}) {
        widths.back()[place_of(each)] = kEightBits;
    }
    widths.push_back(narrowest);
    return widths;
}

QpoSizes qpo_sizes(Trace const& trace, QpoCodes const& codes) {
    QpoSizes sizes;
    for (TraceValue const& value : trace.values) {
        std::string_view codec = codes[place_of(value.tensor_class)];
        std::int64_t bytes = value.size_bytes;
        if (!codec.empty()) {
            Result<std::int64_t> const coded = coded_bytes(codec, value);
            bytes = coded.ok() ? *coded : bytes;
            codec = coded.ok() ? codec : std::string_view();
        }
        sizes.away_bytes.push_back(bytes);
        sizes.codecs.push_back(codec);
    }
    return sizes;
}

std::vector<ValueId> qpo_hidden(
    StepView const& step, QpoSizes const& sizes, TransferRates const& rates
) {
    std::vector<ValueId> hidden;
    std::int64_t coder_free_ns = 0;
    std::int64_t link_free_ns = 0;
    std::int64_t deadline_ns = step.begin_ns.back();
    for (ValueId const id : movable(step)) {
        bool const is_coded = !sizes.codecs[id.index()].empty();
        std::int64_t const coded_bytes = is_coded ? step.trace.values[id.index()].size_bytes : 0;
        std::int64_t const away_bytes = sizes.away_bytes[id.index()];
        std::int64_t const free_ns = step.free_ns(id);
        std::int64_t const coded_ns =
            is_coded ? std::max(coder_free_ns, free_ns) + took_ns(coded_bytes, rates.codec.encode)
                     : free_ns;
        std::int64_t const out_ns =
            std::max(link_free_ns, coded_ns) + rates.latency_ns + took_ns(away_bytes, rates.out);
        std::int64_t const need_ns = step.begin_ns[*step.values[id.index()].needed] -
                                     took_ns(coded_bytes, rates.codec.decode);
        std::int64_t const back_from_ns =
            std::min(deadline_ns, need_ns) - rates.latency_ns - took_ns(away_bytes, rates.in);
        if (out_ns > back_from_ns) {
            continue;
        }
        coder_free_ns = is_coded ? coded_ns : coder_free_ns;
        link_free_ns = out_ns;
        deadline_ns = back_from_ns;
        hidden.push_back(id);
    }
    return hidden;
}

Result<Plan> plan_qpo(PlanRequest const& request) {
    if (codec_rates(request.machine).encode <= 0) {
        return Error{
            Errc::unsupported,
            "how fast the machine encodes is not known: its file has neither the device's "
            "codec_bytes_per_s nor its memory_bytes_per_s",
            ""};
    }
    StepView const step(request.trace);
    Result<std::vector<TriedPlan>> judged = judge(request, step);
    if (!judged.ok()) {
        return judged.error();
    }
    std::optional<std::int64_t> quickest_ns;
    for (TriedPlan const& each : *judged) {
        if (each.costs.fits) {
            quickest_ns = std::min(quickest_ns.value_or(each.costs.step_ns), each.costs.step_ns);
        }
    }
    for (TriedPlan& each : *judged) {
        bool const is_quick =
            quickest_ns && each.costs.fits &&
            static_cast<double>(each.costs.step_ns) <= kAsQuick * static_cast<double>(*quickest_ns);
        if (is_quick) {
            return std::move(each.plan);
        }
    }
    return std::move(judged->back().plan);  // whose refusal says what is missing
}

}  // namespace spillway
