// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/mover.h"

#include "base/units.h"
#include "mover/mover_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace spillway {

Mover::Mover(
    std::shared_ptr<Device> device,
    std::unique_ptr<Tier> host,
    std::unique_ptr<Tier> nvme,
    std::chrono::milliseconds patience
)
    : impl_(std::make_unique<Impl>(std::move(device), std::move(host), std::move(nvme), patience)) {
}

Mover::~Mover() {
    if (impl_->forked()) {  // the threads are the parent's
        static_cast<void>(impl_.release());
    }
}

Result<void> Mover::reserve(Pool pool, BlockId block, std::int64_t size_bytes) {
    return impl_->reserve(pool, block, size_bytes);
}

void Mover::release(BlockId block) noexcept {
    impl_->release(block);
}

Result<void*> Mover::reserve_device(std::int64_t size_bytes) {
    Device& device = impl_->device();
    if (void* const bytes = device.try_allocate(size_bytes)) {
        return bytes;
    }
    std::int64_t const limit = device.limit_bytes();
    std::int64_t const left = std::max<std::int64_t>(limit - device.usage().used_bytes, 0);
    return Error{
        Errc::out_of_memory,
        fmt::format(
            "{} were asked for, {} of {} are left",
            format_size(size_bytes),
            format_size(left),
            format_size(limit)
        ),
        "device"};
}

void Mover::release_device(void* bytes) noexcept {
    impl_->device().free(bytes);
}

void Mover::store(
    CommandId fence,
    BlockId block,
    std::span<std::byte const> from,
    std::shared_ptr<void const> hold,
    std::span<CommandId const> after
) {
    SPILLWAY_ASSERT(!from.empty(), "a block has at least one byte");
    Move move{.fence = fence, .block = block, .from = from, .hold = std::move(hold)};
    move.after.assign(after.begin(), after.end());
    impl_->give(std::move(move));
}

void Mover::load(
    CommandId fence,
    BlockId block,
    std::span<std::byte> to,
    std::shared_ptr<void const> hold,
    std::span<CommandId const> after
) {
    SPILLWAY_ASSERT(!to.empty(), "a block has at least one byte");
    Move move{.fence = fence, .block = block, .to = to, .hold = std::move(hold)};
    move.after.assign(after.begin(), after.end());
    impl_->give(std::move(move));
}

bool Mover::ended(CommandId fence) const {
    return impl_->ended(fence);
}
std::int64_t Mover::wait(std::span<CommandId const> fences) {
    return impl_->wait(fences);
}
std::int64_t Mover::wait_for_any() {
    return impl_->wait_for_any();
}
std::vector<Completion> Mover::take_completions() {
    return impl_->take_completions();
}
bool Mover::has_completions() const noexcept {
    return impl_->has_completions();
}
std::int64_t Mover::under_way() const {
    return impl_->under_way();
}
Device& Mover::device() {
    return impl_->device();
}
Tier* Mover::tier(Pool pool) {
    return impl_->tier(pool);
}

TierCounters Mover::counters(Pool pool) const {
    Tier const* const place = impl_->tier(pool);
    return place == nullptr ? TierCounters{} : place->counters();
}

}  // namespace spillway
