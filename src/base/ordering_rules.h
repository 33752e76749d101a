// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The rules of order on devices whose streams run late. In a build with SPILLWAY_MUTANTS each can
// be broken by name, to see that the tests notice (make mutants); in all others they always hold,
// at no cost.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace spillway {

enum class OrderingRule : std::uint8_t {
    store_waits_for_its_producer,       ///< copy-out waits for the stream that made the bytes
    store_waits_for_every_user,         ///< and for the other streams that saved them
    store_keeps_its_source,             ///< the tensor lives until a stream waits for the copy
    drop_waits_for_the_store,           ///< the block's stream waits before the block is freed
    drop_waits_for_every_user,          ///< and for the other streams that saved it
    load_waits_for_its_target,          ///< copy-in waits for the stream whose block it fills
    load_waits_for_its_store,           ///< copy-in waits for the copy-out of the same bytes
    need_waits_for_the_load,            ///< what backward reads is there: its streams wait
    asking_stream_waits_too,            ///< also where it is not the one of the target
    every_asking_stream_waits,          ///< and so does every later one, while the copy runs
    write_waits_for_the_store,          ///< a value is written after the copy-out that reads it
    release_waits_for_the_load,         ///< a target given up is freed after its copy-in
    target_belongs_to_its_stream,       ///< a target is allocated on the stream that will use it
    free_waits_for_every_user,          ///< a value handed to other streams is freed after them
    room_outlives_the_store,            ///< a block's room is released after its copy-out
    room_outlives_the_load,             ///< and after its copy-in
    staging_is_read_after_the_copy,     ///< a tier reads staging when the copy-out has passed
    staging_outlives_the_store,         ///< staging is used again when the tier has read it
    staging_is_copied_after_the_load,   ///< copy-in reads staging when the tier has filled it
    staging_outlives_the_copy,          ///< staging is used again when the copy-in has passed
    staged_drop_waits_for_the_tier,     ///< a block is freed when its bytes are safe on the tier
    coded_copy_waits_for_its_encode,    ///< copy-out of coded bytes waits for the encode
    coded_bytes_are_sealed_when_there,  ///< the host sums coded bytes when the copy-out has passed
    decode_waits_for_its_copy,          ///< a decode waits for the copy-in of its coded bytes
    coded_room_outlives_the_decode,     ///< coded staging is used again when the decode has passed
    closing_waits_for_copies,           ///< memory goes when no copy uses it any more
    recompute_waits_for_sources,        ///< a recipe reads what other streams wrote after them
    copies_wait_for_the_value,      ///< so do sums of what goes, and copies of what it is made of
    sources_outlive_the_recompute,  ///< a source is freed after the recipe that reads it
    users_wait_for_the_recompute,   ///< so do streams that use what another one made again
};

inline constexpr std::array<std::string_view, 30> kOrderingRuleNames{
    "store_waits_for_its_producer",
    "store_waits_for_every_user",
    "store_keeps_its_source",
    "drop_waits_for_the_store",
    "drop_waits_for_every_user",
    "load_waits_for_its_target",
    "load_waits_for_its_store",
    "need_waits_for_the_load",
    "asking_stream_waits_too",
    "every_asking_stream_waits",
    "write_waits_for_the_store",
    "release_waits_for_the_load",
    "target_belongs_to_its_stream",
    "free_waits_for_every_user",
    "room_outlives_the_store",
    "room_outlives_the_load",
    "staging_is_read_after_the_copy",
    "staging_outlives_the_store",
    "staging_is_copied_after_the_load",
    "staging_outlives_the_copy",
    "staged_drop_waits_for_the_tier",
    "coded_copy_waits_for_its_encode",
    "coded_bytes_are_sealed_when_there",
    "decode_waits_for_its_copy",
    "coded_room_outlives_the_decode",
    "closing_waits_for_copies",
    "recompute_waits_for_sources",
    "copies_wait_for_the_value",
    "sources_outlive_the_recompute",
    "users_wait_for_the_recompute",
};

#ifdef SPILLWAY_MUTANTS
/// The rule that is broken from now on, by its number; -1: none.
inline std::int32_t broken_rule = -1;
[[nodiscard]] inline bool keeps(OrderingRule rule) {
    return broken_rule != static_cast<std::int32_t>(rule);
}
#else
[[nodiscard]] constexpr bool keeps(OrderingRule) {
    return true;
}
#endif

}  // namespace spillway
