// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The text a model is trained on, as bytes, and the batches drawn from it. Free of torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spillway::train {

/// At most this much of a file or folder is read, so that memory stays bounded.
inline constexpr std::int64_t kCorpusLimitBytes = std::int64_t{16} << 20;

struct Corpus {
    std::vector<std::uint8_t> bytes;
    std::string source;  ///< the path it was read from
    std::int64_t files = 0;
    std::uint64_t fingerprint = 0;    ///< of the bytes
    std::int64_t held_out_bytes = 0;  ///< of its end: for validation alone
};

/// Reads a file, or all text files below a folder in the order of their paths, up to the limit.
/// An empty path reads text that the machine already has: Python's standard library, else the
/// licences and documents under /usr/share.
///
/// Fails   BadValue naming --data and the path: absent, unreadable, neither file nor folder, or
///         fewer bytes than one sample needs (`needed_bytes`)
[[nodiscard]] Corpus read_corpus(std::string const& path, std::int64_t needed_bytes);

/// Keeps the last tenth of the text, and at least one sample of it, for validation.
///
/// Fails   BadValue naming --validate-every: nothing would be left to train on
void hold_out_a_tenth(Corpus& corpus, std::int64_t needed_bytes);

/// Names one micro-batch of a run.
struct BatchKey {
    std::int64_t seed = 0;
    std::int64_t step = 0;
    std::int64_t micro_batch = 0;
    bool held_out = false;  ///< of the part for validation
};

/// Fills `inputs` and `targets` (each samples x sequence) with pieces of the corpus at places that
/// depend on the key alone; a target is the byte after its input.
void draw_batch(
    Corpus const& corpus,
    BatchKey const& key,
    std::int64_t sequence,
    std::span<std::int64_t> inputs,
    std::span<std::int64_t> targets
);

}  // namespace spillway::train
