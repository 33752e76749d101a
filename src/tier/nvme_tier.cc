// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/nvme_tier.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/units.h"
#include "memory/extent_pool.h"
#include "tier/block_file.h"
#include "tier/checksum.h"
#include "tier/nvme_probe.h"
#include "tier/pread_pool.h"
#include "tier/reservation_table.h"
#include "tier/uring_engine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace spillway {

namespace {

constexpr std::int64_t kGrowBytes = std::int64_t{1} << 30;
constexpr std::int64_t kSmallestProbed = std::int64_t{64} << 20;  // capacity
constexpr std::int64_t kMostBlockBytes = std::int64_t{64} << 20;
constexpr int kMostQueueDepth = 1024;

class NvmeTier final : public Tier {
  public:
    NvmeTier(
        NvmeOptions const& options,
        BlockFile file,
        std::int64_t capacity_bytes,
        std::int64_t piece_bytes,
        std::unique_ptr<IoEngine> engine
    )
        : name_(fmt::format("nvme {}", options.folder)),
          piece_bytes_(piece_bytes),
          owner_(::getpid()),
          file_(std::move(file)),
          pool_(capacity_bytes, kBlockAlign),
          capacity_bytes_(pool_.capacity_bytes()),
          engine_(std::move(engine)) {}

    ~NvmeTier() override;

    [[nodiscard]] std::string name() const override { return name_; }
    [[nodiscard]] std::int64_t alignment() const override {
        return file_.direct() ? kBlockAlign : 1;
    }
    [[nodiscard]] std::int64_t capacity_bytes() const override { return capacity_bytes_; }

    void store(Reservation const& room, std::span<std::byte const> from, TierDone done) override;
    void load(Reservation const& room, std::span<std::byte> to, TierDone done) override;

    [[nodiscard]] Result<void> register_memory(std::span<std::byte> memory) override {
        return engine_->register_memory(memory);
    }
    void forget_memory(std::span<std::byte> memory) noexcept override {
        engine_->forget_memory(memory);
    }
    [[nodiscard]] Result<void> damage(
        Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
    ) override;
    [[nodiscard]] TierCounters counters() const override;
    void count_afresh() override { entries_.count_afresh(); }

  private:
    [[nodiscard]] Result<std::int64_t> take_entry(std::int64_t size_bytes) override;
    void give_entry_back(std::int64_t entry) noexcept override;
    [[nodiscard]] Result<void> grow_to(std::int64_t end) SPILLWAY_REQUIRES(place_guard_);
    void start(
        Direction way, Reservation const& room, std::byte* memory, std::int64_t size, TierDone done
    );
    void end(FileTransfer& transfer);
    [[nodiscard]] bool forked() const { return ::getpid() != owner_; }

