// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/uring.h"

#include "tier/block_file.h"

#include <liburing.h>
#include <sys/uio.h>

#include <cerrno>

namespace spillway {

Ring::Ring() : ring_(std::make_unique<io_uring>()) {}

Result<std::unique_ptr<Ring>> Ring::make(int fd, int entries) {
    std::unique_ptr<Ring> made(new Ring());
    auto const count = static_cast<unsigned>(entries);
    unsigned const flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    int failure = ::io_uring_queue_init(count, made->ring_.get(), flags);
    if (failure == -EINVAL) {  // before Linux 5.19
        failure = ::io_uring_queue_init(count, made->ring_.get(), 0);
    }
    if (failure < 0) {
        Error refused = system_error("io_uring is refused", -failure, "");
        refused.code = Errc::unsupported;
        return refused;
    }
    made->open_ = true;
    made->fd_ = fd;
    ::io_uring_ring_dontfork(made->ring_.get());
    made->file_registered_ = ::io_uring_register_files(made->ring_.get(), &fd, 1) == 0;
    made->buffers_ = ::io_uring_register_buffers_sparse(made->ring_.get(), kRegisteredBuffers) == 0;
    return made;
}

Ring::~Ring() {
    if (!open_) {
        return;
    }
    if (buffers_) {
        ::io_uring_unregister_buffers(ring_.get());
    }
    if (file_registered_) {
        ::io_uring_unregister_files(ring_.get());
    }
    ::io_uring_queue_exit(ring_.get());
}

bool Ring::add(Io const& io) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(ring_.get());
    if (entry == nullptr) {
        return false;
    }
    int const file = file_registered_ ? 0 : fd_;
    auto const size = static_cast<unsigned>(io.size_bytes);
    auto const offset = static_cast<std::uint64_t>(io.file_offset);
    if (io.way == Direction::store && io.buffer >= 0) {
        ::io_uring_prep_write_fixed(entry, file, io.memory, size, offset, io.buffer);
    } else if (io.way == Direction::store) {
        ::io_uring_prep_write(entry, file, io.memory, size, offset);
    } else if (io.buffer >= 0) {
        ::io_uring_prep_read_fixed(entry, file, io.memory, size, offset, io.buffer);
    } else {
        ::io_uring_prep_read(entry, file, io.memory, size, offset);
    }
    if (file_registered_) {
        entry->flags |= IOSQE_FIXED_FILE;
    }
    ::io_uring_sqe_set_data(entry, io.tag);
    return true;
}

bool Ring::add_wake(int event_fd, std::uint64_t* value, void* tag) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(ring_.get());
    if (entry == nullptr) {
        return false;
    }
    ::io_uring_prep_read(entry, event_fd, value, sizeof *value, 0);
    ::io_uring_sqe_set_data(entry, tag);
    return true;
}

void Ring::submit(bool wait) {
    int const result =
        wait ? ::io_uring_submit_and_wait(ring_.get(), 1) : ::io_uring_submit(ring_.get());
    // What was not taken stays queued, and the next call offers it again.
    bool const again =
        result == -EINTR || result == -EAGAIN || result == -EBUSY || result == -ENOMEM;
    SPILLWAY_ASSERT(result >= 0 || again, "the kernel refuses a ring that it made");
}

std::optional<Ring::Completion> Ring::pop() {
    io_uring_cqe* entry = nullptr;
    if (::io_uring_peek_cqe(ring_.get(), &entry) != 0 || entry == nullptr) {
        return std::nullopt;
    }
    Completion const completion{::io_uring_cqe_get_data(entry), entry->res};
    ::io_uring_cqe_seen(ring_.get(), entry);
    return completion;
}

Result<void> Ring::register_buffer(int index, std::span<std::byte> memory) {
    if (!buffers_) {
        return Error{Errc::unsupported, "this kernel does not register buffers one by one", ""};
    }
    iovec const span{memory.data(), memory.size()};
    __u64 const tag = 0;
    int const done = ::io_uring_register_buffers_update_tag(
        ring_.get(), static_cast<unsigned>(index), &span, &tag, 1
    );
    if (done != 1) {
        return system_error("memory cannot be registered", done < 0 ? -done : EINVAL, "");
    }
    return {};
}

void Ring::forget_buffer(int index) noexcept {
    iovec const none{nullptr, 0};
    __u64 const tag = 0;
    ::io_uring_register_buffers_update_tag(
        ring_.get(), static_cast<unsigned>(index), &none, &tag, 1
    );
}

}  // namespace spillway
