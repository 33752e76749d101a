// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Reads the limits of host memory from /proc and the cgroup file systems.
#include "base/units.h"
#include "memory/host_memory.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace spillway {

namespace {

/// From here on a number means "no limit": v1 writes the largest multiple of a page.
constexpr std::int64_t kEndless = std::int64_t{1} << 60;

std::vector<std::string> lines_of(std::string const& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        lines.push_back(line);
    }
    return lines;
}

/// The first number of `text`; nothing where it is a word ("max", "unlimited") or endless.
std::optional<std::int64_t> number_in(std::string_view text) {
    std::size_t const first = text.find_first_not_of(" \t");
    std::uint64_t number = 0;
    if (first == std::string_view::npos ||
        std::from_chars(text.data() + first, text.data() + text.size(), number).ec != std::errc()) {
        return std::nullopt;
    }
    return number < kEndless ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

/// The number after `name` in the lines of a file.
std::optional<std::int64_t> number_after(
    std::vector<std::string> const& lines, std::string_view name
) {
    for (std::string const& line : lines) {
        if (line.starts_with(name)) {
            return number_in(std::string_view(line).substr(name.size()));
        }
    }
    return std::nullopt;
}

std::int64_t kibibytes_after(std::vector<std::string> const& lines, std::string_view name) {
    std::optional<std::int64_t> const number = number_after(lines, name);
    return number ? *number << 10 : HostLimits::kUnlimited;
}

/// What the files of one version are called.
struct CgroupNames {
    char const* limit;
    char const* used;
    char const* inactive_file;  ///< in memory.stat
    char const* active_file;
};
constexpr CgroupNames kV2 = {"memory.max", "memory.current", "inactive_file ", "active_file "};
constexpr CgroupNames kV1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "};

std::int64_t left_of(HostLimits const& limits) {
    return limits.cgroup_limit_bytes - limits.cgroup_used_bytes;
}

void look_at_cgroup(std::string const& folder, CgroupNames const& names, HostLimits& limits) {
    std::string const file = folder + "/" + names.limit;
    std::optional<std::int64_t> const limit = number_after(lines_of(file), "");
    if (!limit) {
        return;
    }
    std::vector<std::string> const stat = lines_of(folder + "/memory.stat");
    std::int64_t const used = number_after(lines_of(folder + "/" + names.used), "").value_or(0) -
                              number_after(stat, names.inactive_file).value_or(0) -
                              number_after(stat, names.active_file).value_or(0);
    HostLimits found = limits;
    found.cgroup_limit_bytes = *limit;
    found.cgroup_used_bytes = used > 0 ? used : 0;
    found.cgroup = file;
    if (limits.cgroup_limit_bytes == HostLimits::kUnlimited || left_of(found) < left_of(limits)) {
        limits = found;
    }
}

/// `path` and all above it. In a container the folders of `path` may be those of the host, which
/// are not there; the container's own are then at the top.
void look_at_ancestors(
    std::string const& mount, std::string path, CgroupNames const& names, HostLimits& limits
) {
    if (path.find("..") != std::string::npos) {  // outside of what this process sees
        path.clear();
    }
    while (!path.empty() && path != "/") {
        look_at_cgroup(mount + path, names, limits);
        path.resize(path.find_last_of('/'));
    }
    look_at_cgroup(mount, names, limits);
}

bool lists_memory(std::string_view controllers) {
    return ("," + std::string(controllers) + ",").find(",memory,") != std::string::npos;
}

void read_cgroups(std::string const& root, HostLimits& limits) {
    std::string const mounts = root + "/sys/fs/cgroup";
    for (std::string const& line : lines_of(root + "/proc/self/cgroup")) {
        std::size_t const first = line.find(':');
        std::size_t const second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) {
            continue;
        }
        std::string const controllers = line.substr(first + 1, second - first - 1);
        std::string const path = line.substr(second + 1);
        if (lists_memory(controllers)) {
            look_at_ancestors(mounts + "/memory", path, kV1, limits);
        } else if (controllers.empty()) {
            look_at_ancestors(mounts, path, kV2, limits);
            look_at_ancestors(mounts + "/unified", path, kV2, limits);
        }
    }
}

