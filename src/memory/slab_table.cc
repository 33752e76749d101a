// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/slab_table.h"

#include "base/assert.h"

#include <algorithm>
#include <bit>

namespace spillway {

namespace {

std::size_t class_of(std::int64_t size_bytes) {
    SPILLWAY_ASSERT(
        size_bytes > 0 && size_bytes < kSmallestPagedBytes && size_bytes % kSmallUnitBytes == 0,
        "no size of a small block"
    );
    return static_cast<std::size_t>(size_bytes / kSmallUnitBytes);
}

/// A slab without room.
std::uint64_t all_of(std::int64_t size_bytes) {
    return ~std::uint64_t{0} >> (kMostBlocks - kArenaPageBytes / size_bytes);
}

}  // namespace

SlabTable::Place SlabTable::take(std::int64_t size_bytes) {
    std::set<std::int64_t>& pages = with_room_[class_of(size_bytes)];
    if (pages.empty()) {
        return {};
    }
    std::int64_t const page = *pages.begin();
    Slab& slab = slabs_[static_cast<std::size_t>(page)];
    int const block = std::countr_one(slab.used);
    slab.used |= std::uint64_t{1} << block;
    if (slab.used == all_of(size_bytes)) {
        pages.erase(pages.begin());
    }
    return {page, block * size_bytes};
}

void SlabTable::add(std::int64_t page, std::int64_t size_bytes) {
    with_room_[class_of(size_bytes)].insert(page);
    auto const index = static_cast<std::size_t>(page);
    slabs_.resize(std::max(slabs_.size(), index + 1));
    SPILLWAY_ASSERT(slabs_[index].size_bytes == 0, "the page holds a slab already");
    slabs_[index] = {size_bytes, 0};
}

std::uint64_t SlabTable::live(Place place) const {
    bool const is_slab = static_cast<std::size_t>(place.page) < slabs_.size();
    Slab const slab = is_slab ? slabs_[static_cast<std::size_t>(place.page)] : Slab{};
    SPILLWAY_ASSERT(slab.size_bytes != 0, "no live block starts here");
    bool const starts = place.offset_bytes % slab.size_bytes == 0;
    std::uint64_t const block = std::uint64_t{1} << (place.offset_bytes / slab.size_bytes);
    SPILLWAY_ASSERT(starts && (slab.used & block) != 0, "no live block starts here");
    return block;
}

bool SlabTable::give_back(Place place) {
    std::uint64_t const block = live(place);
    Slab& slab = slabs_[static_cast<std::size_t>(place.page)];
    std::set<std::int64_t>& pages = with_room_[class_of(slab.size_bytes)];
    bool const was_full = slab.used == all_of(slab.size_bytes);
    slab.used &= ~block;
    if (slab.used == 0) {
        pages.erase(place.page);
        slab = {};
        return true;
    }
    if (was_full) {
        pages.insert(place.page);
    }
    return false;
}

std::int64_t SlabTable::size_of(Place place) const {
    static_cast<void>(live(place));
    return slabs_[static_cast<std::size_t>(place.page)].size_bytes;
}

}  // namespace spillway
