// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "simulator/promises.h"

#include <algorithm>
#include <string>

namespace spillway {

void Promises::short_begins() {
    faults_before_ = mover_.faults();
    room_before_bytes_ = memory_.away_room_bytes();
}

void Promises::short_answered(std::int64_t size_bytes, bool ok) {
    if (mover_.faults() != faults_before_ || !memory_.verdict()) {
        return;
    }
    if (!ok) {
        check_refusal(size_bytes);
    } else if (!memory_.fits(size_bytes)) {
        memory_.broken(
            "a short of " + std::to_string(size_bytes) + " bytes was answered without room: " +
            std::to_string(memory_.used_bytes(Pool::device)) + " bytes used"
        );
    }
}

/// A refusal is only right when nothing that may leave is left.
void Promises::check_refusal(std::int64_t size_bytes) {
    if (options_.chooser == ChooserKind::keep_all || memory_.fits(size_bytes)) {
        return;
    }
    if (memory_.droppable_bytes() > 0) {
        memory_.broken("refused while values with a copy could be dropped");
        return;
    }
    // What the reply itself stored has taken room; what it waited for has given some back since.
    std::int64_t const room = std::min(room_before_bytes_, memory_.away_room_bytes());
    std::int64_t const storable = memory_.storable_bytes(room);
    if (mover_.tier_faults() == 0 && storable > 0) {
        memory_.broken(
            "refused while a value of " + std::to_string(storable) + " bytes could be stored"
        );
    }
}

void Promises::check_held(LedgerView const& ledger) {
    if (mover_.is_quiet() && ledger.held_bytes != memory_.held_bytes()) {
        memory_.broken(
            "the executor counts " + std::to_string(ledger.held_bytes) + " held bytes, there are " +
            std::to_string(memory_.held_bytes())
        );
    }
}

void Promises::check_empty(LedgerView const& ledger) {
    bool const is_empty =
        ledger.live_values == 0 && ledger.held_bytes == 0 &&
        std::all_of(ledger.reserved_bytes.begin(), ledger.reserved_bytes.end(), [](auto bytes) {
            return bytes == 0;
        });
    if (!is_empty) {
        memory_.broken("the executor's ledger is not empty after every value was dropped");
    }
}

}  // namespace spillway