    std::string const name_;
    std::int64_t const piece_bytes_;
    pid_t const owner_;
    ReservationTable entries_;
    Mutex place_guard_;
    BlockFile file_;  ///< grows with `place_guard_` held
    ExtentPool pool_ SPILLWAY_GUARDED_BY(place_guard_);
    std::int64_t const capacity_bytes_;
    std::unique_ptr<IoEngine> engine_;  ///< last: its threads use all of the above
};

NvmeTier::~NvmeTier() {
    if (forked()) {  // the threads and what they wait for are the parent's
        static_cast<void>(engine_.release());
        return;
    }
    engine_.reset();
    file_.empty();  // a forked child that lives on may hold it open
    SPILLWAY_ASSERT(
        pool_.free_bytes() == pool_.capacity_bytes(), "a Reservation outlives its tier"
    );
}

Result<std::int64_t> NvmeTier::take_entry(std::int64_t size_bytes) {
    MutexLock const lock(place_guard_);
    std::optional<std::int64_t> const first = pool_.take(size_bytes);
    if (!first) {
        return Error{
            Errc::tier_full,
            fmt::format(
                "{} were asked for, {} of {} are left (longest hole {})",
                format_size(size_bytes),
                format_size(pool_.free_bytes()),
                format_size(pool_.capacity_bytes()),
                format_size(pool_.longest_hole_bytes())
            ),
            name_};
    }
    Result<void> const grown = grow_to(*first + pool_.rounded(size_bytes));
    if (!grown.ok()) {
        pool_.give_back(*first, size_bytes);
        return grown.error();
    }
    return entries_.add(
        *first, size_bytes, pool_.rounded(size_bytes), pieces_of(size_bytes, piece_bytes_)
    );
}

/// In steps, since a step that fails may be one that a smaller one would not.
Result<void> NvmeTier::grow_to(std::int64_t end) {
    if (end <= file_.size_bytes()) {
        return {};
    }
    std::int64_t const ahead = std::min(round_up(end, kGrowBytes), pool_.capacity_bytes());
    if (file_.grow(ahead).ok()) {
        return {};
    }
    return file_.grow(end);
}

void NvmeTier::give_entry_back(std::int64_t entry) noexcept {
    if (forked()) {
        return;
    }
    MutexLock const lock(place_guard_);
    ReservationTable::Place const place = entries_.remove(entry);
    pool_.give_back(place.first, place.size_bytes);
}

void NvmeTier::store(Reservation const& room, std::span<std::byte const> from, TierDone done) {
    start(
        Direction::store,
        room,
        const_cast<std::byte*>(from.data()),
        std::ssize(from),
        std::move(done)
    );
}

void NvmeTier::load(Reservation const& room, std::span<std::byte> to, TierDone done) {
    start(Direction::load, room, to.data(), std::ssize(to), std::move(done));
}

void NvmeTier::start(
    Direction way, Reservation const& room, std::byte* memory, std::int64_t size, TierDone done
) {
    if (forked()) {
        done(Error{Errc::unsupported, "a tier is used after a fork", name_});
        return;
    }
    Result<TierEntry*> const entry = entries_.begin(room.entry(), way, size);
    if (!entry.ok()) {
        done(Error{entry.error().code, entry.error().what, name_});
        return;
    }
    auto transfer = std::make_unique<FileTransfer>();
    transfer->way = way;
    transfer->entry_number = room.entry();
    transfer->file_offset = (*entry)->place;
    transfer->memory = memory;
    transfer->size_bytes = size;
    transfer->checksums = (*entry)->checksums.data();
    transfer->finished = [this](FileTransfer& ended) { end(ended); };
    transfer->done = std::move(done);
    engine_->start(std::move(transfer));
}

void NvmeTier::end(FileTransfer& transfer) {
    entries_.end(transfer.entry_number, transfer.way, !transfer.error);
    if (transfer.error) {
        transfer.done(*transfer.error);
    } else {
        transfer.done({});
    }
}

Result<void> NvmeTier::damage(
    Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
) {
    Result<TierEntry const*> const entry = entries_.at_rest(room.entry());
    if (!entry.ok()) {
        return entry.error();
    }
    std::int64_t const begin = ((*entry)->place + first) / kBlockAlign * kBlockAlign;
    std::int64_t const end = round_up((*entry)->place + first + count, kBlockAlign);
    Result<AlignedBuffer> const buffer = AlignedBuffer::make(end - begin);
    if (!buffer.ok()) {
        return buffer.error();
    }
    auto const size = static_cast<std::size_t>(end - begin);
    // Without O_DIRECT the last page may lie partly past what was ever written: zeros.
    if (::pread(file_.fd(), buffer->data(), size, begin) < 0) {
        return transfer_error("bytes cannot be read", errno, file_.label());
    }
    for (std::int64_t i = 0; i < count; ++i) {
        buffer->data()[(*entry)->place + first - begin + i] ^= mask;
    }
    if (::pwrite(file_.fd(), buffer->data(), size, begin) != end - begin) {
        return transfer_error("bytes cannot be written", errno, file_.label());
    }
    return {};
}

TierCounters NvmeTier::counters() const {
    TierCounters now = entries_.counters();
    now.staging_bytes = engine_->staging_bytes();
    return now;
}

Result<void> check(NvmeOptions const& options) {
    std::int64_t const block = options.piece_bytes;
    if (block < 0 || block % kBlockAlign != 0 || block > kMostBlockBytes) {
        return Error{
            Errc::bad_argument,
            fmt::format("piece_bytes {} is no multiple of 4096 up to 64 MiB", block),
            ""};
    }
    if (options.queue_depth < 0 || options.queue_depth > kMostQueueDepth) {
        return Error{
            Errc::bad_argument,
            fmt::format("queue_depth {} is not in 0 to 1024", options.queue_depth),
            ""};
    }
    return {};
}

Result<std::int64_t> capacity_of(NvmeOptions const& options, BlockFile const& file) {
    std::int64_t const asked = options.capacity_bytes;
    std::int64_t const capacity = asked == 0 ? file.free_bytes() / 10 * 9 : asked;
    if (capacity < kBlockAlign) {
        return Error{
            Errc::bad_argument,
            fmt::format("a capacity of {} is too small", format_size(capacity)),
            file.label()};
    }
    return capacity / kBlockAlign * kBlockAlign;
}

/// What was asked for, and what the probe finds for the rest.
IoShape shape_of(NvmeOptions const& options, BlockFile& file, std::int64_t capacity_bytes) {
    IoShape shape;
    bool const measured = options.piece_bytes == 0 && options.queue_depth == 0 && file.direct() &&
                          !options.force_thread_pool;
    if (measured && capacity_bytes >= kSmallestProbed) {
        shape = probe_io_once(file);
    }
    shape.piece_bytes = options.piece_bytes > 0 ? options.piece_bytes : shape.piece_bytes;
    shape.queue_depth = options.queue_depth > 0 ? options.queue_depth : shape.queue_depth;
    return shape;
}

Result<std::unique_ptr<IoEngine>> make_engine(
    NvmeOptions const& options, BlockFile const& file, IoShape shape
) {
    EngineOptions const engine{
        .fd = file.fd(),
        .direct = file.direct(),
        .label = file.label(),
        .piece_bytes = shape.piece_bytes,
        .queue_depth = shape.queue_depth};
    bool const forced = options.force_thread_pool || options.force_buffered;
    if (file.direct() && !forced) {
        Result<std::unique_ptr<IoEngine>> ring = UringEngine::make(engine);
        if (ring.ok() || ring.error().code != Errc::unsupported) {
            return ring;
        }
        log_once(fmt::format("{}: {}; a pool of threads is used", options.folder, ring.error().what)
        );
    } else if (!forced) {
        log_once(
            fmt::format("{}: O_DIRECT is refused; bytes go through the page cache", options.folder)
        );
    }
    return PreadPool::make(engine);
}

}  // namespace

Result<std::unique_ptr<Tier>> open_nvme_tier(NvmeOptions const& options) {
    Result<void> const checked = check(options);
    if (!checked.ok()) {
        return checked.error();
    }
    Result<BlockFile> file = BlockFile::make({
        .folder = options.folder,
        .direct = !options.force_buffered,
        .allow_tmpfs = options.allow_tmpfs,
    });
    if (!file.ok()) {
        return file.error();
    }
    Result<std::int64_t> const capacity = capacity_of(options, *file);
    if (!capacity.ok()) {
        return capacity.error();
    }
    IoShape const shape = shape_of(options, *file, *capacity);
    Result<std::unique_ptr<IoEngine>> engine = make_engine(options, *file, shape);
    if (!engine.ok()) {
        return engine.error();
    }
    return std::unique_ptr<Tier>(std::make_unique<NvmeTier>(
        options, std::move(*file), *capacity, shape.piece_bytes, std::move(*engine)
    ));
}

}  // namespace spillway
