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
    MoverOptions options
)
    : impl_(std::make_unique<Impl>(
          std::move(device), std::move(host), std::move(nvme), std::move(options)
      )) {}

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

Result<void*> Mover::reserve_device(std::int64_t size_bytes, StreamId stream) {
    Device& device = impl_->device();
    if (void* const bytes = device.try_allocate(size_bytes, stream)) {
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
    CommandId fence, BlockId block, HeldBytes from, std::span<CommandId const> after
) {
    impl_->give(
        {.fence = fence,
         .block = block,
         .way = Direction::store,
         .device = std::move(from),
         .after = {after.begin(), after.end()}}
    );
}

void Mover::load(CommandId fence, BlockId block, HeldBytes to, std::span<CommandId const> after) {
    impl_->give(
        {.fence = fence,
         .block = block,
         .way = Direction::load,
         .device = std::move(to),
         .after = {after.begin(), after.end()}}
    );
}

void Mover::encode(
    CommandId fence,
    BlockId block,
    HeldBytes from,
    BlockCode const& code,
    std::span<CommandId const> after
) {
    impl_->set_code(block, code);
    impl_->give(
        {.fence = fence,
         .block = block,
         .way = Direction::store,
         .work = SideWork::encode,
         .device = std::move(from),
         .after = {after.begin(), after.end()}}
    );
}

void Mover::decode(CommandId fence, BlockId block, HeldBytes to, std::span<CommandId const> after) {
    impl_->give(
        {.fence = fence,
         .block = block,
         .way = Direction::load,
         .work = SideWork::decode,
         .device = std::move(to),
         .after = {after.begin(), after.end()}}
    );
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
std::vector<StreamStall> Mover::take_stream_stalls() {
    return impl_->take_stream_stalls();
}
bool Mover::has_completions() {
    return impl_->has_completions();
}
void Mover::end_limits() noexcept {
    impl_->end_limits();
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
    return impl_->counters(pool);
}
StreamCounters Mover::stream_counters() const {
    return impl_->stream_counters();
}
HostMemory const& Mover::staging() const {
    return impl_->staging();
}
HostMemory const& Mover::coded_staging() const {
    return impl_->coded_staging();
}
bool Mover::codes(Codec const& codec) const {
    return impl_->codes(codec);
}

std::int64_t Mover::most_coded_bytes() const {
    return impl_->most_coded_bytes();
}
std::vector<CodingCounters> Mover::coding_counters() const {
    return impl_->coding_counters();
}
Pool Mover::pool_of(BlockId block) const {
    return impl_->pool_of(block);
}
bool Mover::is_coded(BlockId block) const {
    return impl_->is_coded(block);
}

}  // namespace spillway
