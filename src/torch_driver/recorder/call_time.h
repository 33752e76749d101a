// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What an operator took: the host's time, or, where it ran on a stream, the stream's.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace spillway {

/// Thread  `ns` from any thread
class CallTime {
  public:
    /// The host's while the stream has not passed the operator.
    [[nodiscard]] std::int64_t ns() const;
    [[nodiscard]] bool is_on_stream() const { return on_stream_ != nullptr; }
    /// Until the stream has passed the operator.
    void wait() const;

  private:
    friend class CallTimer;
    struct OnStream {
        c10::Event begin;
        c10::Event end;
    };

    std::int64_t host_ns_ = 0;
    std::shared_ptr<OnStream> on_stream_;  ///< null: on the host, or the device has no events left
};

/// Of an operator, or several, that the calling thread runs.
class CallTimer {
  public:
    /// `arguments` tell the device.
    void begins(std::vector<c10::IValue> const& arguments);
    void begins(c10::Device device);
    [[nodiscard]] CallTime ends();

  private:
    std::int64_t begin_ns_ = 0;
    std::optional<c10::Event> begin_;
};

}  // namespace spillway
