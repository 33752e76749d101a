// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/torch_version.h"

#include <dlfcn.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/version.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace spillway {

namespace {

/// The folder of Python's package torch, two above libtorch_cpu.so; empty where that is not known.
std::filesystem::path torch_folder() {
    Dl_info found{};
    auto* const symbol = reinterpret_cast<void*>(&torch::autograd::Engine::get_default_engine);
    if (::dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) {
        return {};
    }
    return std::filesystem::path(found.dli_fname).parent_path().parent_path();
}

}  // namespace

std::string built_torch_version() {
    return std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + "." +
           std::to_string(TORCH_VERSION_PATCH);
}

std::optional<std::string> release_in(std::string const& text) {
    constexpr std::string_view kName = "__version__ = '";
    std::size_t const at = text.find(kName);
    if (at == std::string::npos) {
        return std::nullopt;
    }
    std::size_t const first = at + kName.size();
    std::size_t const end = text.find_first_not_of("0123456789.", first);
    std::string release = text.substr(first, end - first);
    return std::count(release.begin(), release.end(), '.') == 2 ? std::optional(std::move(release))
                                                                : std::nullopt;
}

std::optional<std::string> loaded_torch_version() {
    std::ifstream file(torch_folder() / "version.py");
    return release_in({std::istreambuf_iterator<char>(file), {}});
}

void refuse_another_torch(std::string const& built) {
    std::optional<std::string> const loaded = loaded_torch_version();
    if (loaded && *loaded != built) {
        throw std::runtime_error(
            "this build of Spillway is for torch " + built + ", and torch " + *loaded + " in " +
            torch_folder().string() + " is loaded; build it against that one"
        );
    }
}

}  // namespace spillway
