// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/checkpoint_folder.h"

#include "train/bad_value.h"
#include "train/files.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace spillway::train {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kInfix = ".tmp-";

// The real place, without a slash at its end: a link stays a link, its folder is replaced.
std::string place_of(std::string path) {
    while (path.size() > 1 && path.back() == '/') {
        path.pop_back();
    }
    std::error_code failure;
    fs::path const real = fs::canonical(path, failure);
    return failure ? path : real.string();
}

// Removes our files and then the folder, if nothing else is in it.
void sweep(std::string const& folder) {
    for (char const* const name : kCheckpointFiles) {
        ::unlink((folder + "/" + name).c_str());
    }
    ::rmdir(folder.c_str());
}

// The process that made "ckpt.tmp-123", if `name` is such a name of `place`.
std::optional<pid_t> maker_of(std::string const& name, std::string const& stem) {
    if (!name.starts_with(stem + std::string{kInfix})) {
        return std::nullopt;
    }
    char const* const begin = name.data() + stem.size() + kInfix.size();
    char const* const end = name.data() + name.size();
    pid_t maker = 0;
    auto const [stop, failure] = std::from_chars(begin, end, maker);
    return failure == std::errc{} && stop == end && maker > 0 ? std::optional{maker} : std::nullopt;
}

// What a killed run left half written beside `place`.
void sweep_dead(std::string const& place) {
    std::string const stem = fs::path(place).filename().string();
    std::error_code failure;
    for (fs::directory_iterator at(folder_of(place), failure), end; at != end && !failure;
         at.increment(failure)) {
        auto const maker = maker_of(at->path().filename().string(), stem);
        if (maker && *maker != ::getpid() && ::kill(*maker, 0) != 0 && errno == ESRCH) {
            sweep(at->path().string());
        }
    }
}

void check_contents(std::string const& path) {
    std::error_code failure;
    for (fs::directory_iterator at(path, failure), end; at != end && !failure;
         at.increment(failure)) {
        std::string const name = at->path().filename().string();
        if (std::find(kCheckpointFiles.begin(), kCheckpointFiles.end(), name) ==
            kCheckpointFiles.end()) {
            refuse(
                "--checkpoint",
                path,
                "the folder holds '" + name + "', which is not part of a checkpoint"
            );
        }
    }
    if (failure) {
        refuse("--checkpoint", path, failure.message());
    }
}

}  // namespace

void check_checkpoint_place(std::string const& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
        if (!S_ISDIR(status.st_mode)) {
            refuse("--checkpoint", path, "not a folder");
        }
        check_contents(path);
    } else if (errno != ENOENT) {
        refuse("--checkpoint", path, std::strerror(errno));
    }
    std::string const parent = folder_of(place_of(path));
    if (::stat(parent.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
        refuse("--checkpoint", path, "there is no folder '" + parent + "' to put it in");
    }
    if (::access(parent.c_str(), W_OK | X_OK) != 0) {
        refuse("--checkpoint", path, "folder '" + parent + "': " + std::strerror(errno));
    }
}

FreshFolder::FreshFolder(std::string const& path)
    : place_(place_of(path)), fresh_(place_ + std::string{kInfix} + std::to_string(::getpid())) {
    sweep_dead(place_);
    sweep(fresh_);
    if (::mkdir(fresh_.c_str(), 0777) != 0) {
        throw FileError(fresh_ + ": mkdir: " + std::strerror(errno));
    }
}

FreshFolder::~FreshFolder() {
    sweep(fresh_);
}

void FreshFolder::put_in_place() {
    sync_folder(fresh_);
    exchange_folders(fresh_, place_);
    sync_folder(folder_of(place_));
}

}  // namespace spillway::train
