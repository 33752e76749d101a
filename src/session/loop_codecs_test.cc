// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Values that leave encoded and come back decoded, through the whole loop.

#include "base/units.h"
#include "executor/event_log.h"
#include "session/codec_rule.h"
#include "session/loop_rig.h"
#include "test_paths.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace spillway {
namespace {

constexpr std::size_t kFloats = 64 * 1024;  ///< 256 KiB

SavedAs saved_as(
    char const* codec,
    std::size_t count = kFloats,
    TensorClass tensor_class = TensorClass::linear_input
) {
    Encoding const encoding{
        parse_codec(codec).value(), Dtype::f32, static_cast<std::int64_t>(count)};
    return {encoding, Advice::when_asked, tensor_class};
}

std::vector<float> noise(std::uint64_t seed, std::size_t count = kFloats) {
    std::mt19937_64 random(seed);
    std::vector<float> values(count);
    for (float& value : values) {
        value = static_cast<float>(random() % 2001) / 1000 - 1;
    }
    return values;
}
std::vector<float> two_values(std::uint64_t seed, std::size_t count = kFloats) {
    std::vector<float> values = noise(seed, count);
    for (float& value : values) {
        value = value > 0.3F ? 1.25F : 0.0F;
    }
    return values;
}

bool same_bits(std::vector<float> const& one, std::vector<float> const& other) {
    return one.size() == other.size() &&
           std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

/// Whether each element is within the codec's error bound, a share of its group's span.
bool within_bound(
    Codec const& codec, std::vector<float> const& values, std::vector<float> const& back
) {
    if (!is_lossy(codec)) {
        return same_bits(values, back);
    }
    auto const group = static_cast<std::size_t>(codec.group);
    for (std::size_t first = 0; first < values.size(); first += group) {
        auto const begin = values.begin() + static_cast<std::ptrdiff_t>(first);
        auto const end =
            begin + static_cast<std::ptrdiff_t>(std::min(group, values.size() - first));
        auto const [least, most] = std::minmax_element(begin, end);
        double const bound = error_bound(codec) * (double{*most} - double{*least}) + 1e-6;
        for (auto at = begin; at != end; ++at) {
            float const came = back[static_cast<std::size_t>(at - values.begin())];
            if (!(std::abs(double{came} - double{*at}) <= bound)) {
                return false;
            }
        }
    }
    return true;
}

/// Until no copy is under way any more, with patience that ends.
void settle_all(Rig& rig) {
    auto const is_idle = [&] {
        return rig.loop->ledger() == LedgerView{} && rig.device->usage().used_bytes == 0;
    };
    for (int i = 0; i < 10'000'000 && !is_idle(); ++i) {
        std::this_thread::yield();
        rig.loop->settle();
    }
    rig.loop->settle();
    EXPECT_EQ(rig.loop->ledger(), LedgerView{});
    EXPECT_EQ(rig.device->usage().used_bytes, 0);
}

/// Saved under a cap that few of them fit; then needed from the last.
struct Step {
    Step(Rig& on, char const* codec, std::size_t count) : rig(on) {
        for (std::size_t i = 0; i < count; ++i) {
            bool const has_two = parse_codec(codec)->kind == CodecKind::mask;
            values.push_back(has_two ? two_values(i) : noise(i));
            ids.push_back(rig.save_floats(values.back(), saved_as(codec)).value());
        }
    }
    std::vector<float> take_back(std::size_t i) {
        auto const there = rig.loop->need(ids[i]);
        EXPECT_TRUE(there.ok()) << there.error().message();
        std::vector<float> back = rig.floats_of(ids[i], kFloats);
        rig.done_with(ids[i]);
        return back;
    }
    void end() {
        for (ValueId const id : ids) {
            rig.done_with(id);
        }
        settle_all(rig);
    }

    Rig& rig;
    std::vector<std::vector<float>> values;
    std::vector<ValueId> ids;
};

TEST(LoopCodecs, values_come_back_within_the_bound_of_their_codec) {
    for (char const* const codec :
         {"affine2", "affine4", "affine8:group=64", "affine4:stochastic"}) {
        Rig rig(2_MiB);
        Step step(rig, codec, 24);
        rig.loop->phase(Phase::backward);
        std::int64_t changed = 0;
        for (std::size_t i = step.ids.size(); i-- > 0;) {
            std::vector<float> const back = step.take_back(i);
            EXPECT_TRUE(within_bound(parse_codec(codec).value(), step.values[i], back)) << codec;
            changed += same_bits(step.values[i], back) ? 0 : 1;
        }
        EXPECT_GT(changed, 8) << "those that left";
        Report const report = rig.loop->report();
        ASSERT_EQ(report.codecs.size(), 1U);
        CodecReport const& row = report.codecs[0];
        EXPECT_EQ(row.tensor_class, "linear_input");
        EXPECT_EQ(row.codec, to_text(parse_codec(codec).value()));
        EXPECT_GE(row.values, changed);
        EXPECT_EQ(row.raw_bytes, row.values * 256 * 1024);
        EXPECT_EQ(row.encoded_bytes, report.stored_bytes);
        EXPECT_GE(row.decoded_bytes, changed * 256 * 1024);
        EXPECT_NEAR(
            row.bits * static_cast<double>(kFloats * row.values) / 8,
            static_cast<double>(row.encoded_bytes),
            1
        );
        EXPECT_GT(row.relative_l2_error(), 0);
        EXPECT_LT(row.relative_l2_error(), 0.5);
        EXPECT_EQ(row.went_raw, 0);
        EXPECT_LE(report.device_peak_bytes, 2_MiB);
        step.end();
    }
}

TEST(LoopCodecs, exact_codecs_give_back_the_bits) {
    for (char const* const codec : {"identity", "lossless", "mask"}) {
        Rig rig(2_MiB);
        Step step(rig, codec, 16);
        rig.loop->phase(Phase::backward);
        for (std::size_t i = step.ids.size(); i-- > 0;) {
            EXPECT_TRUE(same_bits(step.values[i], step.take_back(i))) << codec;
        }
        EXPECT_GT(rig.loop->report().stored_bytes, 0);
        step.end();
    }
}

TEST(LoopCodecs, a_planned_value_is_encoded_by_the_plan_s_codec) {
    Slot const each{"test", 0, 0};  // the rig saves all as this
    Plan plan;
    plan.fates[each] = {.kind = FateKind::move, .pool = Pool::nvme, .codec = "affine8"};
    PlannedRule rule(CodecTable{}, {}, plan);
    Rig rig(
        2_MiB,
        {},
        {},
        64_MiB,
        ChooserKind::planned,
        Pool::nvme,
        {},
        NonFinite::keep,
        Rig::kCodedBytes,
        plan
    );
    Step step(rig, "identity", 0);
    SavedTensor tensor{
        .tensor_class = TensorClass::linear_input,
        .dtype = Dtype::f32,
        .count = kFloats,
        .size_bytes = 4 * kFloats};
    tensor.slot = &each;
    for (std::size_t i = 0; i < 16; ++i) {
        step.values.push_back(noise(i));
        step.ids.push_back(rig.save_floats(step.values[i], rule.of(tensor)).value());
    }
    rig.loop->phase(Phase::backward);
    for (std::size_t i = step.ids.size(); i-- > 0;) {
        std::vector<float> const back = step.take_back(i);
        for (std::size_t k = 0; k < kFloats; k += 1000) {
            EXPECT_NEAR(back[k], step.values[i][k], 2.0 / 255);
        }
    }
    Report const report = rig.loop->report();
    EXPECT_EQ(report.codecs.at(0).codec, "affine8");
    EXPECT_GT(report.codecs.at(0).values, 8);
    step.end();
}

TEST(LoopCodecs, the_tier_holds_what_values_take_encoded) {
    std::int64_t const coded_bytes = encoded_bytes(*saved_as("affine4").encoding).value();
    Rig rig(1_MiB, {}, {}, 12 * coded_bytes);
    Step step(rig, "affine4", 14);
    EXPECT_LE(rig.loop->report().nvme_peak_bytes, 12 * coded_bytes);
    EXPECT_GE(rig.loop->report().nvme_peak_bytes, 10 * coded_bytes);
    step.end();
}

TEST(LoopCodecs, a_value_with_a_nan_goes_as_it_is_and_comes_back_bit_by_bit) {
    for (float const odd : {std::numeric_limits<float>::quiet_NaN(), -INFINITY}) {
        testing::internal::CaptureStderr();
        Rig rig(2_MiB);
        Step step(rig, "identity", 0);
        for (std::size_t i = 0; i < 16; ++i) {
            step.values.push_back(noise(i));
            step.values[i][100 * i] = odd;
            step.ids.push_back(rig.save_floats(step.values[i], saved_as("affine4")).value());
        }
        rig.loop->phase(Phase::backward);
        for (std::size_t i = step.ids.size(); i-- > 0;) {
            EXPECT_TRUE(same_bits(step.values[i], step.take_back(i)));
        }
        Report const report = rig.loop->report();
        EXPECT_GT(report.codecs.at(0).went_raw, 4);
        EXPECT_EQ(report.codecs.at(0).values, 0);
        EXPECT_GT(report.stored_bytes, 1_MiB);
        std::map<ValueId, History> const histories = rig.loop->histories();
        EXPECT_TRUE(std::any_of(histories.begin(), histories.end(), [](auto const& entry) {
            return entry.second.was_refused && !entry.second.codec && entry.second.left;
        }));
        step.end();
        EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it is no fault to speak of";
    }
}

TEST(LoopCodecs, under_refuse_the_step_stops_and_names_tensor_class_and_codec) {
    Rig rig(1_MiB, {}, {}, 64_MiB, ChooserKind::online, Pool::nvme, {}, NonFinite::refuse);
    std::vector<float> bad = noise(1);
    bad[17] = std::numeric_limits<float>::quiet_NaN();
    ValueId const odd = rig.save_floats(bad, saved_as("affine4")).value();
    Step step(rig, "affine4", 12);
    EXPECT_FALSE(rig.loop->all_on_device()) << "or nobody would ask";
    auto const refused = rig.loop->need(odd);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::unsupported);
    for (std::string const part : {"test value 0", "linear_input", "affine4", "17"}) {
        EXPECT_NE(refused.error().what.find(part), std::string::npos) << refused.error().what;
    }
    for (std::size_t i = step.ids.size(); i-- > 0;) {
        EXPECT_FALSE(step.take_back(i).empty());
    }
    rig.done_with(odd);
    step.end();
}

TEST(LoopCodecs, a_coded_block_that_went_bad_stops_the_step_and_names_value_and_tier) {
    Rig rig(1_MiB, {{.kind = Fault::Kind::garble, .way = Direction::load, .at_byte = 200}});
    Step step(rig, "affine4", 10);
    auto const outcome = rig.loop->need(step.ids[0]);
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code, Errc::corrupt);
    EXPECT_NE(outcome.error().what.find("test value 0"), std::string::npos);
    EXPECT_NE(outcome.error().what.find("faulty memory"), std::string::npos);
    step.end();
}

