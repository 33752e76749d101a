// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What can happen and must be handled: a value or an Error, never an exception. Shaped like
// std::expected (C++23), so that it can become it when every compiler we use has it.
#pragma once

#include "base/assert.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace spillway {

struct Refusal;

/// The kinds of failure that callers distinguish. Everything else is in the message.
enum class Errc : std::uint8_t {
    bad_argument,    ///< a caller's value is not acceptable (a flag, a path, a size)
    bad_format,      ///< a file or text does not parse
    not_found,       ///< a named thing is not there
    io,              ///< the system refused a read, a write or a call
    corrupt,         ///< bytes came back different from what was stored
    tier_full,       ///< a tier has no room for what was asked
    out_of_memory,   ///< a byte budget cannot be met
    unsupported,     ///< this machine or build cannot do it
    cancelled,       ///< given up because something it waited for failed, or by the caller
    broken_promise,  ///< an internal rule was found broken; a bug
};

[[nodiscard]] std::string_view name_of(Errc code);

/// What went wrong (`what`: a full sentence part naming the offending value) and where (`where`:
/// file, tier, tensor or flag; may be empty).
struct Error {
    Errc code = Errc::broken_promise;
    std::string what;
    std::string where;
    std::shared_ptr<Refusal const> refusal = nullptr;  ///< of an out_of_memory: what was refused

    bool operator==(Error const&) const = default;

    /// "where: what", one line, for people.
    [[nodiscard]] std::string message() const;
};

/// Either a `T` or an `Error`. Looking at the value of a failed result aborts.
template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

    [[nodiscard]] bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    [[nodiscard]] T& value() & {
        SPILLWAY_ASSERT(ok(), "value() of a failed Result");
        return *std::get_if<0>(&state_);
    }
    [[nodiscard]] T const& value() const& {
        SPILLWAY_ASSERT(ok(), "value() of a failed Result");
        return *std::get_if<0>(&state_);
    }
    [[nodiscard]] T&& value() && {
        SPILLWAY_ASSERT(ok(), "value() of a failed Result");
        return std::move(*std::get_if<0>(&state_));
    }
    T& operator*() & { return value(); }
    T const& operator*() const& { return value(); }
    T* operator->() { return &value(); }
    T const* operator->() const { return &value(); }

    [[nodiscard]] Error const& error() const {
        SPILLWAY_ASSERT(!ok(), "error() of a successful Result");
        return *std::get_if<1>(&state_);
    }

  private:
    std::variant<T, Error> state_;
};

/// Success without a value, or an `Error`.
template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT

    [[nodiscard]] bool ok() const { return ok_; }
    explicit operator bool() const { return ok_; }
    [[nodiscard]] Error const& error() const {
        SPILLWAY_ASSERT(!ok_, "error() of a successful Result");
        return error_;
    }

  private:
    Error error_;
    bool ok_ = true;
};

}  // namespace spillway
