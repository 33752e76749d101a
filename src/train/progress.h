// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The line that shows how a run goes. Free of torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace spillway::train {

/// What is shown of one step.
struct StepNews {
    std::int64_t step = 0;  ///< updates done, of `total`
    std::int64_t total = 0;
    double loss = 0;
    double tokens_per_s = 0;
    double seconds_left = 0;
    std::string device = "cpu";
    std::optional<std::int64_t> device_peak_bytes;  ///< nothing in a plain run
    std::optional<double> nvme_bytes_per_s;
};

/// "step 12/50 on cpu  loss 3.2145  1612 tokens/s  device peak 612.3 MiB  nvme 0.84 GB/s  4m12s
/// left"
[[nodiscard]] std::string line_of(StepNews const& news);

/// Writes to stderr: one line that is written over on a terminal, else a line at most every second
/// and for the first and the last step.
class Progress {
  public:
    Progress();
    ~Progress();
    Progress(Progress const&) = delete;
    Progress& operator=(Progress const&) = delete;

    void show(StepNews const& news);
    /// A line of its own, kept.
    void print(std::string const& line);
    /// The line on the terminal, if there is one, is kept; what comes next starts a new one.
    void end_line();

  private:
    bool terminal_ = false;
    bool line_open_ = false;
    std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace spillway::train