/// Of two limits, either of which may be none.
std::int64_t lower(std::int64_t one, std::int64_t other) {
    if (one == HostLimits::kUnlimited || other == HostLimits::kUnlimited) {
        return std::max(one, other);
    }
    return std::min(one, other);
}

Error too_much(Errc code, std::int64_t asked_bytes, std::string const& why) {
    return Error{
        code,
        fmt::format("{} are asked for, but {}; ask for less", format_size(asked_bytes), why),
        kHostMemory};
}

}  // namespace

HostLimits read_host_limits(std::string const& given_root) {
    std::string const root = given_root == "/" ? "" : given_root;
    HostLimits limits;
    std::vector<std::string> const memory = lines_of(root + "/proc/meminfo");
    limits.machine_bytes = kibibytes_after(memory, "MemTotal:");
    limits.available_bytes = kibibytes_after(memory, "MemAvailable:");
    limits.memlock_bytes = number_after(lines_of(root + "/proc/self/limits"), "Max locked memory")
                               .value_or(HostLimits::kUnlimited);
    read_cgroups(root, limits);
    return limits;
}

std::int64_t HostLimits::most_bytes() const {
    return lower(machine_bytes, cgroup_limit_bytes);
}

std::int64_t HostLimits::left_bytes() const {
    bool const has_cgroup = cgroup_limit_bytes != kUnlimited;
    return lower(
        available_bytes, has_cgroup ? std::max<std::int64_t>(left_of(*this), 0) : kUnlimited
    );
}

Result<void> check_host_budget(std::int64_t asked_bytes, HostLimits const& limits) {
    auto const size = format_size;
    bool const has_cgroup = limits.cgroup_limit_bytes != HostLimits::kUnlimited;
    if (asked_bytes < 0) {
        return Error{
            Errc::bad_argument,
            fmt::format("a size cannot be negative: {} bytes", asked_bytes),
            kHostMemory};
    }
    if (limits.machine_bytes != HostLimits::kUnlimited && asked_bytes > limits.machine_bytes) {
        return too_much(
            Errc::bad_argument,
            asked_bytes,
            fmt::format("this machine has {}", size(limits.machine_bytes))
        );
    }
    if (has_cgroup && asked_bytes > limits.cgroup_limit_bytes) {
        return too_much(
            Errc::bad_argument,
            asked_bytes,
            fmt::format("the cgroup allows {} ({})", size(limits.cgroup_limit_bytes), limits.cgroup)
        );
    }
    if (limits.available_bytes != HostLimits::kUnlimited && asked_bytes > limits.available_bytes) {
        return too_much(
            Errc::out_of_memory,
            asked_bytes,
            fmt::format(
                "of this machine's {} only {} are available now",
                size(limits.machine_bytes),
                size(limits.available_bytes)
            )
        );
    }
    if (has_cgroup && asked_bytes > left_of(limits)) {
        return too_much(
            Errc::out_of_memory,
            asked_bytes,
            fmt::format(
                "of the cgroup's {} already {} are used ({})",
                size(limits.cgroup_limit_bytes),
                size(limits.cgroup_used_bytes),
                limits.cgroup
            )
        );
    }
    return {};
}

std::string memlock_advice(std::int64_t asked_bytes, HostLimits const& limits) {
    if (limits.memlock_bytes == HostLimits::kUnlimited || asked_bytes <= limits.memlock_bytes) {
        return "";
    }
    return fmt::format(
        "RLIMIT_MEMLOCK, which some drivers heed, allows {} of {}: try a higher `ulimit -l`",
        format_size(limits.memlock_bytes),
        format_size(asked_bytes)
    );
}

}  // namespace spillway
