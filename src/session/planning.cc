// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/planning.h"

#include "memory/host_memory.h"
#include "probe/link_probe.h"

#include <limits>
#include <utility>

namespace spillway {

namespace {

std::int64_t capacity_of(Machine const& machine, Pool pool) {
    MachineTier const* const tier = find_tier(machine, pool);
    return tier == nullptr ? 0 : tier->capacity_bytes;
}

}  // namespace

Result<Machine> machine_here(Device& device, Tier* host, Tier* nvme) {
    Machine machine{.name = "here", .tiers = {}, .links = {}, .groups = {}};
    machine.tiers.push_back({"device", Pool::device, device.limit_bytes()});
    for (Tier* const tier : {host, nvme}) {
        if (tier == nullptr) {
            continue;
        }
        Pool const pool = tier == host ? Pool::host : Pool::nvme;
        // On a device with streams the disk is reached through pinned memory, which is faster.
        bool const copies = tier == host && !device.is_host();
        Result<LinkRates> const rates =
            copies ? measure_copies(device, *tier) : measure_tier(*tier);
        if (!rates.ok()) {
            return rates.error();
        }
        machine.tiers.push_back({tier->name(), pool, tier->capacity_bytes()});
        add_links(machine, pool, *rates);
    }
    return machine;
}

std::function<Result<Plan>(Trace const&)> planner_of(PolicyChoice choice, Machine machine) {
    Budgets const budgets{
        capacity_of(machine, Pool::device),
        capacity_of(machine, Pool::host),
        capacity_of(machine, Pool::nvme)};
    return [choice = std::move(choice), machine = std::move(machine), budgets](Trace const& trace) {
        return make_plan(choice, trace, machine, budgets);
    };
}

}  // namespace spillway
