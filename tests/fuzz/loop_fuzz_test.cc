// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Random programs on the real loop, with real memory and threads: values that leave as they are or
// encoded, through much or little room, over tiers that fail; whatever comes back is what was
// there, or as near as its codec says, or the error says why not.

#include "executor/event_log.h"
#include "fuzz/fuzz_main.h"
#include "fuzz/random_case.h"
#include "session/loop_rig.h"
#include "test_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace spillway::fuzz {
namespace {

struct Known {
    std::vector<float> values;  ///< what it held when the program last saw it
    SavedAs as;
};

/// What the programs led to.
struct SeenOfLoop {
    std::int64_t programs = 0;
    std::int64_t encoded = 0;
    std::int64_t decoded = 0;
    std::int64_t refused = 0;
    std::int64_t raw = 0;
    std::int64_t failed_needs = 0;
    std::int64_t out_of_room = 0;

    void add(Report const& report) {
        ++programs;
        std::int64_t coded_bytes = 0;
        std::array<bool, 3> any{};
        for (CodecReport const& row : report.codecs) {
            any[0] |= row.values > 0;
            any[1] |= row.decoded_bytes > 0;
            any[2] |= row.went_raw > 0;
            coded_bytes += row.encoded_bytes;
        }
        encoded += any[0] ? 1 : 0;
        decoded += any[1] ? 1 : 0;
        refused += any[2] ? 1 : 0;
        raw += report.stored_bytes > coded_bytes ? 1 : 0;
    }
    void expect_variety() const {
        std::cout << programs << " programs: " << encoded << " encoded, " << decoded << " decoded, "
                  << refused << " were refused by a codec, " << raw << " moved values as they are, "
                  << failed_needs << " needs failed, " << out_of_room << " ran out of room\n";
        for (std::int64_t const count :
             {encoded, decoded, refused, raw, failed_needs, out_of_room, programs - out_of_room}) {
            EXPECT_GT(count * 50, programs) << "less than one in fifty";
        }
    }
};

/// `garbles`: memory goes bad, too, which only what is encoded has a checksum against.
std::vector<Fault> random_faults(Dice& dice, bool garbles) {
    std::vector<Fault> faults;
    while (dice.percent(30) || (garbles && faults.empty())) {
        constexpr std::array kKinds{Fault::Kind::fail, Fault::Kind::flip, Fault::Kind::full};
        Fault fault;
        fault.kind =
            garbles ? Fault::Kind::garble : kKinds[static_cast<std::size_t>(dice.in(0, 2))];
        fault.way = garbles || dice.percent(60) ? Direction::load : Direction::store;
        fault.first = dice.in(0, 30);
        fault.count = dice.in(1, 3);
        fault.at_byte = dice.in(0, 300);
        faults.push_back(fault);
    }
    return faults;
}

class Program {
  public:
    Program(std::uint64_t seed, SeenOfLoop& seen)
        : dice_(seed),
          seen_(seen),
          garbles_(dice_.percent(10)),
          faults_(random_faults(dice_, garbles_)),
          refuses_(dice_.percent(15)),
          log_(std::filesystem::path(build_folder()) / "loop_fuzz.events"),
          rig_(std::make_unique<Rig>(
              dice_.in(24, 200) * 4096,
              faults_,
              log_,
              dice_.in(20, 400) * 4096,
              ChooserKind::online,
              dice_.percent(50) ? Pool::host : Pool::nvme,
              std::string(),
              refuses_ ? NonFinite::refuse : NonFinite::keep,
              garbles_ || dice_.percent(50) ? Rig::kCodedBytes : dice_.in(2, 24) * 4096
          )) {}

    void run() {
        rig_->tier->set_delay_ms(dice_.percent(10) ? 1 : 0);
        for (std::int64_t step = 0; step < 3 && !is_over_; ++step) {
            rig_->loop->begin_step(step);
            rig_->loop->phase(Phase::forward);
            for (std::int64_t i = dice_.in(5, 40); i > 0 && !is_over_; --i) {
                forward();
            }
            rig_->loop->phase(Phase::backward);
            backward();
            rig_->loop->phase(Phase::update);
        }
        end();
    }

  private:
    void forward() {
        save();
        if (!ids_.empty() && dice_.percent(15)) {
            done_with(random_id());
        }
        if (!ids_.empty() && dice_.percent(10)) {
            ValueId const id = random_id();
            if (need(id) && dice_.percent(50)) {
                write(id);
            }
            rig_->driver->unshared.push_back(id);
        }
    }

    void save() {
        Known known = random_value();
        Result<ValueId> const saved = rig_->save_floats(known.values, known.as);
        if (!saved.ok()) {
            ASSERT_EQ(saved.error().code, Errc::out_of_memory) << saved.error().message();
            is_over_ = true;
            ++seen_.out_of_room;
            return;
        }
        known_[*saved] = std::move(known);
        ids_.push_back(*saved);
    }

