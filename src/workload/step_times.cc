// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/step_times.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace spillway {

namespace {

constexpr double kMostNs = 1e15;  ///< what a trace can hold

double bytes_of(Tape const& tape, std::vector<TapeTensor> const& tensors) {
    double bytes = 0;
    for (TapeTensor const tensor : tensors) {
        bytes += static_cast<double>(tape.tensors()[tensor.number].size_bytes);
    }
    return bytes;
}

double moved_bytes(Tape const& tape, std::size_t at, StepRates const& rates) {
    TapeOperator const& what = tape.operators()[at];
    return what.passes * (bytes_of(tape, what.inputs) + bytes_of(tape, tape.outputs(at))) +
           static_cast<double>(what.parameters * rates.parameter_bytes);
}

}  // namespace

std::int64_t time_ns(double flop, double moved_bytes, StepRates const& rates) {
    double const seconds =
        std::max(flop / rates.flop_per_s, moved_bytes / rates.memory_bytes_per_s);
    return static_cast<std::int64_t>(std::clamp(std::ceil(seconds * 1e9), 1.0, kMostNs));
}

std::int64_t forward_ns(Tape const& tape, std::size_t at, StepRates const& rates) {
    return time_ns(tape.operators()[at].flop, moved_bytes(tape, at, rates), rates);
}

std::int64_t backward_ns(Tape const& tape, std::size_t at, StepRates const& rates) {
    TapeOperator const& what = tape.operators()[at];
    double saved_bytes = 0;
    for (TapeSave const& save : what.saves) {
        saved_bytes += bytes_of(tape, {save.tensor});
    }
    for (std::size_t i = 0; i < what.outputs.size(); ++i) {
        saved_bytes += what.outputs[i].saved ? bytes_of(tape, {tape.outputs(at)[i]}) : 0;
    }
    double const gradient_bytes = static_cast<double>(what.parameters * rates.gradient_bytes);
    return time_ns(
        what.flop * what.backward_flops,
        moved_bytes(tape, at, rates) + saved_bytes + gradient_bytes,
        rates
    );
}

}  // namespace spillway
