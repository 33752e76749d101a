// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Encodes and decodes blocks on a GPU, bit for bit as the scalar codecs do. The kernels write and
// read the block's ranges and codes at the offsets that layout.h defines. The header is left to the
// host: XXH3 is one chain of sums, which a GPU would walk at a fraction of its rate, and a block
// passes through host memory on its way to every tier. There `seal_block` (codec/block.h) sums what
// came off the device, and `check_block` finds every byte that changed from then on, before the
// block goes back.
#pragma once

#include "base/result.h"
#include "codec/codec.h"
#include "codec/layout.h"

#include <cstddef>
#include <cstdint>

namespace spillway {

/// Device memory of one coded block. `raw` is aligned to its elements; where it is to 16 bytes too
/// the kernels run at the memory's rate, else slower. `coded` is aligned to 16 bytes.
struct DeviceBlock {
    void* raw = nullptr;    ///< `encoding.raw_bytes()`
    void* coded = nullptr;  ///< `encoded_bytes`; the first kHeaderBytes are left as they are
};

/// Encodes. The device word at `refused` becomes the first element that is NaN or infinite (`mask`:
/// some element that is a third value), or kNoneRefused; `coded` holds nothing where one is. That
/// word may lie in the header's place, where seal_block looks for it.
///
/// Order   enqueued on `stream` (a cudaStream_t), which must pass before the memory dies and before
///         `refused` is read; nothing is allocated, nothing waits
/// Fails   Errc::bad_argument (parameters that do not exist, alignment), Errc::unsupported
/// (identity
///         and lossless, which have no kernels; no kernel in this build, or none for this GPU),
///         Errc::io
[[nodiscard]] Result<void> encode_on_gpu(
    Encoding const& encoding,
    DeviceBlock const& block,
    std::uint64_t seed,
    std::uint64_t* refused,
    void* stream
);

/// Fills `raw`; what `coded` holds is not checked, and any bytes decode to something.
///
/// Order, Fails   as `encode_on_gpu`
[[nodiscard]] Result<void> decode_on_gpu(
    Encoding const& encoding, DeviceBlock const& block, void* stream
);

}  // namespace spillway