    Known random_value() {
        constexpr std::array kCodecs{
            "affine2",
            "affine4:group=32",
            "affine8",
            "affine4:stochastic",
            "identity",
            "lossless",
            "mask"};
        Known known;
        known.values.resize(static_cast<std::size_t>(dice_.in(garbles_ ? 100 : 1, 8000)));
        bool const has_two = dice_.percent(30);
        for (float& value : known.values) {
            std::int64_t const draw = dice_.in(-1000, 1000);
            value = has_two ? (draw > 300 ? 1.5F : 0.0F) : static_cast<float>(draw) / 64;
        }
        if (!garbles_ && dice_.percent(10)) {
            known.values.back() = std::numeric_limits<float>::quiet_NaN();
        }
        if (garbles_ || dice_.percent(75)) {
            std::int64_t const last = garbles_ ? 2 : std::ssize(kCodecs) - 1;
            auto const codec = static_cast<std::size_t>(dice_.in(0, last));
            known.as.encoding =
                Encoding{parse_codec(kCodecs[codec]).value(), Dtype::f32, std::ssize(known.values)};
        }
        known.as.advice = static_cast<Advice>(dice_.in(1, 3));
        known.as.tensor_class = static_cast<TensorClass>(dice_.in(0, kTensorClasses - 1));
        return known;
    }

    void backward() {
        std::vector<ValueId> order(ids_.rbegin(), ids_.rend());
        for (std::size_t i = 0; i + 1 < order.size() && dice_.percent(60); ++i) {
            std::swap(
                order[i], order[static_cast<std::size_t>(dice_.in(0, std::ssize(order) - 1))]
            );
        }
        if (dice_.percent(70)) {
            rig_->loop->backward_order(order);
        }
        for (ValueId const id : order) {
            bool const came = !dice_.percent(90) || need(id);
            if (!came || dice_.percent(80)) {
                done_with(id);
            }
        }
    }

    bool may_fail(Error const& error) const {
        if (error.code == Errc::out_of_memory || (refuses_ && error.code == Errc::unsupported)) {
            return true;
        }
        return !faults_.empty();
    }

    /// True: it came, and is what it was.
    bool need(ValueId id) {
        auto const there = rig_->loop->need(id);
        if (!there.ok()) {
            ++seen_.failed_needs;
            EXPECT_TRUE(may_fail(there.error())) << there.error().message();
            bool const is_named =
                there.error().message().find("test value " + std::to_string(id.number)) !=
                std::string::npos;
            EXPECT_TRUE(is_named) << there.error().message();
            return false;
        }
        Known& known = known_.at(id);
        std::vector<float> now = rig_->floats_of(id, known.values.size());
        EXPECT_TRUE(is_near(known, now)) << "value " << id.number;
        known.values = std::move(now);
        return true;
    }

    /// Whether it may have been encoded and decoded, or not.
    static bool is_near(Known const& known, std::vector<float> const& now) {
        std::size_t const size = now.size() * sizeof(float);
        if (std::memcmp(known.values.data(), now.data(), size) == 0) {
            return true;
        }
        if (!known.as.encoding || !is_lossy(known.as.encoding->codec)) {
            return false;
        }
        Codec const& codec = known.as.encoding->codec;
        for (std::size_t first = 0; first < now.size();) {
            std::size_t const end =
                std::min(now.size(), first + static_cast<std::size_t>(codec.group));
            auto const at = [&](std::size_t i) {
                return known.values.begin() + static_cast<std::ptrdiff_t>(i);
            };
            auto const [least, most] = std::minmax_element(at(first), at(end));
            double const bound = error_bound(codec) * (double{*most} - double{*least}) + 1e-5;
            for (; first < end; ++first) {
                if (!(std::abs(double{now[first]} - double{known.values[first]}) <= bound)) {
                    return false;
                }
            }
        }
        return true;
    }

    void write(ValueId id) {
        if (!rig_->loop->need(id, Loop::Use::write).ok()) {
            return;
        }
        std::vector<float>& values = known_.at(id).values;
        for (float& value : values) {
            value = value * 0.5F + 1;
        }
        std::memcpy(rig_->driver->at(id), values.data(), values.size() * sizeof(float));
    }

    void done_with(ValueId id) {
        rig_->done_with(id);
        std::erase(ids_, id);
        known_.erase(id);
    }

    ValueId random_id() {
        return ids_[static_cast<std::size_t>(dice_.in(0, std::ssize(ids_) - 1))];
    }

    void end() {
        while (!ids_.empty()) {
            done_with(ids_.back());
        }
        for (int i = 0; i < 10'000'000 && rig_->loop->ledger() != LedgerView{}; ++i) {
            std::this_thread::yield();
            rig_->loop->settle();
        }
        rig_->loop->settle();
        EXPECT_EQ(rig_->loop->ledger(), LedgerView{});
        EXPECT_EQ(rig_->device->usage().used_bytes, 0);
        seen_.add(rig_->loop->report());
        rig_.reset();
        std::ifstream stream(log_);
        Result<ReplayOutcome> const outcome = replay(stream);
        ASSERT_TRUE(outcome.ok()) << outcome.error().message();
        EXPECT_TRUE(outcome->identical) << outcome->difference;
    }

    Dice dice_;
    SeenOfLoop& seen_;
    bool const garbles_;
    std::vector<Fault> const faults_;
    bool const refuses_;
    std::string const log_;
    std::unique_ptr<Rig> rig_;
    std::map<ValueId, Known> known_;
    std::vector<ValueId> ids_;
    bool is_over_ = false;
};

TEST(LoopFuzz, what_comes_back_is_what_left_or_as_near_as_its_codec_says) {
    SeenOfLoop seen;
    for (std::uint64_t const seed : seeds(150)) {
        Program(seed, seen).run();
        ASSERT_FALSE(testing::Test::HasFailure()) << rerun(seed);
    }
    if (seen.programs >= 100) {
        seen.expect_variety();
    }
}

}  // namespace
}  // namespace spillway::fuzz
