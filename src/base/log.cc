// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/log.h"

#include "base/mutex.h"

#include <cstdio>
#include <set>
#include <string>

namespace spillway {

void log_line(std::string_view line) {
    std::string const text = "spillway: " + std::string(line) + "\n";
    std::fwrite(text.data(), 1, text.size(), stderr);
}

void log_once(std::string_view line) {
    static Mutex guard;
    static std::set<std::string, std::less<>> logged SPILLWAY_GUARDED_BY(guard);
    {
        MutexLock const lock(guard);
        if (!logged.emplace(line).second) {
            return;
        }
    }
    log_line(line);
}

}  // namespace spillway
