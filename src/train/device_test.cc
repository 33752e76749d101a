// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/device.h"

#include "train/bad_value.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway::train {
namespace {

/// What --device TYPED is answered on a machine with these devices: the device, or the refusal.
std::string answer(std::string const& typed, CudaDevices const& there) {
    try {
        c10::Device const device = device_of(typed);
        check_device(typed, device, [&] { return there; });
        return name_of(device);
    } catch (BadValue const& failure) {
        return failure.what();
    }
}

TEST(device, what_is_there_is_taken) {
    EXPECT_EQ(answer("cpu", {0, "no GPU"}), "cpu");
    EXPECT_EQ(answer("cuda", {1, ""}), "cuda:0");
    EXPECT_EQ(answer("cuda:0", {1, ""}), "cuda:0");
    EXPECT_EQ(answer("cuda:1", {2, ""}), "cuda:1");
}

TEST(device, a_number_that_is_not_there_is_refused_with_those_that_are) {
    EXPECT_EQ(answer("cuda:7", {1, ""}), "--device cuda:7: there is one CUDA device, cuda:0");
    EXPECT_EQ(
        answer("cuda:2", {2, ""}), "--device cuda:2: there are 2 CUDA devices, cuda:0 to cuda:1"
    );
}

TEST(device, without_any_the_reason_is_reported) {
    for (std::string const typed : {"cuda", "cuda:0", "cuda:7"}) {
        EXPECT_EQ(
            answer(typed, {0, "no driver"}),
            "--device " + typed + ": no driver; --device cpu is there"
        );
    }
}

TEST(device, what_is_no_device_is_refused_before_any_is_looked_for) {
    for (std::string const typed :
         {"tpu", "", "CPU", "cpu:0", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:300", "mps"}) {
        EXPECT_EQ(
            answer(typed, {8, ""}),
            "--device " + (typed.empty() ? "''" : typed) +
                ": no such device; there are cpu, cuda and cuda:N"
        );
    }
}

TEST(device, the_cpu_asks_nobody) {
    check_device("cpu", c10::kCPU, []() -> CudaDevices {
        ADD_FAILURE() << "looked for CUDA";
        return {};
    });
    EXPECT_FALSE(device_memory(c10::kCPU));
    synchronize(c10::kCPU);
    reset_device_memory(c10::kCPU);
}

TEST(device, this_machine_has_cuda_devices_or_one_line_that_says_why_not) {
    CudaDevices const found = load_cuda();
    if (found.count > 0) {
        EXPECT_EQ(answer("cuda", found), "cuda:0");
        return;
    }
    EXPECT_NE(found.why_none, "");
    EXPECT_EQ(found.why_none.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace spillway::train
