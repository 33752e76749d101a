// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/block_file.h"

#include "base/log.h"
#include "base/units.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace spillway {

namespace {

Error bad_folder(std::string const& folder, std::string_view why) {
    return Error{Errc::bad_argument, fmt::format("the folder '{}' {}", folder, why), ""};
}

/// A nameless file; where the file system cannot make one, a named one that is unlinked at once.
int open_nameless(std::string const& folder, int flags) {
    int const fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
        return fd;
    }
    std::string path = folder + "/.spillway-XXXXXX";
    int const named = ::mkostemp(path.data(), O_CLOEXEC | flags);
    if (named >= 0) {
        ::unlink(path.c_str());
    }
    return named;
}

/// Makes [from, to) part of the file; 0 or an errno.
int allocate(int fd, std::int64_t from, std::int64_t to) {
    int result = 0;
    do {
        result = ::fallocate(fd, 0, from, to - from);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EOPNOTSUPP) {  // this file system allocates when it writes
        result = ::ftruncate(fd, to);
    }
    return result == 0 ? 0 : errno;
}

/// O_DIRECT can be accepted at open and refused at the first write.
bool direct_works(int fd) {
    Result<AlignedBuffer> page = AlignedBuffer::make(kBlockAlign);
    if (!page.ok()) {
        return false;
    }
    auto const size = static_cast<std::size_t>(kBlockAlign);
    return ::pwrite(fd, page->data(), size, 0) == kBlockAlign &&
           ::pread(fd, page->data(), size, 0) == kBlockAlign;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
    if (this != &other) {
        reset();
        number_ = std::exchange(other.number_, -1);
    }
    return *this;
}

void Fd::reset() noexcept {
    if (number_ >= 0) {
        ::close(std::exchange(number_, -1));
    }
}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
}

AlignedBuffer::~AlignedBuffer() {
    if (data_ != nullptr) {
        ::munmap(data_, static_cast<std::size_t>(size_bytes_));
    }
}

Result<AlignedBuffer> AlignedBuffer::make(std::int64_t size_bytes) {
    AlignedBuffer made;
    auto const size = static_cast<std::size_t>(round_up(size_bytes, kBlockAlign));
    void* const memory =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return system_error(fmt::format("{} of staging memory", size_bytes), errno, "");
    }
    ::madvise(memory, size, MADV_DONTFORK);
    made.data_ = static_cast<std::byte*>(memory);
    made.size_bytes_ = static_cast<std::int64_t>(size);
    return made;
}

Error system_error(std::string_view what, int error_number, std::string_view where) {
    Errc code = Errc::io;
    if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG) {
        code = Errc::tier_full;
    } else if (error_number == ENOMEM) {
        code = Errc::out_of_memory;
    }
    std::string const why = std::generic_category().message(error_number);
    return Error{code, fmt::format("{}: {}", what, why), std::string(where)};
}

Error transfer_error(std::string_view what, int error_number, std::string_view where) {
    Error error = system_error(what, error_number, where);
    error.code = error.code == Errc::out_of_memory ? Errc::io : error.code;
    return error;
}

std::string why_no_block_file_in(std::string const& folder, bool allow_tmpfs) {
    struct stat found {};
    if (::stat(folder.c_str(), &found) != 0) {
        return errno == ENOENT ? "does not exist (it is not created)"
                               : std::generic_category().message(errno);
    }
    if (!S_ISDIR(found.st_mode)) {
        return "is not a folder";
    }
    if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
        return "is not writable";
    }
    struct statfs system {};
    if (::statfs(folder.c_str(), &system) != 0) {
        return std::generic_category().message(errno);
    }
    bool const in_memory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
    return in_memory && !allow_tmpfs
               ? "is memory (tmpfs), not a disk; use a folder on a disk, or set `nvme_allow_tmpfs`"
               : "";
}

Result<BlockFile> BlockFile::make(Options const& options) {
    std::string const why = why_no_block_file_in(options.folder, options.allow_tmpfs);
    if (!why.empty()) {
        return bad_folder(options.folder, why);
    }
    BlockFile file;
    if (options.direct) {
        file.fd_ = Fd(open_nameless(options.folder, O_DIRECT));
        file.direct_ = file.fd_.valid() && direct_works(file.fd_.get());
    }
    if (!file.direct_) {
        file.fd_ = Fd(open_nameless(options.folder, 0));
    }
    if (!file.fd_.valid()) {
        bool const refused = errno == EACCES || errno == EPERM || errno == EROFS;
        if (errno == ENOENT) {  // in /proc, for example
            return bad_folder(options.folder, "takes no files; it is not on a disk");
        }
        return refused ? bad_folder(options.folder, "is not writable")
                       : system_error("a file cannot be made there", errno, options.folder);
    }
    struct stat made {};
    if (::fchmod(file.fd_.get(), 0600) != 0 || ::fstat(file.fd_.get(), &made) != 0) {
        return system_error("the new file is not ours", errno, options.folder);
    }
    file.label_ = fmt::format("{}/#{} (unlinked)", options.folder, made.st_ino);
    if (!file.direct_) {
        ::posix_fadvise(file.fd_.get(), 0, 0, POSIX_FADV_RANDOM);
    }
    return file;
}

Result<void> BlockFile::grow(std::int64_t size_bytes) {
    if (size_bytes <= size_bytes_) {
        return {};
    }
    int const failure = size_bytes - size_bytes_ > free_bytes()
                            ? ENOSPC  // a try would take what others need before it fails
                            : allocate(fd_.get(), size_bytes_, size_bytes);
    if (failure != 0) {
        static_cast<void>(::ftruncate(fd_.get(), size_bytes_));  // hands back what it got
        return system_error(
            fmt::format("the file cannot grow to {}", format_size(size_bytes)), failure, label_
        );
    }
    size_bytes_ = size_bytes;
    return {};
}

void BlockFile::empty() noexcept {
    static_cast<void>(::ftruncate(fd_.get(), 0));  // at worst they go with the last descriptor
    size_bytes_ = 0;
}

std::int64_t BlockFile::free_bytes() const {
    struct statfs system {};
    if (::fstatfs(fd_.get(), &system) != 0) {
        return 0;
    }
    return static_cast<std::int64_t>(system.f_bavail) * static_cast<std::int64_t>(system.f_bsize);
}

}  // namespace spillway
