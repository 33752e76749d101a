// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/result.h"

namespace spillway {

std::string_view name_of(Errc code) {
    switch (code) {
        case Errc::bad_argument:
            return "bad_argument";
        case Errc::bad_format:
            return "bad_format";
        case Errc::not_found:
            return "not_found";
        case Errc::io:
            return "io";
        case Errc::corrupt:
            return "corrupt";
        case Errc::tier_full:
            return "tier_full";
        case Errc::out_of_memory:
            return "out_of_memory";
        case Errc::unsupported:
            return "unsupported";
        case Errc::cancelled:
            return "cancelled";
        case Errc::broken_promise:
            return "broken_promise";
    }
    return "unknown";
}

std::string Error::message() const {
    return where.empty() ? what : where + ": " + what;
}

}  // namespace spillway