TEST(LoopCodecs, errors_of_a_load_come_through_in_their_own_words) {
    Rig rig(
        1_MiB,
        {{.kind = Fault::Kind::fail, .way = Direction::load, .first = 0, .count = 1},
         {.kind = Fault::Kind::flip, .way = Direction::load, .first = 1, .count = 1}}
    );
    Step step(rig, "affine4", 10);
    auto const failed = rig.loop->need(step.ids[0]);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, Errc::io);
    EXPECT_NE(failed.error().what.find("failed (by script)"), std::string::npos);
    auto const flipped = rig.loop->need(step.ids[0]);
    ASSERT_FALSE(flipped.ok());
    EXPECT_EQ(flipped.error().code, Errc::corrupt);
    EXPECT_NE(flipped.error().what.find("checksum"), std::string::npos);
    step.end();
}

TEST(LoopCodecs, an_encoding_that_is_of_no_use_is_none) {
    Rig rig(1_MiB);
    constexpr std::size_t kCount = 16 * 1024;
    std::vector<SavedAs> useless{
        saved_as("identity", kCount),     // more than the value's own bytes, by its header
        saved_as("affine4", 4 * kCount),  // more elements than the value has
        saved_as("affine4", kCount / 2),  // fewer
        saved_as("affine4", 0),           // none
        saved_as("affine4", kCount),
        saved_as("affine4", kCount)};
    useless[4].encoding->codec.bits = 7;  // no codec
    useless[5].encoding->dtype = Dtype::u8;
    for (SavedAs const& as : useless) {
        std::vector<float> const values = noise(1, kCount);
        ValueId const value = rig.save_floats(values, as).value();
        ASSERT_TRUE(rig.loop->make_room(1_MiB).ok());
        ASSERT_TRUE(rig.loop->need(value).ok());
        EXPECT_TRUE(same_bits(rig.floats_of(value, values.size()), values));
        rig.done_with(value);
    }
    EXPECT_TRUE(rig.loop->report().codecs.empty());
    EXPECT_GE(rig.loop->report().stored_bytes, 6 * 64_KiB);
}

