// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "fuzz/fuzz_main.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace spillway::fuzz {

namespace {

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kSlower = 64;  // there is one thread
#elif defined(SPILLWAY_SANITIZED)
constexpr std::uint64_t kSlower = 8;  // a sanitizer's time is better spent on variety elsewhere
#else
constexpr std::uint64_t kSlower = 1;
#endif

struct Choice {
    std::uint64_t first = 1;
    std::uint64_t count = 0;  ///< 0: what the test asks for
    bool one = false;
};
Choice choice;  // set once, before the tests run
volatile std::uint64_t current_seed = 0;

/// An assertion of the executor ends the process: say which seed did it.
void print_seed(int signal) {
    char line[64];
    int const length = std::snprintf(
        line,
        sizeof line,
        "the seed was --seed=%llu\n",
        static_cast<unsigned long long>(current_seed)
    );
    [[maybe_unused]] ssize_t const written = write(2, line, static_cast<std::size_t>(length));
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

bool read_flag(char const* argument, char const* name, std::uint64_t& value) {
    std::size_t const length = std::strlen(name);
    if (std::strncmp(argument, name, length) != 0) {
        return false;
    }
    value = std::strtoull(argument + length, nullptr, 10);
    return true;
}

}  // namespace

std::uint64_t Seeds::Iterator::operator*() const {
    current_seed = at_;
    return at_;
}

Seeds seeds(std::uint64_t count) {
    std::uint64_t const wanted = choice.count != 0 ? choice.count : count / kSlower;
    return {choice.first, choice.first + wanted};
}

std::uint64_t slower() {
    return kSlower;
}

bool one_seed() {
    return choice.one;
}

std::string rerun(std::uint64_t seed) {
    auto const* const test = testing::UnitTest::GetInstance()->current_test_info();
    return "seed " + std::to_string(seed) + " (again: --gtest_filter=" + test->test_suite_name() +
           "." + test->name() + " --seed=" + std::to_string(seed) + "): ";
}

/// Reads our flags; gtest has taken its own.
void take_flags(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        if (read_flag(argv[i], "--seed=", choice.first)) {
            choice.count = 1;
            choice.one = true;
        } else if (!read_flag(argv[i], "--count=", choice.count) &&
                   !read_flag(argv[i], "--first=", choice.first)) {
            std::fprintf(stderr, "unknown flag %s\n", argv[i]);
            std::exit(2);
        }
    }
    std::signal(SIGABRT, print_seed);
    std::signal(SIGSEGV, print_seed);
}

}  // namespace spillway::fuzz

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    spillway::fuzz::take_flags(argc, argv);
    return RUN_ALL_TESTS();
}
