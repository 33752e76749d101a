// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The file under an NVMe tier: made without a name (or unlinked at once), mode 0600, preallocated
// in steps, read and written with O_DIRECT where the file system allows it.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace spillway {

/// What O_DIRECT asks of addresses, offsets and sizes.
inline constexpr std::int64_t kBlockAlign = 4096;

/// A file descriptor, closed at the end. Move-only.
class Fd {
  public:
    Fd() = default;
    explicit Fd(int number) : number_(number) {}
    Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Fd& operator=(Fd&& other) noexcept;
    ~Fd() { reset(); }

    [[nodiscard]] int get() const { return number_; }
    [[nodiscard]] bool valid() const { return number_ >= 0; }
    void reset() noexcept;

  private:
    int number_ = -1;
};

/// Page-aligned memory of the process's own that a forked child does not see. Move-only.
class AlignedBuffer {
  public:
    AlignedBuffer() = default;
    AlignedBuffer(AlignedBuffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_bytes_(std::exchange(other.size_bytes_, 0)) {}
    AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
    ~AlignedBuffer();

    /// Fails   Errc::out_of_memory
    [[nodiscard]] static Result<AlignedBuffer> make(std::int64_t size_bytes);

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::int64_t size_bytes() const { return size_bytes_; }

  private:
    std::byte* data_ = nullptr;
    std::int64_t size_bytes_ = 0;
};

/// "what: text of errno".
[[nodiscard]] Error system_error(std::string_view what, int error_number, std::string_view where);
/// The same for a read or write that failed: never Errc::out_of_memory, which is a budget's word.
[[nodiscard]] Error transfer_error(std::string_view what, int error_number, std::string_view where);

/// Why `folder` takes no BlockFile, "is not a folder", with options in backticks; empty: nothing is
/// against it now. The folder is not touched.
[[nodiscard]] std::string why_no_block_file_in(std::string const& folder, bool allow_tmpfs);

/// Thread  `grow` by one thread at a time; the others are const
class BlockFile {
  public:
    struct Options {
        std::string folder;
        bool direct = true;  ///< try O_DIRECT; without it every byte goes through the cache
        bool allow_tmpfs = false;
    };
    /// Makes the file. The folder is never created.
    ///
    /// Fails   Errc::bad_argument: the folder is absent, no folder, not writable, or in memory
    ///         (tmpfs) without leave; Errc::io
    [[nodiscard]] static Result<BlockFile> make(Options const& options);

    /// Makes the file at least `size_bytes` long, its bytes allocated on the disk.
    ///
    /// Fails   Errc::tier_full (no space), Errc::io
    [[nodiscard]] Result<void> grow(std::int64_t size_bytes);
    /// Gives all its bytes back to the disk, whoever else has the file open.
    void empty() noexcept;

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] bool direct() const { return direct_; }
    [[nodiscard]] std::int64_t size_bytes() const { return size_bytes_; }
    /// For people: folder and inode, since the file has no name.
    [[nodiscard]] std::string const& label() const { return label_; }
    /// Free space for a user of the file system now.
    [[nodiscard]] std::int64_t free_bytes() const;

  private:
    BlockFile() = default;

    Fd fd_;
    bool direct_ = false;
    std::int64_t size_bytes_ = 0;
    std::string label_;
};

}  // namespace spillway
