// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/planning.h"

#include "base/units.h"
#include "memory/cpu_device.h"
#include "memory/host_memory.h"
#include "policy/qpo.h"
#include "probe/link_probe.h"
#include "session/places.h"
#include "spillway/codecs.h"
#include "spillway/limits.h"
#include "spillway/planning.h"
#include "tier/host_tier.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace spillway {

namespace {

constexpr std::int64_t kCodedBytes = 16_MiB;

std::int64_t capacity_of(Machine const& machine, Pool pool) {
    MachineTier const* const tier = find_tier(machine, pool);
    return tier == nullptr ? 0 : tier->capacity_bytes;
}

Error error_of(OptionFault const& fault, Face face) {
    return {
        Errc::bad_argument, words_of(fault, face), std::string(option_name(fault.option, face))};
}

/// The CPU as a device: with all memory that there is where no budget says less.
Result<std::shared_ptr<CpuDevice>> open_cpu(std::int64_t budget_bytes) {
    std::int64_t const limit_bytes = memory_limit_bytes();
    std::int64_t const all_bytes = limit_bytes > 0 ? limit_bytes : 1024_GiB;
    return CpuDevice::open({.limit_bytes = budget_bytes > 0 ? budget_bytes : all_bytes});
}

/// Null without a budget for it.
Result<std::unique_ptr<Tier>> open_host_here(SessionOptions const& options) {
    if (options.host_budget_bytes == 0) {
        return std::unique_ptr<Tier>();
    }
    if (auto const wrong = check_host_place(options.host_budget_bytes, read_host_limits())) {
        return error_of(*wrong, options.face);
    }
    Result<std::unique_ptr<Tier>> host = HostTier::open(options.host_budget_bytes);
    if (!host.ok()) {
        return error_of(
            {.option = "host_budget_bytes", .detail = host.error().message()}, options.face
        );
    }
    return host;
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
        tier->count_afresh();
        machine.tiers.push_back({tier->name(), pool, tier->capacity_bytes()});
        add_links(machine, pool, *rates);
    }
    return machine;
}

Result<Machine> probed_machine(Device& device, Tier* host, Tier* nvme) {
    Result<Machine> machine = machine_here(device, host, nvme);
    if (machine.ok() && device.is_host()) {
        Result<double> const rate = measure_host_memory();
        if (!rate.ok()) {
            return rate.error();
        }
        machine->device.memory_bytes_per_s = *rate;
        CodecSpeed const codec = measure_codec(qpo_codec(TensorClass::linear_input), kCodedBytes);
        machine->device.encode_bytes_per_s = codec.encode_bytes_per_s;
        machine->device.decode_bytes_per_s = codec.decode_bytes_per_s;
    }
    return machine;
}

Result<std::string> machine_text_here(SessionOptions const& options) {
    if (options.nvme.empty() && options.host_budget_bytes == 0) {
        std::string_view const missing =
            "a place to measure is missing: give `nvme`, "
            "`host_budget_bytes` or both";
        return Error{Errc::bad_argument, with_option_names(missing, options.face), ""};
    }
    if (std::optional<OptionFault> const wrong = check_options(options)) {
        return error_of(*wrong, options.face);
    }
    Result<std::shared_ptr<CpuDevice>> const device = open_cpu(options.device_budget_bytes);
    if (!device.ok()) {
        return device.error();
    }
    Result<std::unique_ptr<Tier>> const host = open_host_here(options);
    if (!host.ok()) {
        return host.error();
    }
    std::unique_ptr<Tier> nvme;
    if (std::optional<OptionFault> const wrong = open_nvme_place(options, nvme)) {
        return error_of(*wrong, options.face);
    }
    Result<Machine> const machine = probed_machine(**device, host->get(), nvme.get());
    if (!machine.ok()) {
        return machine.error();
    }
    return to_json_text(*machine);
}

Planner planner_of(PolicyChoice choice, Machine machine, Face face) {
    Budgets const budgets{
        capacity_of(machine, Pool::device),
        capacity_of(machine, Pool::host),
        capacity_of(machine, Pool::nvme)};
    return [choice = std::move(choice), machine = std::move(machine), budgets, face](
               Trace const& trace, PlanRan const* ran
           ) { return make_plan(choice, trace, machine, budgets, ran, face); };
}

}  // namespace spillway