TEST(LoopCodecs, a_block_longer_than_half_the_staging_goes_as_it_is) {
    Rig rig(32_MiB);
    std::size_t const count = 4_MiB;
    ValueId const value = rig.save_floats(noise(1, count), saved_as("affine8", count)).value();
    ASSERT_TRUE(rig.loop->make_room(24_MiB).ok());
    EXPECT_EQ(rig.loop->report().stored_bytes, 16_MiB);
    EXPECT_TRUE(rig.loop->report().codecs.empty());
    rig.done_with(value);
}

TEST(LoopCodecs, what_is_to_leave_at_once_leaves_under_a_roomy_cap) {
    for (Advice const advice : {Advice::at_once, Advice::when_asked, Advice::last_resort}) {
        Rig rig(64_MiB);
        SavedAs as = saved_as("affine4");
        as.advice = advice;
        std::vector<ValueId> values;
        for (std::size_t i = 0; i < 4; ++i) {
            values.push_back(rig.save_floats(noise(i), as).value());
        }
        rig.loop->settle();
        std::map<ValueId, History> const histories = rig.loop->histories();
        auto const leave = std::count_if(histories.begin(), histories.end(), [](auto const& entry) {
            return entry.second.codec.has_value();
        });
        EXPECT_EQ(leave, advice == Advice::at_once ? 3 : 0)
            << "the last one was not told as unshared";
        for (ValueId const value : values) {
            rig.done_with(value);
        }
        settle_all(rig);
    }
}

