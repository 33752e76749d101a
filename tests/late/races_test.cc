// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Each way to forget an order, alone: the checker names it under every seed, and some schedules
// make the value wrong. With the order in place there is neither.

#include "late/test_support.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace late {
namespace {

constexpr std::int64_t kElems = 64;
constexpr std::uint64_t kRaceSeeds = 24;

bool holds(at::Tensor const& tensor, double value) {
    return at::equal(tensor.cpu(), at::full({kElems}, value));
}

void copy_on(c10::Stream stream, at::Tensor const& to, at::Tensor const& from) {
    c10::StreamGuard const guard(stream);
    to.copy_(from, true);
}

/// A program that is right, or lacks one order. Returns whether its value is right.
using Program = std::function<bool(bool right)>;

bool store_after_its_producer(bool right) {
    c10::Stream const main = main_stream();
    c10::Stream const store = side_stream();
    at::Tensor const away = pinned(kElems, 0);
    at::Tensor const value = at::ones({kElems}, on_late()) * 2;
    if (right) {
        order(main, store);
    }
    copy_on(store, away, value);
    store.synchronize();
    main.synchronize();
    return holds(away, 2);
}

bool record_stream_before_the_free(bool right) {
    c10::Stream const store = side_stream();
    at::Tensor const away = pinned(kElems, 0);
    at::Tensor value = at::ones({kElems}, on_late()) * 2;
    order(main_stream(), store);
    copy_on(store, away, value);
    if (right) {
        value.record_stream(store);
    }
    value = at::Tensor();
    store.synchronize();
    return holds(away, 2);
}

bool reload_after_its_store(bool right) {
    c10::Stream const main = main_stream();
    c10::Stream const store = side_stream();
    c10::Stream const load = side_stream();
    at::Tensor const away = pinned(kElems, 0);
    at::Tensor const value = at::ones({kElems}, on_late()) * 2;
    at::Tensor const back = at::empty({kElems}, on_late());
    order(main, store);
    order(main, load);
    copy_on(store, away, value);
    if (right) {
        order(store, load);
    }
    copy_on(load, back, away);
    order(load, main);
    bool const is_right = holds(back, 2);
    store.synchronize();
    return is_right;
}

bool consumer_after_the_reload(bool right) {
    c10::Stream const main = main_stream();
    c10::Stream const load = side_stream();
    at::Tensor const away = pinned(kElems, 2);
    at::Tensor const back = at::empty({kElems}, on_late());
    order(main, load);
    copy_on(load, back, away);
    if (right) {
        order(load, main);
    }
    at::Tensor const result = back * 3;
    bool const is_right = holds(result, 6);
    load.synchronize();
    return is_right;
}

bool buffer_reused_after_the_reload(bool right) {
    c10::Stream const main = main_stream();
    c10::Stream const store = side_stream();
    c10::Stream const load = side_stream();
    at::Tensor const away = pinned(kElems, 2);
    at::Tensor const back = at::empty({kElems}, on_late());
    at::Tensor const next = at::ones({kElems}, on_late());
    order(main, load);
    order(main, store);
    copy_on(load, back, away);
    if (right) {
        order(load, store);
    }
    copy_on(store, away, next);
    order(load, main);
    bool const is_right = holds(back, 2);
    store.synchronize();
    return is_right;
}

bool host_reads_after_the_store(bool right) {
    c10::Stream const store = side_stream();
    at::Tensor const away = pinned(kElems, 0);
    at::Tensor const value = at::ones({kElems}, on_late()) * 2;
    order(main_stream(), store);
    copy_on(store, away, value);
    if (right) {
        store.synchronize();
    }
    host_reads(away.data_ptr(), away.nbytes(), "compress");
    bool const is_right = holds(away, 2);
    store.synchronize();
    return is_right;
}

bool host_writes_after_the_reload(bool right) {
    c10::Stream const load = side_stream();
    at::Tensor away = pinned(kElems, 2);
    at::Tensor const back = at::empty({kElems}, on_late());
    order(main_stream(), load);
    copy_on(load, back, away);
    if (right) {
        load.synchronize();
    }
    host_writes(away.data_ptr(), away.nbytes(), "read_file");
    away.fill_(7);
    order(load, main_stream());
    return holds(back, 2);
}

bool other_stream_after_the_allocation(bool right) {
    c10::Stream const main = main_stream();
    c10::Stream const load = side_stream();
    at::Tensor const away = pinned(kElems, 2);
    at::Tensor const back = at::empty({kElems}, on_late());
    if (right) {
        order(main, load);
    }
    copy_on(load, back, away);
    order(load, main);
    return holds(back, 2);
}

struct Case {
    std::string name;
    Program program;
    Party first;
    Party second;
};

std::string const kMain = "late:0 stream 0";
std::string const kOne = "late:0 stream 1";
std::string const kTwo = "late:0 stream 2";

/// The streams are named in the order in which the programs take them from the pool.
std::vector<Case> const kCases = {
    {"store_after_its_producer",
     store_after_its_producer,
     {"aten::mul", kMain, true},
     {"copy_d2h", kOne, false}},
    {"record_stream_before_the_free",
     record_stream_before_the_free,
     {"copy_d2h", kOne, false},
     {"free", kMain, true}},
    {"reload_after_its_store",
     reload_after_its_store,
     {"copy_d2h", kOne, true},
     {"copy_h2d", kTwo, false}},
    {"consumer_after_the_reload",
     consumer_after_the_reload,
     {"copy_h2d", kOne, true},
     {"aten::mul", kMain, false}},
    {"buffer_reused_after_the_reload",
     buffer_reused_after_the_reload,
     {"copy_h2d", kTwo, false},
     {"copy_d2h", kOne, true}},
    {"host_reads_after_the_store",
     host_reads_after_the_store,
     {"copy_d2h", kOne, true},
     {"compress", "host", false}},
    {"host_writes_after_the_reload",
     host_writes_after_the_reload,
     {"copy_h2d", kOne, false},
     {"read_file", "host", true}},
    {"other_stream_after_the_allocation",
     other_stream_after_the_allocation,
     {"allocate", kMain, true},
     {"copy_h2d", kOne, true}},
};

class Races : public LateTest, public ::testing::WithParamInterface<Case> {};

TEST_P(Races, without_its_order_is_reported_under_every_seed_and_wrong_under_some) {
    int wrong = 0;
    for (std::uint64_t seed = 0; seed < kRaceSeeds; ++seed) {
        reset(seed);
        wrong += GetParam().program(false) ? 0 : 1;
        std::vector<Report> const found = reports();
        EXPECT_TRUE(std::any_of(
            found.begin(),
            found.end(),
            [](Report const& report) {
                return report.first == GetParam().first && report.second == GetParam().second &&
                       report.end - report.begin == kElems * sizeof(float);
            }
        )) << "seed "
           << seed << ":\n"
           << all_reports();
    }
    EXPECT_GT(wrong, 0);
    RecordProperty("wrong", wrong);
}

TEST_P(Races, with_its_order_is_right_and_unreported) {
    for (Mode const mode : {Mode::lazy, Mode::eager, Mode::virtual_time}) {
        for (std::uint64_t seed = 0; seed < kRaceSeeds; ++seed) {
            configure({.seed = seed, .mode = mode, .max_delay_us = 50});
            EXPECT_TRUE(GetParam().program(true)) << "seed " << seed;
            EXPECT_EQ(all_reports(), "") << "seed " << seed;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Each,
    Races,
    ::testing::ValuesIn(kCases),
    [](::testing::TestParamInfo<Case> const& parameter) { return parameter.param.name; }
);

}  // namespace
}  // namespace late
