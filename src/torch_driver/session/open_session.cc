// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/open_session.h"

#include "session/given_plan.h"
#include "session/planning.h"
#include "spillway/option.h"
#include "torch_driver/allocator/allocator.h"
#include "torch_driver/autograd/engine.h"
#include "torch_driver/python/python_lock.h"
#include "torch_driver/session/session_codecs.h"
#include "torch_driver/torch_version.h"

#include <optional>
#include <string>
#include <utility>

namespace spillway {

namespace {

std::int64_t capacity_of(Tier const* tier) {
    return tier == nullptr ? 0 : tier->capacity_bytes();
}

/// No policy has it: a plan is given to the loop by whoever opens a session so.
bool is_planned(SessionOptions const& options) {
    return options.policy == name_of(ChooserKind::planned);
}

/// As codecs_of; whoever gives the loop a plan in the place of a policy encodes nothing.
std::optional<CodecTable> checked_codecs(SessionOptions const& options) {
    if (!is_planned(options)) {
        return codecs_of(options);
    }
    SessionOptions others = options;
    others.policy = SessionOptions().policy;
    check_or_throw(others);
    return std::nullopt;
}

LoopOptions loop_options_of(
    SessionOptions const& options, Device const& device, Tier const* host, Tier const* nvme
) {
    LoopOptions loop;
    loop.executor = {
        .chooser = is_planned(options) ? ChooserKind::planned : chooser_of(options),
        .device_bytes = device.limit_bytes(),
        .host_bytes = capacity_of(host),
        .nvme_bytes = capacity_of(nvme),
        .eviction = is_planned(options) ? EvictionRule::next_use : policy_of(options).eviction};
    loop.face = options.face;
    loop.record_events = options.record_events;
    loop.flight_record = options.flight_record;
    loop.timeline_file = options.timeline_file;
    loop.keep_timeline = options.keep_timeline;
    loop.non_finite = non_finite_of(options);
    loop.seed = rounding_seed_of(options);
    return loop;
}

/// Opens what `loop` writes.
void open_files(Loop& loop, SessionOptions const& options) {
    Result<void> const log = loop.open_log();
    if (!log.ok()) {
        throw BadOption(
            {.code = OptionCode::not_writable,
             .option = "record_events",
             .given = options.record_events,
             .detail = log.error().what}
        );
    }
    Result<void> const timeline = loop.open_timeline();
    if (!timeline.ok()) {
        throw BadOption(
            {.code = OptionCode::not_writable,
             .option = "timeline_file",
             .given = options.timeline_file,
             .detail = timeline.error().what}
        );
    }
}

/// Has the loop run the plan of a file, if there is one.
void plan_from_file(
    SessionOptions const& options, Tier const* host, Tier const* nvme, LoopOptions& loop
) {
    if (std::optional<OptionFault> wrong = read_given_plan(options, loop.plan)) {
        throw BadOption(*std::move(wrong));
    }
    if (!loop.plan) {
        return;
    }
    Places const places{.host = host != nullptr, .nvme = nvme != nullptr};
    if (std::optional<OptionFault> wrong = check_given_plan(options, *loop.plan, places)) {
        throw BadOption(*std::move(wrong));
    }
    loop.executor.chooser = ChooserKind::planned;
}

/// Has the loop make the plan of a policy that makes one, for this machine.
void plan_by_policy(
    SessionOptions const& options, Device& device, Tier* host, Tier* nvme, LoopOptions& loop
) {
    if (is_planned(options) || !policy_of(options).plans_in_session()) {
        return;
    }
    PolicyChoice choice = value_or_throw(parse_policy_choice(options.policy), "policy");
    if (policy_of(options).needs_pool() && host == nullptr && nvme == nullptr) {
        return;  // nothing can leave, which is told elsewhere
    }
    Result<Machine> machine = machine_here(device, host, nvme);
    loop.planner =
        planner_of(std::move(choice), value_or_throw(std::move(machine), "policy"), options.face);
    loop.policy = options.policy;
    loop.executor.chooser = ChooserKind::planned;
}

}  // namespace

std::shared_ptr<TorchSession> open_session(SessionOptions const& options) {
    std::optional<CodecTable> const codecs = codecs_of(options);  // refused before all is opened
    SessionDevice device = open_session_device(options);
    if (codecs) {
        check_codecs(options, *codecs, device);
    }
    std::unique_ptr<Tier> host = open_host(options, device);
    std::unique_ptr<Tier> nvme = open_nvme(options);
    MoverOptions mover{.staging = open_staging(options, device)};
    return open_session_on(
        options, std::move(device), std::move(host), std::move(nvme), std::move(mover)
    );
}

std::shared_ptr<TorchSession> open_session_on(
    SessionOptions const& options,
    SessionDevice device,
    std::unique_ptr<Tier> host,
    std::unique_ptr<Tier> nvme,
    MoverOptions mover_options
) {
    refuse_another_torch(built_torch_version());
    // Looks for Python here: where there is none, the C library keeps an error for the thread that
    // looked, and threads of devices never end.
    (void)holds_python_lock();
    std::optional<CodecTable> const codecs = checked_codecs(options);
    LoopOptions loop =
        loop_options_of(with_absolute_files(options), *device.device, host.get(), nvme.get());
    plan_from_file(options, host.get(), nvme.get(), loop);
    plan_by_policy(options, *device.device, host.get(), nvme.get(), loop);
    std::optional<Plan> const plan = loop.plan;
    if (codecs) {
        check_codecs(options, *codecs, device);
        if (plan) {
            check_codecs(options, value_or_throw(codecs_of(*plan), "plan"), device);
        }
        check_away_pool(options, host != nullptr || nvme != nullptr);
        if (mover_options.coded.bytes().empty()) {
            mover_options.coded = open_coded_staging(options, device);
        }
    }
    std::int64_t const coded_bytes = std::ssize(mover_options.coded.bytes());
    mover_options.coder = device.coder;
    mover_options.measure = options.keep_timeline || !options.timeline_file.empty();
    if (nvme != nullptr && !device.device->is_host()) {
        loop.executor.nvme_value_bytes = std::ssize(mover_options.staging.bytes());
        if (host == nullptr) {
            device.place.max_value_bytes = loop.executor.nvme_value_bytes;
        }
    }
    auto mover = std::make_unique<Mover>(
        device.device, std::move(host), std::move(nvme), std::move(mover_options)
    );
    if (codecs && !mover->device().is_host() && mover->most_coded_bytes() == 0) {
        throw BadOption(
            {.option = "device_budget_bytes",
             .detail = "there is no room on the device for what is encoded"}
        );
    }
    auto session = std::make_shared<TorchSession>(
        std::move(device), std::move(mover), std::move(loop), options
    );
    if (codecs) {
        session->encode_by(make_rule(options, *codecs, plan, session->loop()), coded_bytes);
    }
    open_files(session->loop(), options);
    install_engine();
    install_allocator();
    return session;
}

}  // namespace spillway
