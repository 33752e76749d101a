// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The safetensors file format: 8 bytes of header length (little endian), a JSON header naming each
// tensor's dtype, shape and place, then the data without gaps. Free of torch.
#pragma once

#include "train/files.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::train {

/// A tensor's line in the header. Offsets are from the start of the data, half-open.
struct TensorEntry {
    std::string name;
    std::string dtype;  ///< "F32", "BF16", "I64", ...
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0;
    std::int64_t end = 0;

    bool operator==(TensorEntry const&) const = default;
};

/// Bytes of one element; 0 for a dtype that we do not know.
[[nodiscard]] std::int64_t element_bytes(std::string_view dtype);

/// What a file holds, found valid.
struct TensorIndex {
    std::vector<TensorEntry> entries;  ///< in the order of their data
    std::int64_t data_begin = 0;       ///< offset of the data in the file
};

/// Reads and checks the header of an untrusted file: its length, JSON without repeated names,
/// dtypes, shapes whose product fits and matches the bytes, places that cover the data exactly.
///
/// Fails   FileError naming the file and what is wrong
[[nodiscard]] TensorIndex read_index(InputFile const& file);

/// A tensor to write. `bytes` is called once, when its turn has come, so that the caller may fetch
/// them then; they stay the caller's, and as they are until the next one is called.
struct TensorToWrite {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::function<std::span<std::byte const>()> bytes;
};

/// Writes a whole new file, synced, and returns its hash.
///
/// Fails   FileError: also where a dtype is not known, or the bytes do not match dtype and shape
std::string write_tensors(std::string const& path, std::vector<TensorToWrite> const& tensors);

}  // namespace spillway::train
