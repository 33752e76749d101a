// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How an executor chooses, its budgets, and the state that it begins with.
#pragma once

#include "base/eviction.h"
#include "base/place.h"
#include "plan/plan.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace spillway {

enum class ChooserKind : std::uint8_t {
    online,    ///< values leave when the budget asks, those needed last first; needs no plan
    keep_all,  ///< moves nothing, ever
    planned,   ///< reads the plan; what the plan does not know goes to `online`
};

/// In the order of ChooserKind.
inline constexpr std::array<std::string_view, 3> kChooserNames{"online", "keep_all", "planned"};
[[nodiscard]] std::string_view name_of(ChooserKind kind);

/// Budgets in bytes. A device limit of 0 is no limit; an away pool of 0 does not exist.
struct ExecutorOptions {
    ChooserKind chooser = ChooserKind::online;
    std::int64_t device_bytes = 0;
    std::int64_t host_bytes = 0;
    std::int64_t nvme_bytes = 0;
    std::int64_t nvme_value_bytes = 0;  ///< the largest value that may go to NVMe; 0: any may
    EvictionRule eviction = EvictionRule::next_use;  ///< of what is not planned

    bool operator==(ExecutorOptions const&) const = default;
};

/// All that an executor knows between steps, when no value lives and nothing is in flight: where a
/// recording that does not begin with the session begins.
struct ExecutorState {
    std::int64_t next_command = 0;
    std::int64_t next_block = 0;
    std::int64_t floor_bytes = 0;            ///< device bytes that no chooser controls, now
    std::int64_t floor_peak_bytes = 0;       ///< the highest in this step
    std::int64_t last_floor_peak_bytes = 0;  ///< in the step before
    bool in_backward = false;
    std::optional<std::int64_t> left_bytes{};       ///< in this step; see LeftBytes
    std::optional<std::int64_t> last_left_bytes{};  ///< in steps before
    std::vector<Pool> reported_full;  ///< pools already reported to the user as taking no more
    std::optional<Plan> plan{};       ///< the last that was given

    bool operator==(ExecutorState const&) const = default;
};

}  // namespace spillway
