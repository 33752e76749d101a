// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/coding_job.h"

#include "codec/block.h"

namespace spillway {

namespace {

CodingResult run_encode(CodingJob const& job) {
    std::int64_t const start_ns = steady_now_ns();
    Result<std::int64_t> const size = encode(job.code.encoding, job.from, job.to, job.code.seed);
    Interval const time{start_ns, steady_now_ns()};
    if (!size.ok()) {
        return {.outcome = size.error()};
    }
    return {{}, *size, sample_error(job.code.encoding, job.from, job.code.seed), time};
}

CodingResult run_decode(CodingJob const& job) {
    std::int64_t const start_ns = steady_now_ns();
    Result<void> const decoded = decode(job.code.encoding, job.from, job.to);
    return {.outcome = decoded, .time = {start_ns, steady_now_ns()}};
}

CodingResult run_seal(CodingJob const& job) {
    Result<void> const sealed = seal_block(job.code.encoding, job.to);
    if (!sealed.ok()) {
        return {.outcome = sealed};
    }
    Windows const windows(job.code.encoding, kSampledWindows);
    return {
        .outcome = {},
        .size_bytes = std::ssize(job.to),
        .sums = sample_error(job.code.encoding, windows, job.from, job.code.seed)};
}

}  // namespace

CodingResult run(CodingJob const& job) {
    switch (job.task) {
        case CodingTask::encode:
            return run_encode(job);
        case CodingTask::decode:
            return run_decode(job);
        case CodingTask::seal:
            return run_seal(job);
        case CodingTask::check:
            break;
    }
    return {.outcome = check_block(job.code.encoding, job.from)};
}

}  // namespace spillway
