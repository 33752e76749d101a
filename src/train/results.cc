// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/results.h"

#include "spillway/units.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace spillway::train {

namespace {

using OrderedJson = nlohmann::ordered_json;

template <typename T>
OrderedJson or_null(std::optional<T> const& value) {
    return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

// The double whose shortest form is the float's shortest form, so that JSON shows that one.
OrderedJson shortest(float value) {
    if (!std::isfinite(value)) {
        return nullptr;
    }
    std::array<char, 32> text{};
    char const* const end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    double wide = 0;
    std::from_chars(text.data(), end, wide);
    return wide;
}

OrderedJson of_device(Results const& results, std::int64_t DeviceMemory::*bytes) {
    return results.device_memory ? OrderedJson(*results.device_memory.*bytes)
                                 : OrderedJson(nullptr);
}

OrderedJson moved(Results const& results, std::int64_t DiskBytes::*direction) {
    if (!results.disk_before || !results.disk_after) {
        return nullptr;
    }
    return *results.disk_after.*direction - *results.disk_before.*direction;
}

// JSON has no infinity: of a gradient whose exact one is 0.
OrderedJson finite(double number) {
    return std::isfinite(number) ? OrderedJson(number) : OrderedJson(nullptr);
}

OrderedJson of_gradients(Results const& results) {
    if (!results.gradient_errors) {
        return nullptr;
    }
    OrderedJson parameters = OrderedJson::object();
    for (auto const& parameter : results.gradient_errors->parameters) {
        parameters[parameter.name] = finite(parameter.error);
    }
    return {
        {"all", finite(results.gradient_errors->all)},
        {"decoded_bytes", results.gradient_errors->decoded_bytes},
        {"parameters", parameters}};
}

}  // namespace

double usual_step_seconds(Results const& results) {
    std::vector<double> steps = results.step_seconds;
    if (steps.size() > 1) {
        steps.erase(steps.begin());
    }
    if (steps.empty()) {
        return 0;
    }
    auto const middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::nth_element(steps.begin(), middle, steps.end());
    return *middle;
}

std::string summary_of(Results const& results) {
    std::string line = std::to_string(results.losses.size()) + " steps";
    if (!results.losses.empty()) {
        std::array<char, 96> numbers{};
        std::snprintf(
            numbers.data(),
            numbers.size(),
            ", loss %.4f to %.4f, %.2f s a step",
            static_cast<double>(results.losses.front()),
            static_cast<double>(results.losses.back()),
            usual_step_seconds(results)
        );
        line += numbers.data();
    }
    if (!results.validation.empty()) {
        std::array<char, 48> number{};
        auto const loss = static_cast<double>(results.validation.back().loss);
        std::snprintf(number.data(), number.size(), ", on held-out text %.4f", loss);
        line += number.data();
    }
    if (results.allocator_peak_bytes) {
        line += ", device peak " + format_size(*results.allocator_peak_bytes);
    }
    if (results.device_memory) {
        line += ", " + results.device + " allocated " +
                format_size(results.device_memory->allocated_peak_bytes) + " and reserved " +
                format_size(results.device_memory->reserved_peak_bytes) + " at most";
    }
    if (results.process_peak_bytes) {
        line += ", process peak " + format_size(*results.process_peak_bytes);
    }
    return line;
}

std::string text_of(Results const& results) {
    OrderedJson losses = OrderedJson::array();
    for (float const loss : results.losses) {
        losses.push_back(shortest(loss));
    }
    OrderedJson validation = OrderedJson::array();
    for (Validation const& at : results.validation) {
        validation.push_back({{"step", at.step}, {"loss", shortest(at.loss)}});
    }
    double const seconds = usual_step_seconds(results);
    OrderedJson const tokens_per_second =
        seconds > 0 ? OrderedJson(static_cast<double>(results.tokens_per_step) / seconds)
                    : OrderedJson(nullptr);
    OrderedJson const all{
        {"format", "spillway.train"},
        {"version", 1},
        {"ok", results.ok},
        {"error", results.error.empty() ? OrderedJson(nullptr) : OrderedJson(results.error)},
        {"first_step", results.first_step},
        {"steps", results.losses.size()},
        {"losses", losses},
        {"validation", validation},
        {"step_seconds", results.step_seconds},
        {"forward_seconds", results.forward_seconds},
        {"tokens_per_second", tokens_per_second},
        {"device", results.device},
        {"device_allocated_peak_bytes", of_device(results, &DeviceMemory::allocated_peak_bytes)},
        {"device_reserved_peak_bytes", of_device(results, &DeviceMemory::reserved_peak_bytes)},
        {"allocator_peak_bytes", or_null(results.allocator_peak_bytes)},
        {"process_peak_bytes", or_null(results.process_peak_bytes)},
        {"baseline_rss_bytes", or_null(results.baseline_rss_bytes)},
        {"bytes_written", moved(results, &DiskBytes::written)},
        {"bytes_read", moved(results, &DiskBytes::read)},
        {"report",
         results.report ? OrderedJson::parse(to_json(*results.report)) : OrderedJson(nullptr)},
        {"gradient_error", of_gradients(results)},
        {"options",
         results.settings.empty() ? OrderedJson(nullptr) : OrderedJson::parse(results.settings)}};
    return all.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace spillway::train
