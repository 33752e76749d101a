// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// bench-codec's clock: encodes and decodes normally distributed numbers on one core, each beside a
// memcpy of the same raw bytes. Prints one JSON object: per codec, seconds of every round, empty
// where the machine has nothing newer than what is asked for; bench/codec.py makes ratios of them.
#include "base/units.h"
#include "codec/codec.h"
#include "memory/arena.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#if __has_include(<hwy/targets.h>)
#include <hwy/targets.h>
#endif
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <vector>

namespace spillway {
namespace {

struct Settings {
    std::int64_t size_bytes = 256_MiB;
    std::int64_t rounds = 7;
    bool at_most_avx2 = false;
};

/// Where a session's tensors lie: in the arena of the device.
class Buffers {
  public:
    explicit Buffers(std::int64_t size_bytes)
        : size_bytes_(size_bytes),
          room_bytes_(size_bytes + size_bytes / 8),
          arena_(*Arena::open({.limit_bytes = 2 * size_bytes + room_bytes_ + 64_MiB})) {
        raw_ = take(size_bytes);
        back_ = take(size_bytes);
        coded_ = take(room_bytes_);
    }
    Buffers(Buffers const&) = delete;
    Buffers& operator=(Buffers const&) = delete;
    ~Buffers() {
        for (std::byte* const block : {raw_, back_, coded_}) {
            arena_->free(block);
        }
    }

    [[nodiscard]] std::span<std::byte> raw() const { return span_of(raw_, size_bytes_); }
    [[nodiscard]] std::span<std::byte> back() const { return span_of(back_, size_bytes_); }
    [[nodiscard]] std::span<std::byte> coded() const { return span_of(coded_, room_bytes_); }

  private:
    static std::span<std::byte> span_of(std::byte* first, std::int64_t bytes) {
        return {first, static_cast<std::size_t>(bytes)};
    }
    std::byte* take(std::int64_t bytes) {
        void* const block = arena_->try_allocate(bytes);
        SPILLWAY_ASSERT(block != nullptr, "the arena has room for the buffers");
        std::memset(block, 1, static_cast<std::size_t>(bytes));
        return static_cast<std::byte*>(block);
    }

