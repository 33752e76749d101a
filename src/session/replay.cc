// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "spillway/replay.h"

#include "executor/event_log.h"

#include <cerrno>
#include <fstream>
#include <system_error>

namespace spillway {

Result<Replayed> replay_file(std::string const& path) {
    std::ifstream file(path);
    if (!file) {
        return Error{Errc::io, std::generic_category().message(errno), path};
    }
    Result<ReplayOutcome> const outcome = replay(file);
    if (!outcome.ok()) {
        return Error{outcome.error().code, outcome.error().message(), path};
    }
    return Replayed{
        .identical = outcome->identical,
        .difference = outcome->difference,
        .steps = outcome->steps,
        .events = outcome->events,
        .commands = outcome->commands,
        .refusal = outcome->refusal};
}

}  // namespace spillway
