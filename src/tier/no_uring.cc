// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for uring.cc where liburing is not installed: threads with pread and pwrite do the
// work, as on a system that refuses io_uring.
#include "tier/uring.h"

struct io_uring {};

namespace spillway {

Ring::Ring() = default;
Ring::~Ring() = default;

Result<std::unique_ptr<Ring>> Ring::make(int, int) {
    return Error{Errc::unsupported, "this library was built without liburing", ""};
}
bool Ring::add(Io const&) {
    return false;
}
bool Ring::add_wake(int, std::uint64_t*, void*) {
    return false;
}
void Ring::submit(bool) {}
std::optional<Ring::Completion> Ring::pop() {
    return std::nullopt;
}
Result<void> Ring::register_buffer(int, std::span<std::byte>) {
    return Error{Errc::unsupported, "this library was built without liburing", ""};
}
void Ring::forget_buffer(int) noexcept {}

}  // namespace spillway
