// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Keeps what the device's bytes were at their peak. The driver asks after each allocation whether a
// look is wanted, which is one comparison, and only then gathers what there is.
#pragma once

#include "base/ids.h"
#include "base/mutex.h"
#include "report/peak_split.h"
#include "spillway/owned.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

/// What is on the device at one moment, in bytes.
struct DeviceNow {
    OwnedBytes owned{};
    std::vector<std::pair<ValueId, std::int64_t>> saved = {};  ///< values that may leave
    std::int64_t read_ahead_bytes = 0;                         ///< and staging
};

/// Note [Few looks at the peak]
/// A look gathers hundreds of sizes, and in a first step almost every allocation is a new peak. So
/// the next look is due when the bytes are 1% above the last peak that was looked at: some 70 looks
/// while they double. Less is known in a first step than in the ones after it (optimizer state is
/// reported once the optimizer has created it), and those have no higher peak; so for some passes
/// after a rise, one look each is due as soon as the bytes are within 1% of the peak.
///
/// Thread  any; one mutex, and nothing else is called under it
class PeakWatch {
  public:
    using Modules = std::unordered_map<ValueId, std::string>;

    [[nodiscard]] bool wants(std::int64_t used_bytes) const {
        return used_bytes > next_bytes_.load(std::memory_order_relaxed);
    }
    /// `used_bytes` are on the device now; `now` breaks them down.
    void look(std::int64_t used_bytes, DeviceNow now);

    /// A forward begins, whose saves replace those of the last one. `modules` returns the modules
    /// of the latter; it is called only if a look was taken since.
    void begin_pass(std::function<Modules()> const& modules);

    /// Parts that sum to `peak_bytes`.
    [[nodiscard]] PeakSplit split(std::int64_t peak_bytes, std::function<Modules()> const& modules)
        const;

  private:
    [[nodiscard]] bool has_new_look() const;
    void name_modules(Modules const& modules);

    std::atomic<std::int64_t> next_bytes_ = -1;
    /// What the looks found.
    struct Looks {
        std::int64_t highest_bytes = 0;
        int passes_to_look = 0;
        DeviceNow at_peak;
        bool is_new = false;             ///< `at_peak` is of this pass
        std::vector<ModuleBytes> saved;  ///< of an `at_peak` that is not
    };

    mutable Mutex mutex_;
    Looks looks_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