nlohmann::json events_in(std::string const& path) {
    std::ifstream stream(path);
    return nlohmann::json::parse(stream, nullptr, false)["traceEvents"];
}

TEST(LoopCodecs, a_timeline_has_encodes_and_decodes_on_the_side_lane) {
    std::string const path = std::filesystem::path(build_folder()) / "loop_codecs.timeline.json";
    Report report;
    {
        Rig rig(2_MiB, {}, {}, 64_MiB, ChooserKind::online, Pool::nvme, path);
        Step step(rig, "affine4", 16);
        rig.loop->phase(Phase::backward);
        for (std::size_t i = step.ids.size(); i-- > 0;) {
            step.take_back(i);
        }
        step.end();
        report = rig.loop->report();
    }
    std::map<std::string, std::int64_t> bytes;
    for (nlohmann::json const& event : events_in(path)) {
        if (event["ph"] == "X" && event["tid"] == static_cast<int>(Lane::side)) {
            bytes[event["cat"]] += event["args"].value("size_bytes", 0);
        }
    }
    EXPECT_EQ(bytes["encode"], report.codecs.at(0).raw_bytes);
    EXPECT_EQ(bytes["decode"], report.codecs.at(0).decoded_bytes);
    EXPECT_EQ(bytes.size(), 2U);
}

