// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "replay_command.h"

#include "spillway/replay.h"

#include <cstdio>

namespace spillway::cli {

int run_replay(std::string const& path) {
    Result<Replayed> const result = replay_file(path);
    if (!result.ok()) {
        std::fprintf(stderr, "spillway: replay: %s\n", result.error().message().c_str());
        return 2;
    }
    Replayed const& replayed = *result;
    std::printf(
        "%lld steps, %lld events, %lld commands\n",
        static_cast<long long>(replayed.steps),
        static_cast<long long>(replayed.events),
        static_cast<long long>(replayed.commands)
    );
    if (!replayed.refusal.empty()) {
        std::printf("refused: %s\n", replayed.refusal.c_str());
    }
    if (!replayed.identical) {
        std::printf("different: %s\n", replayed.difference.c_str());
        return 1;
    }
    std::printf("identical: the executor answers as it did\n");
    return 0;
}

}  // namespace spillway::cli
