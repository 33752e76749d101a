// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Where one value has been: for people.
#pragma once

#include "base/place.h"

#include <cstdint>

namespace spillway {

struct Journey {
    Pool pool = Pool::host;      ///< where it was stored
    bool left = false;           ///< its device copy was dropped
    bool came_free = false;      ///< and gave its bytes back: nothing else held them
    std::int64_t returned = 0;   ///< how often it came back
    std::int64_t waited_ns = 0;  ///< that compute waited for its store and loads
};

}  // namespace spillway
