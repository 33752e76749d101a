// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Tiers that fail, lie, fill up or take their time, and processes that end, while values are away.

#include "test_paths.h"
#include "tier/nvme_tier.h"
#include "torch_driver/suite/suite.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

namespace spillway {
namespace {

std::string saved_tensor() {
    std::string const size = std::to_string(rows());
    return "the saved tensor [" + size + ", " + size + "] float, output of ";
}

std::unique_ptr<Tier> memory() {
    return std::make_unique<MemoryTier>(values(1024));
}

Fault flipped_before_a_load() {
    return {.kind = Fault::Kind::flip, .way = Direction::load, .first = 2, .count = 1};
}

/// Backward raises, its words have all of `parts`, and nothing is left of the step.
void expect_backward_to_stop(
    Rig& rig, std::vector<std::string> const& parts, void (*before)() = [] {}
) {
    Tensor x = leaf(50);
    Tensor y = rig.record([&] { return chain(chain(x)).sum(); });
    before();
    try {
        y.backward();
        FAIL() << "a corrupt block went unnoticed";
    } catch (c10::Error const& error) {
        std::string const words = error.what_without_backtrace();
        for (std::string const& part : parts) {
            EXPECT_NE(words.find(part), std::string::npos) << part << " in: " << words;
        }
    }
    y = Tensor();
    rig.expect_clean();
}

TEST(Faults, a_flipped_bit_stops_backward_and_names_the_tensor) {
    Rig rig(values(12), {flipped_before_a_load()});
    expect_backward_to_stop(rig, {saved_tensor()});
}

std::string scratch() {
    std::filesystem::path const folder = std::filesystem::path(build_folder()) / "scratch";
    std::filesystem::create_directories(folder);
    return folder.string();
}

TEST(Faults, a_bit_that_flips_on_the_disk_names_tensor_file_and_offset) {
    NvmeOptions options;
    options.folder = scratch();
    options.capacity_bytes = 256_MiB;
    Rig rig(values(12), {flipped_before_a_load()}, "online", {}, open_nvme_tier(options).value());
    expect_backward_to_stop(rig, {saved_tensor(), options.folder + "/#", ", offset "});
}

/// Another program cuts the files of this process there, which have no names.
void cut_files_of_scratch() {
    int cut = 0;
    for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;  // the descriptor that lists
        std::string const file = std::filesystem::read_symlink(entry.path(), gone).string();
        if (!gone && file.starts_with(scratch() + "/#")) {
            cut += ::truncate(entry.path().c_str(), 0) == 0 ? 1 : 0;
        }
    }
    EXPECT_EQ(cut, 1);
}

TEST(Faults, a_file_that_was_cut_names_tensor_file_and_offset) {
    NvmeOptions options;
    options.folder = scratch();
    options.capacity_bytes = 256_MiB;
    Rig rig(values(12), {}, "online", {}, open_nvme_tier(options).value());
    std::vector<std::string> const parts{saved_tensor(), options.folder + "/#", ", offset "};
    expect_backward_to_stop(rig, parts, [] { cut_files_of_scratch(); });
}

void exit_in_mid_step(bool leak) {
    static std::unique_ptr<Rig> rig;
    static Tensor y;
    rig = std::make_unique<Rig>(values(12), std::vector<Fault>{}, "online", "", memory());
    rig->tier->set_delay_ms(20);
    Tensor x = leaf(53);
    y = rig->record([&] { return chain(chain(x)).sum(); });
    if (leak) {
        static Rig* volatile never_deleted = rig.release();
        static Tensor* volatile graph = new Tensor(y);
        (void)(never_deleted == nullptr || graph == nullptr);
    }
    std::exit(7);
}

TEST(FaultsDeathTest, a_process_may_exit_in_mid_step) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(exit_in_mid_step(false), testing::ExitedWithCode(7), "");
    EXPECT_EXIT(exit_in_mid_step(true), testing::ExitedWithCode(7), "");
}

TEST(Faults, what_an_error_left_in_the_queue_of_a_thread_ends_with_the_thread) {
    std::thread([] {
        // The queue is older than what a session keeps of the thread, and ends after it.
        leaf(54).sum().backward();
        recomputes() = true;
        Rig rig(values(64));
        recomputes() = false;
        Tensor x = leaf(55);
        for (int step = 0; step < 2; ++step) {
            Tensor y = rig.record([&] {
                Tensor const waits = chain(x);
                Tensor const fails = chain(x);
                fails.register_hook([](Tensor const&) -> Tensor {
                    throw std::runtime_error("in backward");
                });
                return waits.square().mean() + fails.square().mean();
            });
            EXPECT_THROW(y.backward(), std::runtime_error);
        }
    }).join();
}

TEST(Faults, a_full_tier_is_clear_and_nothing_is_lost) {
    Rig rig(values(12), {{.kind = Fault::Kind::full, .first = 4, .count = Fault::kForever}});
    Tensor x = leaf(51);
    EXPECT_THROW(
        rig.record([&]() -> Tensor { return chain(chain(chain(x))).sum(); }), c10::OutOfMemoryError
    );
    rig.expect_clean();
    Tensor y = rig.record([&] { return (x * 2).sum(); });  // trains on where it can
    y.backward();
    EXPECT_TRUE(torch::equal(x.grad(), torch::full_like(x, 2)));
}

TEST(Faults, bytes_that_fly_are_not_used_again) {
    // Stores are slow, and every step of the chain writes to whatever came free last.
    auto const program = [](auto const& record) {
        Tensor x = leaf(44);
        Tensor y = record([&] {
            Tensor a = x;
            for (int i = 0; i < 16; ++i) {
                a = torch::sin(a * 1.01 + 0.1);
                torch::empty({rows(), rows()}, here()).fill_(i);
            }
            return a.sum();
        });
        y.backward();
        return x.grad();
    };
    Tensor const expected = program([](auto const& body) { return body(); });
    Rig rig(values(12), {}, "online", {}, memory());
    rig.tier->set_delay_ms(3);
    EXPECT_TRUE(torch::equal(expected, program([&](auto const& body) { return rig.record(body); }))
    );
    EXPECT_GT(rig.session->report().stored_bytes, 0);
}

}  // namespace
}  // namespace spillway
