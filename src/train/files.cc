// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway::train {

namespace {

[[noreturn]] void fail(std::string const& path, std::string_view call) {
    throw FileError(path + ": " + std::string{call} + ": " + std::strerror(errno));
}

std::span<std::byte const> bytes_of(std::string_view text) {
    return std::as_bytes(std::span{text.data(), text.size()});
}

// write(2) until all is out.
void write_fully(int file, std::span<std::byte const> bytes, std::string const& path) {
    while (!bytes.empty()) {
        constexpr std::size_t kMost = std::size_t{1} << 30U;
        ssize_t const done = ::write(file, bytes.data(), std::min(bytes.size(), kMost));
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            fail(path, "write");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
}

}  // namespace

std::string text_of(Hash const& hash) {
    std::array<char, 17> digits{};
    std::snprintf(
        digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash.value())
    );
    return digits.data();
}

std::string hash_of(std::string_view text) {
    Hash hash;
    hash.add(bytes_of(text));
    return text_of(hash);
}

InputFile::InputFile(std::string path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ < 0) {
        fail(path_, "open");
    }
    struct stat status {};
    if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(file_);
        throw FileError(path_ + ": not a regular file");
    }
    size_bytes_ = status.st_size;
}

InputFile::~InputFile() {
    ::close(file_);
}

void InputFile::read(std::int64_t offset, std::span<std::byte> into) const {
    while (!into.empty()) {
        ssize_t const got = ::pread(file_, into.data(), into.size(), offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            fail(path_, "read");
        }
        if (got == 0) {
            throw FileError(path_ + ": cut short");
        }
        offset += got;
        into = into.subspan(static_cast<std::size_t>(got));
    }
}

std::string InputFile::read_all() const {
    std::string text(static_cast<std::size_t>(size_bytes_), '\0');
    read(0, std::as_writable_bytes(std::span{text}));
    return text;
}

std::string InputFile::hash() const {
    constexpr std::int64_t kChunk = std::int64_t{1} << 20;
    std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(kChunk, size_bytes_)));
    Hash hash;
    for (std::int64_t at = 0; at < size_bytes_; at += kChunk) {
        auto const part =
            std::span{chunk}.first(static_cast<std::size_t>(std::min(kChunk, size_bytes_ - at)));
        read(at, part);
        hash.add(part);
    }
    return text_of(hash);
}

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (file_ < 0) {
        fail(path_, "open");
    }
}

OutputFile::~OutputFile() {
    if (file_ >= 0) {
        ::close(file_);
    }
}

void OutputFile::write(std::span<std::byte const> bytes) {
    hash_.add(bytes);
    write_fully(file_, bytes, path_);
}

void OutputFile::write(std::string_view text) {
    write(bytes_of(text));
}

std::string OutputFile::finish() {
    if (::fsync(file_) != 0) {
        fail(path_, "fsync");
    }
    int const file = std::exchange(file_, -1);
    if (::close(file) != 0) {
        fail(path_, "close");
    }
    return text_of(hash_);
}

bool exchange_folders(std::string const& fresh, std::string const& place) {
    struct stat status {};
    bool const occupied = ::lstat(place.c_str(), &status) == 0;
    if (occupied) {
        if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) {
            return true;
        }
        // A file system without it: the old folder waits under another name for two renames.
        std::string const aside = fresh + "-old";
        if (::rename(place.c_str(), aside.c_str()) != 0) {
            fail(place, "rename");
        }
        if (::rename(fresh.c_str(), place.c_str()) != 0) {
            int const failure = errno;
            ::rename(aside.c_str(), place.c_str());
            errno = failure;
            fail(place, "rename");
        }
        ::rename(aside.c_str(), fresh.c_str());
    } else if (::rename(fresh.c_str(), place.c_str()) != 0) {
        fail(place, "rename");
    }
    return occupied;
}

void sync_folder(std::string const& folder) {
    int const file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) {
        fail(folder, "open");
    }
    bool const fine = ::fsync(file) == 0 || errno == EINVAL;  // EINVAL: nothing to sync there
    int const failure = errno;
    ::close(file);
    if (!fine) {
        errno = failure;
        fail(folder, "fsync");
    }
}

std::string folder_of(std::string const& path) {
    std::size_t const end = path.find_last_not_of('/');
    if (end == std::string::npos) {
        return path.empty() ? "." : "/";
    }
    std::size_t const slash = path.rfind('/', end);
    if (slash == std::string::npos) {
        return ".";
    }
    std::size_t const last = path.find_last_not_of('/', slash);
    return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

void write_text_file(std::string const& path, std::string const& text) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        int const file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        if (file < 0) {
            fail(path, "open");
        }
        write_fully(file, bytes_of(text), path);
        ::close(file);
        return;
    }
    std::string const beside = path + ".tmp-" + std::to_string(::getpid());
    ::unlink(beside.c_str());
    try {
        OutputFile file(beside);
        file.write(text);
        file.finish();
    } catch (...) {
        ::unlink(beside.c_str());
        throw;
    }
    if (::rename(beside.c_str(), path.c_str()) != 0) {
        int const failure = errno;
        ::unlink(beside.c_str());
        errno = failure;
        fail(path, "rename");
    }
}

}  // namespace spillway::train
