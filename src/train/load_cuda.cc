// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The program links libtorch_cpu only, so that it starts fast and everywhere. CUDA's kernels are a
// gigabyte beside it, loaded when a CUDA device was asked for.

#include "train/device.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace spillway::train {

namespace {

constexpr char const* kLibrary = "libtorch_cuda.so";
constexpr char const* kDriver = "libcuda.so.1";

/// Captures torch's warnings: our own message gives the reason why there is no device.
class KeepWarnings : public c10::WarningHandler {
  public:
    void process(c10::Warning const& warning) override {
        text_ = warning.msg().substr(0, warning.msg().find('\n'));
    }
    [[nodiscard]] std::string const& text() const { return text_; }

  private:
    std::string text_;
};

/// The folder that torch was loaded from, with a slash.
std::string folder_of_torch() {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<void const*>(&c10::GetAllocator), &info) == 0) {
        return "";
    }
    std::string const file = info.dli_fname;
    return file.substr(0, file.rfind('/') + 1);
}

std::string loading_error() {
    char const* const why = ::dlerror();
    return why == nullptr ? "unknown error" : why;
}

}  // namespace

CudaDevices load_cuda() {
    if (::dlopen(kDriver, RTLD_NOW | RTLD_LOCAL) == nullptr) {
        return {0, "no NVIDIA driver on this machine (" + loading_error() + ")"};
    }
    std::string const library = folder_of_torch() + kLibrary;
    if (::access(library.c_str(), R_OK) != 0) {
        return {0, "the torch that this is built with has no CUDA (no '" + library + "')"};
    }
    if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        return {0, "torch's CUDA cannot be loaded: " + loading_error()};
    }
    if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) {
        return {0, "'" + library + "' brings no CUDA device"};
    }
    KeepWarnings warnings;
    c10::WarningUtils::WarningHandlerGuard const guard(&warnings);
    int const count = c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount();
    std::string const why = warnings.text().empty() ? "no GPU is visible" : warnings.text();
    return {count, why};
}

}  // namespace spillway::train
