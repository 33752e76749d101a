// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A device of torch's that has kernels for codecs.
#pragma once

#include "mover/device_coder.h"
#include "torch_driver/device/c10_device.h"

namespace spillway {

/// Encodes and decodes on two streams of its own.
class CodingDevice : public C10Device, public DeviceCoder {
  public:
    /// As C10Device's.
    CodingDevice(c10::Device where, c10::DeviceAllocator& allocator, std::int64_t limit_bytes)
        : C10Device(where, allocator, limit_bytes),
          encode_(stream_of_pool()),
          decode_(stream_of_pool()) {}

    [[nodiscard]] StreamId encode_stream() const override { return encode_; }
    [[nodiscard]] StreamId decode_stream() const override { return decode_; }

  private:
    StreamId const encode_;
    StreamId const decode_;
};

}  // namespace spillway
