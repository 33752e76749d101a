// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a codec costs and saves on this machine. Plain structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

struct CodecSpeed {
    std::string codec;  ///< as --codec takes it
    bool lossy = false;
    double bits_per_element = 0;     ///< everything included; of `lossless` on numbers like these
    double error_bound = 0;          ///< of an element, as a share of `bound_of`; 0: exact
    std::string bound_of;            ///< "range": of a group's, "largest": of its largest magnitude
    std::int64_t encoded_bytes = 0;  ///< of a tensor of `tensor_bytes`; of `lossless` the most
    double encode_bytes_per_s = 0;   ///< raw bytes, one core
    double decode_bytes_per_s = 0;

    bool operator==(CodecSpeed const&) const = default;
};

struct CodecSpeeds {
    std::int64_t tensor_bytes = 0;    ///< float32, whose encoded size is given
    std::int64_t measured_bytes = 0;  ///< float32, which the rates were measured on
    double copy_bytes_per_s = 0;      ///< memcpy's, one core
    std::vector<CodecSpeed> codecs;

    bool operator==(CodecSpeeds const&) const = default;
};

}  // namespace spillway
