// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/slab_table.h"

#include "base/assert.h"

namespace spillway {

namespace {

std::size_t class_of(std::int64_t size_bytes) {
    SPILLWAY_ASSERT(
        size_bytes > 0 && size_bytes < kSmallestPagedBytes && size_bytes % kSmallUnitBytes == 0,
        "no size of a small block"
    );
    return static_cast<std::size_t>(size_bytes / kSmallUnitBytes);
}

std::size_t blocks_in(std::int64_t size_bytes) {
    return static_cast<std::size_t>(kArenaPageBytes / size_bytes);
}

}  // namespace

SlabTable::Place SlabTable::take(std::int64_t size_bytes) {
    std::set<std::int64_t>& pages = with_room_[class_of(size_bytes)];
    if (pages.empty()) {
        return {};
    }
    std::int64_t const page = *pages.begin();
    Slab& slab = slabs_.at(page);
    std::size_t block = 0;
    while (slab.used.test(block)) {
        ++block;
    }
    slab.used.set(block);
    if (slab.used.count() == blocks_in(size_bytes)) {
        pages.erase(pages.begin());
    }
    return {page, static_cast<std::int64_t>(block) * size_bytes};
}

void SlabTable::add(std::int64_t page, std::int64_t size_bytes) {
    with_room_[class_of(size_bytes)].insert(page);
    bool const fresh = slabs_.try_emplace(page, Slab{size_bytes, {}}).second;
    SPILLWAY_ASSERT(fresh, "the page holds a slab already");
}

SlabTable::Slab const& SlabTable::live(Place place) const {
    auto const slab = slabs_.find(place.page);
    SPILLWAY_ASSERT(slab != slabs_.end(), "no live block starts here");
    std::int64_t const size_bytes = slab->second.size_bytes;
    bool const starts = place.offset_bytes % size_bytes == 0;
    auto const block = static_cast<std::size_t>(place.offset_bytes / size_bytes);
    SPILLWAY_ASSERT(starts && slab->second.used.test(block), "no live block starts here");
    return slab->second;
}

bool SlabTable::give_back(Place place) {
    std::int64_t const size_bytes = live(place).size_bytes;
    Slab& slab = slabs_.at(place.page);
    slab.used.reset(static_cast<std::size_t>(place.offset_bytes / size_bytes));
    std::set<std::int64_t>& pages = with_room_[class_of(size_bytes)];
    if (slab.used.none()) {
        pages.erase(place.page);
        slabs_.erase(place.page);
        return true;
    }
    pages.insert(place.page);
    return false;
}

std::int64_t SlabTable::size_of(Place place) const {
    return live(place).size_bytes;
}

}  // namespace spillway
