// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/device.h"

#include "train/bad_value.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <charconv>
#include <limits>
#include <string_view>

namespace spillway::train {

namespace {

/// The number after "cuda:"; nothing where that is not one.
std::optional<c10::DeviceIndex> index_in(std::string_view digits) {
    c10::DeviceIndex index = 0;
    char const* const end = digits.data() + digits.size();
    auto const [rest, failure] = std::from_chars(digits.data(), end, index);
    bool const whole = failure == std::errc{} && rest == end && index >= 0;
    return whole ? std::optional{index} : std::nullopt;
}

c10::DeviceAllocator* books_of(c10::Device device) {
    if (device.is_cpu()) {
        return nullptr;
    }
    auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
    return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
}

}  // namespace

c10::Device device_of(std::string const& typed) {
    constexpr std::string_view kNumbered = "cuda:";
    if (typed == "cpu") {
        return c10::kCPU;
    }
    if (typed == "cuda") {
        return {c10::kCUDA, 0};
    }
    if (typed.starts_with(kNumbered)) {
        if (auto const index = index_in(std::string_view{typed}.substr(kNumbered.size()))) {
            return {c10::kCUDA, *index};
        }
    }
    refuse("--device", typed, "no such device; there are cpu, cuda and cuda:N");
}

void check_device(
    std::string const& typed, c10::Device device, std::function<CudaDevices()> const& find_cuda
) {
    if (device.type() != c10::kCUDA) {
        return;
    }
    CudaDevices const found = find_cuda();
    if (found.count == 0) {
        refuse("--device", typed, found.why_none + "; --device cpu is there");
    }
    if (device.index() >= found.count) {
        std::string const last = "cuda:" + std::to_string(found.count - 1);
        refuse(
            "--device",
            typed,
            found.count == 1
                ? "there is one CUDA device, " + last
                : "there are " + std::to_string(found.count) + " CUDA devices, cuda:0 to " + last
        );
    }
}

std::string name_of(c10::Device device) {
    return device.str();
}

void synchronize(c10::Device device) {
    if (!device.is_cpu()) {
        c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    }
}

std::optional<DeviceMemory> device_memory(c10::Device device) {
    c10::DeviceAllocator* const books = books_of(device);
    if (books == nullptr) {
        return std::nullopt;
    }
    auto const all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    auto const stats = books->getDeviceStats(device.index());
    return DeviceMemory{stats.allocated_bytes[all].peak, stats.reserved_bytes[all].peak};
}

void reset_device_memory(c10::Device device) {
    if (c10::DeviceAllocator* const books = books_of(device)) {
        books->emptyCache();
        books->resetPeakStats(device.index());
    }
}

}  // namespace spillway::train
