// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// For tests: all lanes of a warp, one after the other.
#pragma once

#include "cuda_device/codec_warp.h"

namespace spillway::lanes {

class HostWarp {
  public:
    template <typename Item>
    class Each {
      public:
        Item& operator[](int lane) { return of_[lane]; }
        Item const& operator[](int lane) const { return of_[lane]; }

      private:
        Item of_[kLanes];
    };

    /// `refused`: the least element that was refused so far.
    explicit HostWarp(std::uint64_t& refused) : refused_(refused) {}

    template <typename Step>
    void each(Step const& step) const {
        for (int lane = 0; lane < kLanes; ++lane) {
            step(lane);
        }
    }
    /// What the lane has whose number differs in the bit `apart`.
    template <typename Word, int kCount>
    Each<Array<Word, kCount>> across(Each<Array<Word, kCount>> const& words, int apart) const {
        Each<Array<Word, kCount>> others;
        each([&](int lane) { others[lane] = words[lane ^ apart]; });
        return others;
    }
    bool any(Each<bool> const& flags) const {
        bool found = false;
        each([&](int lane) { found = found || flags[lane]; });
        return found;
    }
    /// Reports the least element.
    void refuse(Each<std::int64_t> const& elements) const {
        each([&](int lane) {
            auto const dtype = static_cast<std::uint64_t>(elements[lane]);
            refused_ = dtype < refused_ ? dtype : refused_;
        });
    }
    /// What is at `word`, which the first that finds 0 there sets to a word that is not 0.
    std::uint32_t agree(Each<std::uint32_t> const& words, std::byte* word) const {
        auto agreed = load<std::uint32_t>(word);
        each([&](int lane) { agreed = agreed == 0 ? words[lane] : agreed; });
        store(word, agreed);
        return agreed;
    }
    /// What lanes wrote before it, all lanes read after it.
    void meet() const {}

  private:
    std::uint64_t& refused_;
};

}  // namespace spillway::lanes
