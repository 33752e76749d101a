// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The late accelerator with kernels of its own for codecs, run late on the streams that they are
// enqueued on: the scalar ones of the host, or, where a test compares bits of what no codec gives
// back exactly, ones that leave a ticket in the coded block for bytes that they keep aside.
#pragma once

#include "codec/codec.h"
#include "codec/layout.h"
#include "late/late.h"
#include "late/late_session.h"
#include "torch_driver/allocator/device_allocator.h"
#include "torch_driver/device/coding_device.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace spillway {

class LateCodingDevice final : public CodingDevice {
  public:
    using CodingDevice::CodingDevice;

    bool by_ticket = false;
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
            [encoding, from, to, seed, tickets = by_ticket ? tickets_ : nullptr] {
                if (tickets != nullptr) {
                    tickets->put(from, to);
                    return;
                }
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
            [encoding, from, to, tickets = by_ticket ? tickets_ : nullptr] {
                bool const is_decoded = tickets != nullptr
                                            ? tickets->take(from, to)
                                            : spillway::decode(encoding, from, to).ok();
                if (!is_decoded) {  // any bytes decode to something
                    std::fill(to.begin(), to.end(), std::byte{0xff});
                }
            }
        );
        return {};
    }

  private:
    /// Thread  that of the tasks, one at a time
    class Tickets {
      public:
        void put(std::span<std::byte const> raw, std::span<std::byte> coded) {
            std::fill(coded.begin(), coded.end(), std::byte{0x5a});
            std::uint64_t const ticket = kept_.size();
            std::memcpy(coded.data(), &kNoneRefused, sizeof kNoneRefused);
            std::memcpy(coded.last(sizeof ticket).data(), &ticket, sizeof ticket);
            kept_.emplace_back(raw.begin(), raw.end());
        }
        bool take(std::span<std::byte const> coded, std::span<std::byte> raw) const {
            std::uint64_t ticket = 0;
            std::memcpy(&ticket, coded.last(sizeof ticket).data(), sizeof ticket);
            if (ticket >= kept_.size() || kept_[ticket].size() != raw.size()) {
                return false;
            }
            std::copy(kept_[ticket].begin(), kept_[ticket].end(), raw.begin());
            return true;
        }

      private:
        std::vector<std::vector<std::byte>> kept_;
    };

    /// "element 70 is NaN or infinite"
    static std::uint64_t index_in(Error const& error) {
        return std::stoull(error.what.substr(std::string("element ").size()));
    }

    std::shared_ptr<Tickets> const tickets_ = std::make_shared<Tickets>();
};

inline constexpr std::int64_t kCodedBytes = 64 * 1024;

struct CodedRig {
    std::shared_ptr<LateCodingDevice> device;
    std::shared_ptr<TorchSession> session;
};

/// Values leave for pinned memory, or, where there is one, for `tier`. `options.codecs` say what is
/// encoded, and the budget holds kCodedBytes for that.
inline CodedRig open_coded(
    SessionOptions const& options, std::unique_ptr<Tier> tier = nullptr, bool own_thread = false
) {
    c10::Device const where(c10::kPrivateUse1, 0);
    auto const device = std::make_shared<LateCodingDevice>(
        where, *install_device_allocator(where.type()), options.device_budget_bytes
    );
    SessionDevice opened{
        device,
        device,
        {.device = where, .free_block = device->deleter()},
        [device](std::int64_t size_bytes) { return device->host_memory(size_bytes); }};
    MoverOptions mover = mover_options(own_thread);
    mover.coded = device->host_memory(kCodedBytes).value();
    bool const is_staged = tier != nullptr;
    if (is_staged) {
        mover.staging = device->host_memory(values(4)).value();
    }
    auto host = is_staged ? nullptr : HostTier::open(device->host_memory(values(1024)).value());
    auto session = open_session_on(
        options, std::move(opened), std::move(host), std::move(tier), std::move(mover)
    );
    return {device, session};
}

/// Whatever a codec can take leaves encoded, and comes back with its bits.
inline CodedRig open_by_ticket(SessionOptions options, std::unique_ptr<Tier> tier) {
    options.lossy = true;
    options.device_budget_bytes += kCodedBytes;
    options.codecs = "affine8:group=256";
    for (char const* const name : {"relu_output", "attention", "other"}) {
        options.codecs += std::string(",") + name + "=affine8:group=256";
    }
    CodedRig coded = open_coded(options, std::move(tier));
    coded.device->by_ticket = true;
    return coded;
}

}  // namespace spillway
