// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session's options specify about codecs: the rule for its saves, and memory for coded
// bytes.
#pragma once

#include "executor/executor_options.h"
#include "memory/host_memory.h"
#include "policy/catalog.h"
#include "session/codec_rule.h"
#include "session/loop.h"
#include "spillway/session.h"
#include "torch_driver/device/session_device.h"

#include <memory>
#include <optional>
#include <span>

namespace spillway {

/// Throws  BadOption: what check_options finds
void check_or_throw(SessionOptions const& options);

/// The codecs that `options` ask for; none where nothing is encoded, and then no save is looked at.
///
/// Throws  BadOption: what check_options finds, for everything below; a codec or class that does
///         not exist; what is lossy without `lossy`, or `lossy` where nothing could be or where
///         equal bits are asked for
[[nodiscard]] std::optional<CodecTable> codecs_of(SessionOptions const& options);

/// Throws  BadOption: one of them that `device` does not take
void check_codecs(
    SessionOptions const& options, std::span<Codec const> codecs, SessionDevice const& device
);

/// Throws  BadOption: what is encoded has no tier to go to
void check_away_pool(SessionOptions const& options, bool has_one);

/// The entry of `options.policy` in the catalogue.
[[nodiscard]] Policy const& policy_of(SessionOptions const& options);

/// The chooser that carries `options.policy` out.
[[nodiscard]] ChooserKind chooser_of(SessionOptions const& options);

/// A different one for each session that this process opens, unless the options specify it.
[[nodiscard]] std::uint64_t rounding_seed_of(SessionOptions const& options);

[[nodiscard]] NonFinite non_finite_of(SessionOptions const& options);

/// An eighth of the device budget, at most 256 MiB: half for what leaves, half for what returns.
/// There it counts in that budget; beside a device that codes itself it is pinned, and the mover
/// takes as much of the device.
///
/// Throws  BadOption
[[nodiscard]] HostMemory open_coded_staging(
    SessionOptions const& options, SessionDevice const& device
);

/// The rule of `table` over a session's loop, which outlives it; `plan`: whose codecs come first.
[[nodiscard]] std::unique_ptr<CodecRule> make_rule(
    SessionOptions const& options,
    CodecTable const& table,
    std::optional<Plan> const& plan,
    Loop& loop
);

}  // namespace spillway
