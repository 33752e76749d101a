// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The late accelerator with kernels of its own for codecs: the scalar ones of the host, run late on
// the streams that they are enqueued on.
#pragma once

#include "codec/codec.h"
#include "codec/layout.h"
#include "late/late.h"
#include "torch_driver/c10_device.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace spillway {

class CodingDevice final : public C10Device {
  public:
    using C10Device::C10Device;

    bool refuses_encodes = false;
    bool refuses_decodes = false;
    std::int64_t copies_to_refusal = -1;  ///< of those that leave; -1: none is refused

    Result<void> copy(void* to, void const* from, std::int64_t size_bytes, StreamId on) override {
        if (on == copy_out_stream() && copies_to_refusal >= 0 && copies_to_refusal-- == 0) {
            copies_to_refusal = 7;
            return Error{Errc::io, "no copy today", "late:0"};
        }
        return C10Device::copy(to, from, size_bytes, on);
    }

    [[nodiscard]] bool codes(Codec const& codec) const override { return code_bits(codec) > 0; }

    Result<void> encode(
        Encoding const& encoding, void const* raw, void* coded, std::uint64_t seed, StreamId on
    ) override {
        if (refuses_encodes) {
            return Error{Errc::unsupported, "no kernel today", "late:0"};
        }
        auto const raw_size = static_cast<std::size_t>(encoding.raw_bytes());
        auto const size = static_cast<std::size_t>(encoded_bytes(encoding).value());
        std::span const from(static_cast<std::byte const*>(raw), raw_size);
        std::span const to(static_cast<std::byte*>(coded), size);
        late::launch(
            stream(on),
            "encode",
            {{raw, raw_size, false}, {coded, size, true}},
            [encoding, from, to, seed] {
                Result<std::int64_t> const done = spillway::encode(encoding, from, to, seed);
                std::uint64_t const refused = done.ok() ? kNoneRefused : index_in(done.error());
                std::memcpy(to.data(), &refused, sizeof refused);
            }
        );
        return {};
    }

    Result<void> decode(Encoding const& encoding, void const* coded, void* raw, StreamId on)
        override {
        if (refuses_decodes) {
            return Error{Errc::unsupported, "no kernel today", "late:0"};
        }
        auto const raw_size = static_cast<std::size_t>(encoding.raw_bytes());
        auto const size = static_cast<std::size_t>(encoded_bytes(encoding).value());
        std::span const from(static_cast<std::byte const*>(coded), size);
        std::span const to(static_cast<std::byte*>(raw), raw_size);
        late::launch(
            stream(on),
            "decode",
            {{coded, size, false}, {raw, raw_size, true}},
            [encoding, from, to] {
                if (!spillway::decode(encoding, from, to).ok()) {
                    std::fill(
                        to.begin(), to.end(), std::byte{0xff}
                    );  // any bytes decode to something
                }
            }
        );
        return {};
    }

  private:
    /// "element 70 is NaN or infinite"
    static std::uint64_t index_in(Error const& error) {
        return std::stoull(error.what.substr(std::string("element ").size()));
    }
};

}  // namespace spillway
