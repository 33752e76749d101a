// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "machine/machine.h"

#include <algorithm>

namespace spillway {

namespace {

Error wrong(std::string what) {
    return {Errc::bad_argument, std::move(what), "machine"};
}

/// Also false for what is not a number. The lowest rate keeps durations countable.
bool is_rate(double rate) {
    return rate >= 1.0 && rate <= 1e18;
}

std::string name_of_link(MachineLink const& link) {
    return "link " + std::string(name_of(link.from)) + " to " + std::string(name_of(link.to));
}

Result<void> check(Machine const& machine, MachineLink const& link) {
    std::string const who = name_of_link(link);
    if (link.from == link.to) {
        return wrong(who + " goes nowhere");
    }
    if (find_tier(machine, link.from) == nullptr || find_tier(machine, link.to) == nullptr) {
        return wrong(who + " joins a pool that has no tier");
    }
    if (find_link(machine, link.from, link.to) != &link) {
        return wrong(who + " is listed twice");
    }
    if (!is_rate(link.rate_bytes_per_s) || !is_rate(link.both_ways_rate_bytes_per_s)) {
        return wrong(who + " has an impossible rate");
    }
    if (link.both_ways_rate_bytes_per_s > link.rate_bytes_per_s) {
        return wrong(who + " is faster both ways than one way");
    }
    if (link.latency_ns < 0) {
        return wrong(who + " has a latency below 0");
    }
    bool const known =
        std::any_of(machine.groups.begin(), machine.groups.end(), [&](ShareGroup const& group) {
            return group.name == link.group;
        });
    if (!link.group.empty() && !known) {
        return wrong(who + " names the unknown group '" + link.group + "'");
    }
    return {};
}

Result<void> check_groups(Machine const& machine) {
    for (std::size_t i = 0; i < machine.groups.size(); ++i) {
        ShareGroup const& group = machine.groups[i];
        if (group.name.empty() || !is_rate(group.rate_bytes_per_s)) {
            return wrong("group '" + group.name + "' has no name or an impossible rate");
        }
        for (std::size_t j = 0; j < i; ++j) {
            if (machine.groups[j].name == group.name) {
                return wrong("group '" + group.name + "' is listed twice");
            }
        }
    }
    return {};
}

bool is_rate_or_unknown(double rate) {
    return rate == 0 || is_rate(rate);
}

Result<void> check(DeviceSpeed const& device) {
    if (!is_rate_or_unknown(device.float32_flop_per_s) ||
        !is_rate_or_unknown(device.half_flop_per_s) ||
        !is_rate_or_unknown(device.memory_bytes_per_s) ||
        !is_rate_or_unknown(device.encode_bytes_per_s) ||
        !is_rate_or_unknown(device.decode_bytes_per_s)) {
        return wrong("the device has an impossible rate");
    }
    if (!(device.interference >= 0 && device.interference <= kMostInterference)) {
        return wrong("the device's interference is not from 0 to 0.9");
    }
    return {};
}

}  // namespace

Result<void> validate(Machine const& machine) {
    for (MachineTier const& tier : machine.tiers) {
        if (tier.capacity_bytes < 0) {
            return wrong("tier '" + tier.name + "' has a capacity below 0");
        }
        if (find_tier(machine, tier.pool) != &tier) {
            return wrong("pool " + std::string(name_of(tier.pool)) + " has two tiers");
        }
    }
    for (MachineLink const& link : machine.links) {
        if (Result<void> const fine = check(machine, link); !fine) {
            return fine;
        }
    }
    if (Result<void> const fine = check_groups(machine); !fine) {
        return fine;
    }
    return check(machine.device);
}

MachineTier const* find_tier(Machine const& machine, Pool pool) {
    for (MachineTier const& tier : machine.tiers) {
        if (tier.pool == pool) {
            return &tier;
        }
    }
    return nullptr;
}

MachineLink const* find_link(Machine const& machine, Pool from, Pool to) {
    for (MachineLink const& link : machine.links) {
        if (link.from == from && link.to == to) {
            return &link;
        }
    }
    return nullptr;
}

MachineLink const* link_of(Machine const& machine, Lane lane) {
    auto const first_of = [](MachineLink const* link, MachineLink const* other) {
        return link != nullptr ? link : other;
    };
    switch (lane) {
        case Lane::copy_out:
            return find_link(machine, Pool::device, Pool::host);
        case Lane::copy_in:
            return find_link(machine, Pool::host, Pool::device);
        case Lane::nvme_write:
            return first_of(
                find_link(machine, Pool::device, Pool::nvme),
                find_link(machine, Pool::host, Pool::nvme)
            );
        case Lane::nvme_read:
            return first_of(
                find_link(machine, Pool::nvme, Pool::device),
                find_link(machine, Pool::nvme, Pool::host)
            );
        case Lane::compute:
        case Lane::side:
            return nullptr;
    }
    return nullptr;
}

}  // namespace spillway
