// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train_command.h"

#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

namespace spillway::cli {

namespace fs = std::filesystem;

namespace {

constexpr int kCannot = 2;
constexpr char const* kLibrary = "libspillway_train.so";

int cannot(std::string const& why) {
    std::fprintf(stderr, "spillway: train: %s\n", why.c_str());
    return kCannot;
}

}  // namespace

int run_train(TrainOptions const& options) {
    std::error_code failure;
    fs::path const program = fs::read_symlink("/proc/self/exe", failure);
    fs::path const library = program.parent_path().parent_path() / "lib" / kLibrary;
    if (!fs::exists(library, failure)) {
        return cannot("'" + library.string() + "' is missing; 'make build' makes it");
    }
    void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
        return cannot(::dlerror());
    }
    auto const train = reinterpret_cast<TrainFunction>(::dlsym(handle, "spillway_train"));
    if (train == nullptr) {
        return cannot("'" + library.string() + "' is of another version: no spillway_train in it");
    }
    return train(&options);
}

}  // namespace spillway::cli