TEST(LoopCodecs, waits_for_a_decode_are_those_for_a_load_from_its_tier) {
    for (Pool const away : kAwayPools) {
        Rig rig(1_MiB, {}, {}, 64_MiB, ChooserKind::online, away);
        rig.tier->set_delay_ms(2);
        Step step(rig, "affine4", 8);
        Report const before = rig.loop->report();
        Report after;
        for (std::size_t value = 0; value < 8 && after.stall_load_ns <= before.stall_load_ns;
             ++value) {
            step.take_back(value);  // this thread may be away for longer than the tier takes
            after = rig.loop->report();
        }
        StallCause const cause = away == Pool::nvme ? StallCause::nvme : StallCause::copy_in;
        auto const stalled = [&](Report const& report) {
            return report.stall_by_cause_ns[static_cast<std::size_t>(cause)];
        };
        EXPECT_GT(after.stall_load_ns, before.stall_load_ns);
        EXPECT_GE(stalled(after) - stalled(before), after.stall_load_ns - before.stall_load_ns);
        step.end();
    }
}

TEST(LoopCodecs, an_encode_that_falls_behind_is_waited_for_and_loses_nothing) {
    constexpr std::size_t kMany = 1 << 18;  // a mebibyte of which little repeats: milliseconds
    Rig rig(3_MiB);
    rig.tier->set_delay_ms(20);
    SavedAs const as{.encoding = Encoding{parse_codec("lossless").value(), Dtype::f32, kMany}};
    std::vector<std::vector<float>> values(6, std::vector<float>(kMany));
    std::mt19937 random(1);
    for (std::vector<float>& each : values) {
        std::generate(each.begin(), each.end(), [&] {
            return static_cast<float>(random() % 4096);
        });
    }
    std::vector<ValueId> saved;
    for (std::vector<float> const& each : values) {  // faster than they are encoded and stored
        saved.push_back(rig.save_floats(each, as).value());
    }
    EXPECT_GT(rig.loop->report().stall_store_ns, 0);
    EXPECT_EQ(rig.loop->report().codecs.at(0).went_raw, 0);
    for (std::size_t i = saved.size(); i-- > 0;) {
        ASSERT_TRUE(rig.loop->need(saved[i]).ok());
        EXPECT_TRUE(same_bits(values[i], rig.floats_of(saved[i], kMany))) << i;
        rig.done_with(saved[i]);
    }
    settle_all(rig);
}

TEST(LoopCodecs, staging_for_coded_bytes_is_in_the_report) {
    Rig rig(1_MiB);
    EXPECT_GE(rig.loop->report().staging_bytes, Rig::kCodedBytes);
    EXPECT_GE(rig.loop->report().host_requested_bytes, Rig::kCodedBytes);
}

/// What came back in three steps of stochastic codes.
std::vector<std::vector<float>> three_steps(std::string const& log) {
    std::vector<std::vector<float>> came_back;
    Rig rig(2_MiB, {}, log);
    for (int number = 0; number < 3; ++number) {
        rig.loop->begin_step(number);
        rig.loop->phase(Phase::forward);
        Step step(rig, "affine2:stochastic", 16);
        rig.loop->phase(Phase::backward);
        rig.loop->backward_order({step.ids.rbegin(), step.ids.rend()});
        for (std::size_t i = step.ids.size(); i-- > 0;) {
            came_back.push_back(step.take_back(i));
        }
    }
    return came_back;
}

TEST(LoopCodecs, equal_runs_give_equal_bits_and_a_log_that_replays) {
    std::string const path = std::filesystem::path(build_folder()) / "loop_codecs.events";
    std::vector<std::vector<float>> const one = three_steps(path);
    std::vector<std::vector<float>> const other = three_steps({});
    ASSERT_EQ(one.size(), other.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_TRUE(same_bits(one[i], other[i])) << i;
    }
    EXPECT_FALSE(same_bits(one[15], one[31])) << "another step, another seed";
    std::ifstream stream(path);
    Result<ReplayOutcome> const outcome = replay(stream);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_TRUE(outcome->identical) << outcome->difference;
    EXPECT_GT(outcome->commands, 150);
}

}  // namespace
}  // namespace spillway
