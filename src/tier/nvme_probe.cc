// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/nvme_probe.h"

#include "base/mutex.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>

namespace spillway {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMeasureNs = 25'000'000;  // each way of each shape
constexpr std::int64_t kProbeNs = 450'000'000;   // all of it; a slow disk sees fewer shapes
constexpr double kClearlyBetter = 1.10;
constexpr std::int64_t kProbeFileBytes = std::int64_t{64} << 20;

std::int64_t ns_since(Clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

/// Incompressible enough that no drive takes a short cut.
void fill_with_noise(AlignedBuffer const& buffer) {
    std::uint64_t state = 0x9e3779b97f4a7c15U;
    for (std::int64_t i = 0; i < buffer.size_bytes(); i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        std::memcpy(buffer.data() + i, &state, sizeof state);
    }
}

struct Run {
    Ring& ring;
    BlockFile const& file;
    AlignedBuffer const& block;
    std::int64_t next_offset = 0;
    int in_flight = 0;

    void issue(Direction way) {
        if (next_offset + block.size_bytes() > file.size_bytes()) {
            next_offset = 0;
        }
        SPILLWAY_ASSERT(
            ring.add(
                {.way = way,
                 .memory = block.data(),
                 .size_bytes = block.size_bytes(),
                 .file_offset = next_offset,
                 .tag = &ring}
            ),
            "the ring holds the queue depth"
        );
        next_offset += block.size_bytes();
        ++in_flight;
    }
};

/// Bytes a second, with `queue_depth` in flight until `budget_ns` is over.
Result<double> rate_of(Run run, Direction way, int queue_depth, std::int64_t budget_ns) {
    Clock::time_point const start = Clock::now();
    std::int64_t moved = 0;
    int failure = 0;
    for (int i = 0; i < queue_depth; ++i) {
        run.issue(way);
    }
    while (run.in_flight > 0) {
        run.ring.submit(true);
        while (std::optional<Ring::Completion> const ended = run.ring.pop()) {
            --run.in_flight;
            failure = ended->result <= 0 ? std::max(1, -ended->result) : failure;
            moved += std::max(0, ended->result);
            if (failure == 0 && ns_since(start) < budget_ns) {
                run.issue(way);
            }
        }
    }
    if (failure != 0) {
        return system_error("the probe's I/O failed", failure, run.file.label());
    }
    return static_cast<double>(moved) * 1e9 / static_cast<double>(ns_since(start));
}

/// Bytes a second of a byte that is written and read once: what a moved block sees.
double round_trip_rate(IoRates const& rates) {
    return 1.0 / (1.0 / rates.write_bytes_per_s + 1.0 / rates.read_bytes_per_s);
}

}  // namespace

Result<IoRates> measure_io(BlockFile const& file, IoShape shape, std::int64_t budget_ns) {
    if (file.size_bytes() < shape.piece_bytes) {
        return Error{Errc::bad_argument, "the file is too short to measure", file.label()};
    }
    Result<std::unique_ptr<Ring>> ring = Ring::make(file.fd(), shape.queue_depth);
    if (!ring.ok()) {
        return ring.error();
    }
    Result<AlignedBuffer> block = AlignedBuffer::make(shape.piece_bytes);
    if (!block.ok()) {
        return block.error();
    }
    fill_with_noise(*block);
    Run const run{.ring = **ring, .file = file, .block = *block};
    Result<double> const write = rate_of(run, Direction::store, shape.queue_depth, budget_ns);
    if (!write.ok()) {
        return write.error();
    }
    Result<double> const read = rate_of(run, Direction::load, shape.queue_depth, budget_ns);
    if (!read.ok()) {
        return read.error();
    }
    return IoRates{*write, *read};
}

IoShape probe_io(BlockFile const& file) {
    constexpr std::int64_t kMiB = std::int64_t{1} << 20;
    Clock::time_point const start = Clock::now();
    IoShape best;
    auto const rate = [&file](IoShape shape) {
        Result<IoRates> const rates = measure_io(file, shape, kMeasureNs);
        return rates.ok() ? round_trip_rate(*rates) : 0.0;
    };
    double before = rate(best);
    // A shape wins when it beats the best one measured before it and after it: one sample of a
    // shared disk says little.
    auto const attempt = [&](IoShape shape) {
        if (before <= 0 || ns_since(start) + 4 * kMeasureNs > kProbeNs) {
            return;
        }
        double const candidate = rate(shape);
        double const after = rate(best);
        if (candidate > std::max(before, after) * kClearlyBetter) {
            best = shape;
            before = candidate;
        } else {
            before = after;
        }
    };
    for (int const depth : {8, 32}) {
        attempt({kMiB, depth});
    }
    for (std::int64_t const piece_bytes : {kMiB / 2, 2 * kMiB}) {
        attempt({piece_bytes, best.queue_depth});
    }
    return best;
}

IoShape probe_io_once(BlockFile& file) {
    static Mutex mutex;
    // What a drive wants does not change meanwhile.
    static std::map<dev_t, IoShape> known SPILLWAY_GUARDED_BY(mutex);
    struct stat status {};
    if (fstat(file.fd(), &status) != 0) {
        return {};
    }
    MutexLock const lock(mutex);
    auto const at = known.find(status.st_dev);
    if (at != known.end()) {
        return at->second;
    }
    if (!file.grow(kProbeFileBytes).ok()) {
        return {};
    }
    return known[status.st_dev] = probe_io(file);
}

}  // namespace spillway
