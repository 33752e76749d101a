// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/short_chain.h"

#include "base/assert.h"

#include <algorithm>

namespace spillway {

namespace {

/// Stages in a row as one. Where it is a checkpoint, its first stage is one and the others are
/// inner: what those make again is its tape, and what they keep is among its others.
Stage as_one(std::vector<Stage> const& stages, std::size_t begin, std::size_t end) {
    Stage one = stages[begin];
    for (std::size_t i = begin + 1; i < end; ++i) {
        Stage const& next = stages[i];
        if (next.input) {
            (next.input_has_recipe ? one.tape : one.others).push_back(*next.input);
        }
        one.tape.insert(one.tape.end(), next.tape.begin(), next.tape.end());
        one.others.insert(one.others.end(), next.others.begin(), next.others.end());
        one.tape_bytes += whole_bytes(next) - bytes_kept_inside(next);
        one.other_bytes += bytes_kept_inside(next);
        one.tape_ns += remake_inside_ns(next);
        one.forward_ns += next.forward_ns;
        one.backward_ns += next.backward_ns;
        one.beside_bytes = std::max(one.beside_bytes, next.beside_bytes);
    }
    return one;
}

/// Where the next one begins: what the chain's stages up to there are of all, half by their count
/// and half by their bytes, is at most 1 / most. Of the places in the second half of that, the one
/// whose input is the smallest, since checkpoints keep that.
class Ends {
  public:
    Ends(std::vector<Stage> const& stages, std::size_t most) : stages_(stages), shares_{0} {
        auto const all_bytes = static_cast<double>(std::max<std::int64_t>(1, whole_bytes(stages)));
        for (Stage const& stage : stages) {
            double const of_bytes = static_cast<double>(whole_bytes(stage)) / all_bytes;
            double const of_count = 1 / static_cast<double>(stages.size());
            shares_.push_back(
                shares_.back() + (of_bytes + of_count) / 2 * static_cast<double>(most)
            );
        }
    }

    [[nodiscard]] std::size_t after(std::size_t begin) const {
        std::size_t best = begin + 1;
        for (std::size_t end = begin + 2; end < stages_.size(); ++end) {
            double const share = shares_[end] - shares_[begin];
            if (share > 1) {
                break;
            }
            bool const is_early = shares_[best] - shares_[begin] < 0.5;
            if (is_early || stages_[end].input_bytes <= stages_[best].input_bytes) {
                best = end;
            }
        }
        return best;
    }

  private:
    std::vector<Stage> const& stages_;
    std::vector<double> shares_;  ///< of the stages before each, times `most`
};

}  // namespace

std::vector<StageFate> ShortChain::fates_of_all(std::vector<StageFate> const& fates) const {
    SPILLWAY_ASSERT(fates.size() == counts.size(), "one fate for each stage");
    std::vector<StageFate> all;
    for (std::size_t i = 0; i < fates.size(); ++i) {
        bool const is_alike = fates[i] == StageFate::keep || fates[i] == StageFate::move;
        all.push_back(fates[i]);
        all.insert(all.end(), counts[i] - 1, is_alike ? fates[i] : StageFate::inner);
    }
    return all;
}

ShortChain shortened(std::vector<Stage> const& stages, std::size_t most) {
    ShortChain chain;
    Ends const ends(stages, most);
    for (std::size_t begin = 0; begin < stages.size();) {
        bool const is_long = stages.size() > 2 * most;
        std::size_t const end = is_long ? ends.after(begin) : begin + 1;
        chain.stages.push_back(as_one(stages, begin, end));
        chain.counts.push_back(end - begin);
        begin = end;
    }
    return chain;
}

}  // namespace spillway
