// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The results of a run, as written to the file that --json names. Free of torch.
#pragma once

#include "spillway/report.h"
#include "train/gradient_error.h"
#include "train/process_stats.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway::train {

/// The loss on held-out text after so many updates.
struct Validation {
    std::int64_t step = 0;
    float loss = 0;
};

/// Filled as the run goes, so that a failed one reports what it knows.
struct Results {
    bool ok = false;
    std::string error;            ///< empty: none
    std::int64_t first_step = 0;  ///< more than 0 in a resumed run
    std::vector<float> losses;
    std::vector<double> step_seconds;
    std::vector<double> forward_seconds;  ///< of each step, its forwards to the loss
    std::vector<Validation> validation;
    std::int64_t tokens_per_step = 0;
    std::string device = "cpu";
    std::optional<DeviceMemory> device_memory;  ///< nothing on the CPU
    std::optional<std::int64_t> allocator_peak_bytes;
    std::optional<std::int64_t> process_peak_bytes;
    std::optional<std::int64_t> baseline_rss_bytes;
    std::optional<DiskBytes> disk_before;
    std::optional<DiskBytes> disk_after;
    std::optional<Report> report;
    std::optional<GradientErrors> gradient_errors;
    std::string settings;  ///< JSON text
};

/// The median of the steps after the first, which pays for what later ones reuse; the first when
/// there is no other; 0 when there is none.
[[nodiscard]] double usual_step_seconds(Results const& results);

/// "20 steps, loss 5.6370 to 3.0213, 6.12 s a step, device peak 697.4 MiB, process peak 882.8 MiB"
[[nodiscard]] std::string summary_of(Results const& results);

/// JSON, losses in the shortest form that reads back as the same float.
[[nodiscard]] std::string text_of(Results const& results);

}  // namespace spillway::train