    std::int64_t size_bytes_;
    std::int64_t room_bytes_;
    std::shared_ptr<Arena> arena_;
    std::byte* raw_ = nullptr;
    std::byte* back_ = nullptr;
    std::byte* coded_ = nullptr;
};

/// Normally distributed, by Box and Muller; a mebibyte of them again and again.
void fill_with_normals(std::span<std::byte> raw) {
    std::vector<float> normals(std::min<std::size_t>(1U << 18, raw.size() / 4));
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(1e-6F, 1.0F);
    for (float& normal : normals) {
        float const angle = 2 * std::numbers::pi_v<float> * uniform(random);
        normal = std::sqrt(-2 * std::log(uniform(random))) * std::cos(angle);
    }
    std::size_t const piece = normals.size() * sizeof(float);
    for (std::size_t at = 0; at < raw.size(); at += piece) {
        std::memcpy(raw.data() + at, normals.data(), std::min(piece, raw.size() - at));
    }
}

/// Zeros and ones: dropout's mask at a tenth.
void fill_with_mask(std::span<std::byte> raw) {
    std::mt19937 random(2);
    for (std::size_t at = 0; at + 4 <= raw.size(); at += 4) {
        float const value = random() % 10 == 0 ? 0.0F : 1.0F / 0.9F;
        std::memcpy(raw.data() + at, &value, sizeof value);
    }
}

/// Of this thread on its core: what else the machine does then does not count.
double thread_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

template <typename Work>
double seconds(Work work) {
    double const begin = thread_seconds();
    work();
    return thread_seconds() - begin;
}

struct Times {
    std::vector<double> encode;
    std::vector<double> decode;
    std::vector<double> copy_by_encode;  ///< memcpy's, just before
    std::vector<double> copy_by_decode;
    std::int64_t coded_bytes = 0;
};

enum class Form { fast, reference };

/// One round of one codec over the first `size_bytes`, `repeats` times where that is little.
void run_round(
    Codec const& codec,
    Form form,
    Buffers const& buffers,
    std::size_t size_bytes,
    int repeats,
    Times& times
) {
    std::span<std::byte const> const raw = buffers.raw().first(size_bytes);
    std::span<std::byte> const back = buffers.back().first(size_bytes);
    Encoding const encoding{codec, Dtype::f32, std::ssize(raw) / 4};
    auto const room = static_cast<std::size_t>(*encoded_bytes(encoding));
    std::span<std::byte> coded = buffers.coded().first(room);
    bool const fast = form == Form::fast;
    auto const copy = [&] {
        for (int i = 0; i < repeats; ++i) {
            std::memcpy(back.data(), raw.data(), raw.size());
        }
    };
    bool failed = false;
    times.copy_by_encode.push_back(seconds(copy));
    times.encode.push_back(seconds([&] {
        for (int i = 0; i < repeats; ++i) {
            Result<std::int64_t> const size =
                fast ? encode(encoding, raw, coded, 1) : encode_reference(encoding, raw, coded, 1);
            failed = failed || !size.ok();
            times.coded_bytes = size.ok() ? *size : 0;
        }
    }));
    coded = coded.first(static_cast<std::size_t>(times.coded_bytes));
    times.copy_by_decode.push_back(seconds(copy));
    times.decode.push_back(seconds([&] {
        for (int i = 0; i < repeats; ++i) {
            failed = failed || !(fast ? decode(encoding, coded, back)
                                      : decode_reference(encoding, coded, back))
                                    .ok();
        }
    }));
    SPILLWAY_ASSERT(!failed, "what is encoded here can be");
}

struct Entry {
    std::string name;
    Codec codec;
    Form form = Form::fast;
    std::size_t size_bytes = 0;
    int repeats = 1;
    Times times;
};

std::vector<Entry> entries(std::size_t size_bytes) {
    std::vector<Entry> all;
    for (char const* const text :
         {"affine4",
          "affine8",
          "affine4:stochastic",
          "affine2",
          "affine3",
          "affine4:absmax",
          "fp8_e4m3",
          "nf4",
          "lossless"}) {
        all.push_back({text, *parse_codec(text), Form::fast, size_bytes, 1, {}});
    }
    for (char const* const text : {"affine4", "affine8", "affine4:stochastic"}) {
        // 256 KiB stay in the caches.
        std::string const name = text;
        Codec const codec = *parse_codec(text);
        all.push_back({name + " reference", codec, Form::reference, size_bytes / 8, 1, {}});
        all.push_back({name + " cached", codec, Form::fast, 256_KiB, 256, {}});
        all.push_back({name + " cached reference", codec, Form::reference, 256_KiB, 32, {}});
    }
    return all;
}

/// One after the other, round by round, so that a drift of the machine falls on all.
std::vector<Entry> measure(Settings const& settings) {
    Buffers const buffers(settings.size_bytes);
    std::vector<Entry> all = entries(buffers.raw().size());
    fill_with_normals(buffers.raw());
    for (std::int64_t round = 0; round <= settings.rounds; ++round) {
        for (Entry& entry : all) {
            Times warm_up;
            Times& times = round == 0 ? warm_up : entry.times;
            run_round(entry.codec, entry.form, buffers, entry.size_bytes, entry.repeats, times);
        }
    }
    fill_with_mask(buffers.raw());
    Entry mask{"mask", *parse_codec("mask"), Form::fast, buffers.raw().size(), 1, {}};
    for (std::int64_t round = 0; round < settings.rounds; ++round) {
        run_round(mask.codec, mask.form, buffers, mask.size_bytes, mask.repeats, mask.times);
    }
    all.push_back(std::move(mask));
    return all;
}

/// The process stays on the core it is on.
void stay_on_one_core() {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(::sched_getcpu()), &set);
    ::sched_setaffinity(0, sizeof set, &set);
}

/// As on a machine that has no more than AVX2. False: it is such a machine, or none of that kind.
bool use_at_most_avx2() {
#if defined(HWY_AVX2) && defined(__x86_64__)
    std::int64_t const all = hwy::SupportedTargets();
    std::int64_t const left = all & ~static_cast<std::int64_t>(HWY_AVX2 - 1);  // lower bits: newer
    hwy::SetSupportedTargetsForTest(left);
    return left != all;
#else
    return false;
#endif
}

int run(Settings const& settings) {
    stay_on_one_core();
    if (settings.at_most_avx2 && !use_at_most_avx2()) {
        fmt::print("{{}}\n");
        return 0;
    }
    std::string lines;
    for (Entry const& entry : measure(settings)) {
        Times const& times = entry.times;
        lines += fmt::format(
            "{}\"{}\": {{\"raw_bytes\": {}, \"coded_bytes\": {}, \"encode_s\": [{:.6g}], "
            "\"decode_s\": [{:.6g}], \"copy_by_encode_s\": [{:.6g}], \"copy_by_decode_s\": "
            "[{:.6g}]}}",
            lines.empty() ? "" : ", ",
            entry.name,
            static_cast<std::int64_t>(entry.size_bytes) * entry.repeats,
            times.coded_bytes,
            fmt::join(times.encode, ", "),
            fmt::join(times.decode, ", "),
            fmt::join(times.copy_by_encode, ", "),
            fmt::join(times.copy_by_decode, ", ")
        );
    }
    fmt::print("{{{}}}\n", lines);
    return 0;
}

int main_of(std::vector<std::string> const& arguments) {
    Settings settings;
    for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
        Result<std::int64_t> const number = parse_size(arguments[i + 1], 0);
        if (number.ok() && arguments[i] == "--size") {
            settings.size_bytes = *number;
        } else if (number.ok() && arguments[i] == "--rounds") {
            settings.rounds = *number;
        } else if (number.ok() && arguments[i] == "--at-most-avx2") {
            settings.at_most_avx2 = *number != 0;
        } else {
            fmt::print(stderr, "codec_bench: {} {}\n", arguments[i], arguments[i + 1]);
            return 2;
        }
    }
    return run(settings);
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
    return spillway::main_of({argv + 1, argv + argc});
}
