// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The trace of one step, made of what the loop reports to the executor.
#pragma once

#include "base/ids.h"
#include "base/phase.h"
#include "base/result.h"
#include "executor/event.h"
#include "memory/device.h"
#include "trace/trace.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

/// What the driver knows about a value that no event tells.
struct TraceWords {
    std::string module{};                       ///< that saved it; empty: not known
    std::string why_no_recipe{};                ///< empty: it has one, or nobody looked for one
    std::string dtype{};                        ///< "float32"; empty: not known
    std::optional<TensorClass> tensor_class{};  ///< to an operator that saves it; none: not told
    std::int64_t recipe_ns =
        0;  ///< of its recipe by the device; 0: as it was told when it was made
};

/// A point of the trace begins where a value is saved, where one is needed and where a phase
/// begins; what happens between an `ends_point` and the `begins_point` after it, such as a load, is
/// the runtime's and no compute.
///
/// Values that were saved before the trace began are part of the floor.
///
/// Thread  not thread-safe: the loop's mutex guards it
class TraceRecorder {
  public:
    explicit TraceRecorder(Device& device) : device_(device) {}
    /// A file that `open` made and nothing was written to is removed.
    ~TraceRecorder();
    TraceRecorder(TraceRecorder const&) = delete;
    TraceRecorder& operator=(TraceRecorder const&) = delete;

    /// Opens the file that `write` fills; what is in it stays until then.
    ///
    /// Fails   Errc::io naming the file
    [[nodiscard]] Result<void> open(std::string const& path);
    /// Empty: the trace goes to no file.
    [[nodiscard]] std::string const& path() const { return path_; }

    /// The step begins, and ends. `waited_ns`: what compute has waited for so far; on a device with
    /// streams, whose own times count, it is not used.
    void begin(std::string name, Phase phase, std::int64_t waited_ns);
    void end(Usage const& usage, std::int64_t waited_ns);
    [[nodiscard]] bool has_begun() const { return has_begun_; }

    /// The program calls, and goes on.
    void ends_point(std::int64_t waited_ns);
    void begins_point(std::int64_t waited_ns);

    /// The executor has answered `event`. `held_bytes` returns what values from one on take on the
    /// device now.
    void saw(Event const& event, std::function<std::int64_t(ValueId)> const& held_bytes);
    /// The driver counted the value, whose save comes next, as that occurrence; its event has the
    /// slot that it was matched with.
    void was_counted(ValueId value, std::int32_t occurrence) { counted_[value] = occurrence; }
    /// A class is told once for each operator that saves the value, in their order.
    void add_words(std::unordered_map<ValueId, TraceWords> const& words);

    /// Waits for the device, so that it knows the times.
    [[nodiscard]] Trace trace() const;
    /// Into the file that was opened.
    ///
    /// Fails   Errc::io naming the file
    [[nodiscard]] Result<void> write(Trace const& trace);

  private:
    struct Moment {
        std::int64_t at_ns = 0;
        std::int64_t waited_ns = 0;
        StreamEventRef on_stream;  ///< null on the host
    };

    void take(Saved const& event);
    void take(Need const& event);
    void take(PhaseBegan const& event);
    void take(Point const& event);
    void take(Made const& event);
    void take(Short const& event) { see(event.usage); }
    void take(Dropped const& event);
    template <typename Other>
    void take(Other const&) {}

    [[nodiscard]] Moment now(std::int64_t waited_ns) const;
    void see(Usage const& usage);
    void close_point();
    [[nodiscard]] std::int64_t duration_ns(Moment const& from, Moment const& to) const;
    /// The value's number in the trace; invalid: it is not part of it, or over.
    [[nodiscard]] ValueId at(ValueId value) const;

    Device& device_;
    std::string path_;
    std::ofstream file_;
    bool is_new_ = false;  ///< `open` made it, and nothing was written
    bool has_begun_ = false;
    Phase phase_ = Phase::setup;
    ValueId first_;  ///< of the trace's values; invalid: there is none
    Trace trace_;
    std::unordered_map<ValueId, ValueId> numbers_;       ///< of the values that live
    std::unordered_map<ValueId, ValueId> all_numbers_;   ///< and of those that are over
    std::unordered_map<ValueId, SaverClasses> classes_;  ///< by number
    std::unordered_map<ValueId, std::int32_t> counted_;  ///< where the event's slot is another
    TracePoint point_;                                   ///< under way
    bool is_at_boundary_ = false;                        ///< nothing was computed in it yet
    std::int64_t held_bytes_ = 0;                        ///< after the last event
    std::int64_t held_before_bytes_ = 0;                 ///< after the last event of the program
    Moment began_;
    Moment ended_;
    std::vector<std::pair<Moment, Moment>> times_;  ///< of the points in `trace_`
};

}  // namespace spillway
