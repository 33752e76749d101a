// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Files that must be whole or absent: read exactly, written beside, synced, renamed. Free of torch.
#pragma once

#include "spillway/hash.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace spillway::train {

/// A file that is not what it should be, or a call on one that failed. The text names the file.
struct FileError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// 16 hexadecimal digits.
[[nodiscard]] std::string text_of(Hash const& hash);
[[nodiscard]] std::string hash_of(std::string_view text);

/// A file opened for reading, its size, and reads that end early only by failing.
///
/// Fails   FileError in the constructor and in reads: absent, unreadable, shorter than asked
class InputFile {
  public:
    explicit InputFile(std::string path);
    ~InputFile();
    InputFile(InputFile const&) = delete;
    InputFile& operator=(InputFile const&) = delete;

    void read(std::int64_t offset, std::span<std::byte> into) const;
    [[nodiscard]] std::string read_all() const;
    [[nodiscard]] std::string hash() const;
    [[nodiscard]] std::int64_t size_bytes() const { return size_bytes_; }
    [[nodiscard]] std::string const& path() const { return path_; }

  private:
    std::string path_;
    int file_ = -1;
    std::int64_t size_bytes_ = 0;
};

/// A new file, hashed as it is written; `finish` syncs it. Destroyed before that, it stays
/// unsynced.
///
/// Fails   FileError: exists, no room, no permission
class OutputFile {
  public:
    explicit OutputFile(std::string path);
    ~OutputFile();
    OutputFile(OutputFile const&) = delete;
    OutputFile& operator=(OutputFile const&) = delete;

    void write(std::span<std::byte const> bytes);
    void write(std::string_view text);
    /// Returns the hash of all that was written.
    std::string finish();

  private:
    std::string path_;
    int file_ = -1;
    Hash hash_;
};

/// Puts the folder `fresh` in the place of `place` in one step; what was there is at `fresh` after
/// it. True: there was something.
bool exchange_folders(std::string const& fresh, std::string const& place);

/// Makes names in `folder` durable.
void sync_folder(std::string const& folder);

/// "a/b" -> "a", "b" -> ".", "/" -> "/"; a slash at the end is ignored.
[[nodiscard]] std::string folder_of(std::string const& path);

/// Replaces or makes the file with `text`, beside and renamed; what is no regular file (a pipe, a
/// terminal) is written in place.
void write_text_file(std::string const& path, std::string const& text);

}  // namespace spillway::train
