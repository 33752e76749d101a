// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A device that encodes and decodes by itself, because the host does not reach its memory.
#pragma once

#include "base/result.h"
#include "codec/codec.h"
#include "memory/device.h"

#include <cstdint>

namespace spillway {

/// Thread  every function may be called from any thread
class DeviceCoder {
  public:
    DeviceCoder() = default;
    DeviceCoder(DeviceCoder const&) = delete;
    DeviceCoder& operator=(DeviceCoder const&) = delete;
    virtual ~DeviceCoder() = default;

    /// Whether `encode` and `decode` take this codec.
    [[nodiscard]] virtual bool codes(Codec const& codec) const = 0;
    [[nodiscard]] virtual StreamId encode_stream() const = 0;
    [[nodiscard]] virtual StreamId decode_stream() const = 0;

    /// Enqueues an encode on `stream`. `coded` becomes the block but for its header (layout.h), in
    /// whose first 8 bytes is then kNoneRefused, or the index of the first element that the codec
    /// cannot give back.
    ///
    /// Order, Fails   as Device::copy; `raw` is `encoding.raw_bytes()`, `coded` `encoded_bytes`
    [[nodiscard]] virtual Result<void> encode(
        Encoding const& encoding, void const* raw, void* coded, std::uint64_t seed, StreamId stream
    ) = 0;
    /// Enqueues a decode; any bytes decode to something.
    ///
    /// Order, Fails   as `encode`
    [[nodiscard]] virtual Result<void> decode(
        Encoding const& encoding, void const* coded, void* raw, StreamId stream
    ) = 0;
};

}  // namespace spillway
