// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the executor asks for. A command names its lane and the fences it waits for, and yields a
// fence of its own: its id. A command whose fence failed does not run and fails itself.
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "base/refusal.h"

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace spillway {

enum class CommandKind : std::uint8_t {
    reserve,  ///< set `size_bytes` in `pool` aside: for `block`, or (device) for `value`'s return
    release,  ///< give that room back
    store,    ///< value -> block
    load,     ///< block -> the value's reserved device bytes
    run,      ///< `work` on a value or block, on a lane of its own
    bind,     ///< the reserved device bytes become the value's storage
    drop,     ///< the saved graph lets the value's device bytes go
    wait,     ///< the host waits for the fences in `after`
    raise,    ///< the event that this answers fails, with the Refusal in `message`
    note,     ///< report the Notice in `message` to the user, once
};

[[nodiscard]] std::string_view name_of(CommandKind kind);

/// What a `run` does.
enum class SideWork : std::uint8_t {
    none,
    encode,     ///< value -> coded bytes beside the device; the store that waits for it takes them
    decode,     ///< the coded bytes that its load brought -> the value's reserved device bytes
    recompute,  ///< the operators of the value's recipe -> its storage. Of a `drop`: that is how it
                ///< comes back, and what the recipe needs is kept until then
};

/// "none", "encode", "decode", "recompute".
[[nodiscard]] std::string_view name_of(SideWork work);

struct Command {
    CommandId id;
    CommandKind kind = CommandKind::note;
    Lane lane = Lane::compute;
    SideWork work = SideWork::none;
    ValueId value;
    BlockId block;
    Pool pool = Pool::device;
    std::int64_t size_bytes = 0;
    std::vector<CommandId> after;  ///< fences that must be passed first
    bool optional = false;         ///< a reserve that may be refused without harm (read-ahead)
    std::variant<std::monostate, Refusal, Notice> message;  ///< of `raise` and `note`

    bool operator==(Command const&) const = default;
};

}  // namespace spillway
