// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/refusal.h"

#include "base/units.h"

#include <fmt/format.h>

namespace spillway {

namespace {

std::string words_of(PoolRefusal const& refusal, char const* pool) {
    switch (refusal.state) {
        case PoolState::absent:
            break;
        case PoolState::full:
            return fmt::format("the {} budget is full", pool);
        case PoolState::failed:
            return fmt::format("{} takes no more ({})", pool, refusal.error);
        case PoolState::too_short:
            return fmt::format("what is left is too long for {}", pool);
    }
    return {};
}

std::string why_full(Refusal const& refusal) {
    std::string const host = words_of(refusal.host, "host");
    std::string const nvme = words_of(refusal.nvme, "NVMe");
    if (host.empty() || nvme.empty()) {
        return host.empty() ? nvme : host;
    }
    return host + ", and " + nvme;
}

std::string why(Refusal const& refusal, Face face) {
    switch (refusal.why) {
        case NoRoom::moves_nothing:
            return "the policy moves nothing";
        case NoRoom::no_pool:
            return with_option_names(
                "there is no host or NVMe budget to move anything to (give an NVMe folder, `nvme`, "
                "or `host_budget_bytes`)",
                face
            );
        case NoRoom::pools_full:
            return why_full(refusal);
        case NoRoom::nothing_to_move:
        case NoRoom::outer_full:
            break;
    }
    if (refusal.held_bytes == 0) {
        return "nothing else can leave";
    }
    return fmt::format(
        "nothing else can leave: {} of saved tensors are in use elsewhere, too (by the operator "
        "that runs, a variable, a list, a module's attribute or a checkpoint)",
        format_size(refusal.held_bytes)
    );
}

}  // namespace

std::string_view name_of(NoRoom why) {
    switch (why) {
        case NoRoom::moves_nothing:
            return "moves_nothing";
        case NoRoom::no_pool:
            return "no_pool";
        case NoRoom::pools_full:
            return "pools_full";
        case NoRoom::outer_full:
            return "outer_full";
        case NoRoom::nothing_to_move:
            break;
    }
    return "nothing_to_move";
}

std::string_view name_of(PoolState state) {
    switch (state) {
        case PoolState::absent:
            break;
        case PoolState::full:
            return "full";
        case PoolState::failed:
            return "failed";
        case PoolState::too_short:
            return "too_short";
    }
    return "absent";
}

std::string_view name_of(NoticeCode code) {
    switch (code) {
        case NoticeCode::pool_closed:
            break;
        case NoticeCode::not_encoded:
            return "not_encoded";
        case NoticeCode::not_loaded:
            return "not_loaded";
    }
    return "pool_closed";
}

std::string words_of(Refusal const& refusal, Face face) {
    if (refusal.why == NoRoom::outer_full) {
        return fmt::format(
            "asked for {}, and nothing else can leave: a session around this one uses {} of its {} "
            "(allocations of this session included)",
            format_size(refusal.asked_bytes),
            format_size(refusal.used_bytes),
            format_size(refusal.limit_bytes)
        );
    }
    if (refusal.is_in_pieces) {
        return fmt::format(
            "asked for {} with {} of {} in use: the device's free memory is in pieces, none of "
            "them so long (on a GPU, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True may help), "
            "or other programs use it, and {}",
            format_size(refusal.asked_bytes),
            format_size(refusal.used_bytes),
            format_size(refusal.limit_bytes),
            why(refusal, face)
        );
    }
    std::string const leaving =
        refusal.freed_bytes > 0
            ? fmt::format(", {} of which can leave", format_size(refusal.freed_bytes))
            : "";
    std::string const missing =
        refusal.limit_bytes > 0
            ? fmt::format(": {} too few", format_size(refusal.needed_bytes - refusal.limit_bytes))
            : "";
    return fmt::format(
        "asked for {} with {} of {} in use{}{}; at least {} are needed so far ({} bytes), and {}",
        format_size(refusal.asked_bytes),
        format_size(refusal.used_bytes),
        format_size(refusal.limit_bytes),
        leaving,
        missing,
        format_size(refusal.needed_bytes),
        refusal.needed_bytes,
        why(refusal, face)
    );
}

std::string words_of(Notice const& notice) {
    switch (notice.code) {
        case NoticeCode::pool_closed:
            break;
        case NoticeCode::not_encoded:
            return fmt::format(
                "a tensor could not be encoded ({}); it is moved without encoding", notice.error
            );
        case NoticeCode::not_loaded:
            return fmt::format(
                "a load failed ({}); if it was read ahead, it is tried again", notice.error
            );
    }
    return fmt::format(
        "the {} tier takes no more ({}); what does not fit elsewhere stays on the device",
        name_of(notice.pool),
        notice.error
    );
}

}  // namespace spillway
