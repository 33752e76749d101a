// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A whole chunk whose raw bytes are aligned to four elements: every byte is moved once, in the
// widest pieces.
#pragma once

#include "cuda_device/codec_chunk.h"

namespace spillway::lanes {

/// Codes of a lane's elements.
using Codes = Array<std::uint32_t, kRows * kPlaces>;
/// Of each row the low, then of each row that of the negated.
using Lows = Array<float, 2 * kRows>;

template <typename Value>
SPILLWAY_ANYWHERE Lows lows_of(Rows const& rows) {
    Lows lows;
    SPILLWAY_UNROLL
    for (int row = 0; row < kRows; ++row) {
        float low = Value::value(rows.at[row * kPlaces]);
        float negated = -low;
        SPILLWAY_UNROLL
        for (int place = 1; place < kPlaces; ++place) {
            float const value = Value::value(rows.at[row * kPlaces + place]);
            low = lower(low, value);
            negated = lower(negated, -value);
        }
        lows.at[row] = low;
        lows.at[kRows + row] = negated;
    }
    return lows;
}

/// Rows of one group get its lows.
SPILLWAY_ANYWHERE void join_rows(Lows& lows, int group) {
    SPILLWAY_UNROLL
    for (int apart = 1; apart < kRows; apart *= 2) {
        if (apart * kRow < group) {
            SPILLWAY_UNROLL
            for (int i = 0; i < 2 * kRows; ++i) {
                if ((i & apart) == 0) {
                    lows.at[i] = lower(lows.at[i], lows.at[i + apart]);
                    lows.at[i + apart] = lows.at[i];
                }
            }
        }
    }
}
/// Whether `test` finds one of the chunk's elements; then the first is refused.
template <typename Warp, typename Test>
SPILLWAY_ANYWHERE bool refused(
    Warp const& warp, Each<Warp, Rows> const& rows, std::int64_t first, Test const& test
) {
    Each<Warp, bool> found;
    warp.each([&](int lane) {
        found[lane] = false;
        SPILLWAY_UNROLL
        for (int i = 0; i < kRows * kPlaces; ++i) {
            found[lane] = found[lane] || test(rows[lane].at[i]);
        }
    });
    if (!warp.any(found)) {
        return false;
    }
    Each<Warp, std::int64_t> elements;
    warp.each([&](int lane) {
        elements[lane] = kNone;
        SPILLWAY_UNROLL
        for (int i = kRows * kPlaces - 1; i >= 0; --i) {
            if (test(rows[lane].at[i])) {
                elements[lane] = first + index_of(lane, i / kPlaces, i % kPlaces);
            }
        }
    });
    warp.refuse(elements);
    return true;
}
/// A lane's codes of one plane of a chunk; `code(row, place)` may have higher bits.
template <int kWidth, typename Code>
SPILLWAY_ANYWHERE typename Plane<kWidth>::Words packed(int lane, Code const& code) {
    using To = Plane<kWidth>;
    typename To::Words words{};
    SPILLWAY_UNROLL
    for (int row = 0; row < kRows; ++row) {
        SPILLWAY_UNROLL
        for (int place = 0; place < kPlaces; ++place) {
            words.at[To::word(row, place)] |= (code(row, place) & To::kMask)
                                              << To::shift(lane, row);
        }
    }
    return words;
}
/// Lanes that share words add their parts of them, and the first of those write them.
template <int kWidth, typename Warp>
SPILLWAY_ANYWHERE void store_words(
    Warp const& warp, Each<Warp, typename Plane<kWidth>::Words>& words, std::byte* to
) {
    using To = Plane<kWidth>;
    SPILLWAY_UNROLL
    for (int apart = To::kApart; apart < kLanes; apart *= 2) {
        auto const others = warp.across(words, apart);
        warp.each([&](int lane) {
            SPILLWAY_UNROLL
            for (int i = 0; i < kPlaces; ++i) {
                words[lane].at[i] |= others[lane].at[i];
            }
        });
    }
    warp.each([&](int lane) {
        if (lane >= To::kApart) {
            return;
        }
        SPILLWAY_UNROLL
        for (int four = 0; four < To::kFours; ++four) {
            Four<std::uint32_t> item;
            SPILLWAY_UNROLL
            for (int i = 0; i < kPlaces; ++i) {
                item.at[i] = words[lane].at[four * kPlaces + i];
            }
            store(to + (four * kRow + lane * kPlaces) * 4, item);
        }
    });
}
template <int kWidth>
SPILLWAY_ANYWHERE typename Plane<kWidth>::Words load_words(std::byte const* from, int lane) {
    using From = Plane<kWidth>;
    typename From::Words words;
    SPILLWAY_UNROLL
    for (int four = 0; four < From::kFours; ++four) {
        int const word = four * kRow + lane % From::kApart * kPlaces;
        auto const item = load<Four<std::uint32_t>>(from + word * 4);
        SPILLWAY_UNROLL
        for (int i = 0; i < kPlaces; ++i) {
            words.at[four * kPlaces + i] = item.at[i];
        }
    }
    return words;
}

template <int kWidth>
SPILLWAY_ANYWHERE Codes unpacked(typename Plane<kWidth>::Words const& words, int lane) {
    using From = Plane<kWidth>;
    Codes codes;
    SPILLWAY_UNROLL
    for (int row = 0; row < kRows; ++row) {
        SPILLWAY_UNROLL
        for (int place = 0; place < kPlaces; ++place) {
            std::uint32_t const word = words.at[From::word(row, place)];
            codes.at[row * kPlaces + place] = (word >> From::shift(lane, row)) & From::kMask;
        }
    }
    return codes;
}

template <typename Coding, typename Value, bool kStochastic>
SPILLWAY_ANYWHERE Codes
codes_of(Job const& job, Rows const& rows, Lows const& lows, int lane, arithmetic::Key key) {
    Codes codes;
    SPILLWAY_UNROLL
    for (int row = 0; row < kRows; ++row) {
        arithmetic::Scale const scale =
            scale_of(job, range_of(job, lows.at[row], lows.at[kRows + row]));
        SPILLWAY_UNROLL
        for (int place = 0; place < kPlaces; ++place) {
            float rounding = 0.5F;
            if constexpr (kStochastic) {
                rounding = arithmetic::random_rounding(key, index_of(lane, row, place));
            }
            float const value = Value::value(rows.at[row * kPlaces + place]);
            codes.at[row * kPlaces + place] = Coding::code(job, scale, value, rounding);
        }
    }
    return codes;
}

template <int kLow, int kHigh>
SPILLWAY_ANYWHERE Codes load_codes(std::byte const* from, int lane) {
    auto const low = load_words<kLow>(from, lane);
    Codes codes = unpacked<kLow>(low, lane);
    if constexpr (kHigh > 0) {
        auto const high = load_words<kHigh>(from + Plane<kLow>::kWords * 4, lane);
        Codes const more = unpacked<kHigh>(high, lane);
        SPILLWAY_UNROLL
        for (int i = 0; i < kRows * kPlaces; ++i) {
            codes.at[i] |= more.at[i] << kLow;
        }
    }
    return codes;
}

template <int kLow, int kHigh, typename Warp>
SPILLWAY_ANYWHERE void store_codes(
    Warp const& warp, Each<Warp, Codes> const& codes, std::byte* to
) {
    Each<Warp, typename Plane<kLow>::Words> low;
    warp.each([&](int lane) {
        low[lane] = packed<kLow>(lane, [&](int row, int place) {
            return codes[lane].at[row * kPlaces + place];
        });
    });
    store_words<kLow>(warp, low, to);
    if constexpr (kHigh > 0) {
        Each<Warp, typename Plane<kHigh>::Words> high;
        warp.each([&](int lane) {
            high[lane] = packed<kHigh>(lane, [&](int row, int place) {
                return codes[lane].at[row * kPlaces + place] >> kLow;
            });
        });
        store_words<kHigh>(warp, high, to + Plane<kLow>::kWords * 4);
    }
}

template <typename Coding, typename Value, int kLow, int kHigh, typename Warp>
SPILLWAY_ANYWHERE void encode_whole(Warp const& warp, Task const& task, ToEncode const& chunk) {
    Each<Warp, Rows> rows;
    warp.each([&](int lane) { rows[lane] = load_rows<Value>(chunk.raw, lane); });
    if (refused(warp, rows, chunk.first(), [](std::uint32_t bits) {
            return !is_number<Value>(bits);
        })) {
        return;
    }
    int const group = 1 << task.group_bits;
    Each<Warp, Lows> lows;
    warp.each([&](int lane) {
        lows[lane] = lows_of<Value>(rows[lane]);
        join_rows(lows[lane], group);
    });
    join_lanes<2 * kRows>(warp, lows, group / kPlaces);
    Each<Warp, Codes> codes;
    warp.each([&](int lane) {
        SPILLWAY_UNROLL
        for (int row = 0; row < kRows; ++row) {
            int const index = index_of(lane, row, 0);
            if ((index & (group - 1)) == 0) {
                Range const range =
                    range_of(task.job, lows[lane].at[row], lows[lane].at[kRows + row]);
                put_range<Value>(task, chunk.ranges, index >> task.group_bits, range);
            }
        }
        arithmetic::Key const key = arithmetic::key_of(task.job.seed, chunk.number);
        codes[lane] =
            Coding::kRounds && task.job.codec.stochastic
                ? codes_of<Coding, Value, Coding::kRounds>(
                      task.job, rows[lane], lows[lane], lane, key
                  )
                : codes_of<Coding, Value, false>(task.job, rows[lane], lows[lane], lane, key);
    });
    store_codes<kLow, kHigh>(warp, codes, chunk.codes);
}

template <typename Coding, typename Value, int kLow, int kHigh, typename Warp>
SPILLWAY_ANYWHERE void decode_whole(Warp const& warp, Task const& task, ToDecode const& chunk) {
    warp.each([&](int lane) {
        Array<Range, kRows> ranges;
        SPILLWAY_UNROLL
        for (int row = 0; row < kRows; ++row) {
            std::int64_t const group = index_of(lane, row, 0) >> task.group_bits;
            ranges.at[row] = get_range<Value>(task, chunk.ranges, group);
        }
        auto const codes = load_codes<kLow, kHigh>(chunk.codes, lane);
        SPILLWAY_UNROLL
        for (int row = 0; row < kRows; ++row) {
            arithmetic::Scale const scale = scale_of(task.job, ranges.at[row]);
            store_row<Value>(chunk.raw, lane, row, [&](int place) {
                std::uint32_t const code = codes.at[row * kPlaces + place];
                return Value::bits(Coding::value(task.job, scale, code));
            });
        }
    });
}

// One bit an element.

template <typename Coding, typename Value, typename Warp>
SPILLWAY_ANYWHERE void encode_whole_bits(Warp const& warp, ToEncode const& chunk) {
    Each<Warp, Rows> rows;
    warp.each([&](int lane) { rows[lane] = load_rows<Value>(chunk.raw, lane); });
    std::uint32_t other = 0;
    if constexpr (Coding::kAgrees) {
        Each<Warp, std::uint32_t> others;
        warp.each([&](int lane) {
            others[lane] = 0;
            SPILLWAY_UNROLL
            for (int i = kRows * kPlaces - 1; i >= 0; --i) {
                others[lane] = rows[lane].at[i] == 0 ? others[lane] : rows[lane].at[i];
            }
        });
        other = warp.agree(others, chunk.ranges);
    }
    if (refused(warp, rows, chunk.first(), [&](std::uint32_t bits) {
            return Coding::template refuses<Value>(bits, other);
        })) {
        return;
    }
    Each<Warp, Codes> codes;
    warp.each([&](int lane) {
        SPILLWAY_UNROLL
        for (int i = 0; i < kRows * kPlaces; ++i) {
            codes[lane].at[i] = Coding::template code<Value>(rows[lane].at[i]);
        }
    });
    store_codes<1, 0>(warp, codes, chunk.codes);
}

template <typename Value, typename Warp>
SPILLWAY_ANYWHERE void decode_whole_bits(
    Warp const& warp, Task const& task, ToDecode const& chunk
) {
    std::uint32_t const other = other_of(task, chunk.ranges);
    warp.each([&](int lane) {
        auto const codes = load_codes<1, 0>(chunk.codes, lane);
        SPILLWAY_UNROLL
        for (int row = 0; row < kRows; ++row) {
            store_row<Value>(chunk.raw, lane, row, [&](int place) {
                return codes.at[row * kPlaces + place] == 0 ? 0 : other;
            });
        }
    });
}

}  // namespace spillway::lanes
