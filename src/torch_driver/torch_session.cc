// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/torch_session.h"

#include "base/units.h"
#include "torch_driver/allocator.h"
#include "torch_driver/c10_device.h"
#include "torch_driver/engine.h"
#include "torch_driver/operator_name.h"
#include "torch_driver/torch_version.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

namespace spillway {

namespace {

/// Below this a saved tensor costs more to move than it frees: one page of I/O each way and a
/// transfer's bookkeeping. A choice, not a measurement yet.
constexpr std::int64_t kMinValueBytes = 65536;

}  // namespace

std::shared_ptr<TorchSession> TorchSession::open(SessionOptions const& options) {
    for (auto const& [name, bytes] :
         {std::pair{"device_budget_bytes", options.device_budget_bytes},
          std::pair{"host_budget_bytes", options.host_budget_bytes},
          std::pair{"nvme_budget_bytes", options.nvme_budget_bytes}}) {
        if (bytes < 0) {
            throw BadOption(name, std::string(name) + " is negative: " + std::to_string(bytes));
        }
    }
    if (options.policy == name_of(ChooserKind::planned)) {
        throw BadOption("policy", "'planned' is no policy; known are online and keep_all");
    }
    SessionDevice device = open_session_device(options);
    std::unique_ptr<Tier> host = open_host(options, device);
    std::unique_ptr<Tier> nvme = open_nvme(options);
    MoverOptions mover{.staging = open_staging(options, device)};
    return open_on(options, std::move(device), std::move(host), std::move(nvme), std::move(mover));
}

std::shared_ptr<TorchSession> TorchSession::open_on(
    SessionOptions const& options,
    SessionDevice device,
    std::unique_ptr<Tier> host,
    std::unique_ptr<Tier> nvme,
    MoverOptions mover_options
) {
    refuse_another_torch(built_torch_version());
    ChooserKind const chooser = value_or_throw(parse_chooser(options.policy), "policy");
    LoopOptions loop;
    loop.executor = {
        .chooser = chooser,
        .device_bytes = device.device->limit_bytes(),
        .host_bytes = host == nullptr ? 0 : host->capacity_bytes(),
        .nvme_bytes = nvme == nullptr ? 0 : nvme->capacity_bytes()};
    loop.record_events = options.record_events;
    loop.flight_record = options.flight_record;
    loop.trace_file = options.trace_file;
    mover_options.measure = !options.trace_file.empty();
    if (nvme != nullptr && !device.device->is_host()) {
        loop.executor.nvme_value_bytes = std::ssize(mover_options.staging.bytes());
        if (host == nullptr) {
            device.place.max_value_bytes = loop.executor.nvme_value_bytes;
        }
    }
    auto mover = std::make_unique<Mover>(
        device.device, std::move(host), std::move(nvme), std::move(mover_options)
    );
    std::int64_t const floor =
        options.min_value_bytes < 0 ? kMinValueBytes : options.min_value_bytes;
    std::shared_ptr<TorchSession> session(
        new TorchSession(std::move(device), std::move(mover), std::move(loop), floor)
    );
    Result<void> const log = session->loop_->open_log();
    if (!log.ok()) {
        throw BadOption("record_events", log.error().message());
    }
    Result<void> const trace = session->loop_->open_trace();
    if (!trace.ok()) {
        throw BadOption("trace_file", trace.error().message());
    }
    install_engine();
    install_allocator();
    return session;
}

TorchSession::TorchSession(
    SessionDevice device,
    std::unique_ptr<Mover> mover,
    LoopOptions options,
    std::int64_t min_value_bytes
)
    : device_(std::move(device.device)),
      pool_limit_(std::move(device.pool_limit)),
      registry_(device_, device.place, min_value_bytes),
      loop_(std::make_unique<Loop>(std::move(options), device_, std::move(mover), registry_)) {
    registry_.on_dropped = [this](ValueId value) { loop_->dropped(value); };
}

TorchSession::~TorchSession() {
    loop_.reset();  // ends what is in flight while the registry is still there
}

void TorchSession::save(SavedHook& hook, at::Tensor const& tensor) {
    saved_tensors_.fetch_add(1, std::memory_order_relaxed);
    Registry::Fresh fresh;
    Registry::Filed const filed = registry_.file(hook, tensor, fresh);
    if (filed == Registry::Filed::passed) {
        passed_tensors_.fetch_add(1, std::memory_order_relaxed);
    } else if (filed == Registry::Filed::fresh) {
        loop_->saved(hook.value(), fresh.size_bytes, std::move(fresh.slot));
    }
}

/// Once a backward: tells the loop in which order values will be needed.
void TorchSession::tell_backward_order() {
    int const task = torch::autograd::get_current_graph_task_id();
    if (task == -1 || told_.exchange(task) == task) {
        return;
    }
    std::shared_ptr<Backward const> backward = backward_here();
    if (backward == nullptr) {  // Python's backwards pass our engine by: what is below this node
        torch::autograd::Edge const now(torch::autograd::get_current_node(), 0);
        backward = std::make_shared<Backward>(Backward{{now}, {}});
    }
    std::vector<ValueId> order = registry_.in_order(rank_of_nodes(*backward));
    if (!order.empty()) {
        loop_->backward_order(std::move(order));
    }
}

at::Tensor TorchSession::bring_back(SavedHook const& hook) {
    if (loop_->all_on_device()) {  // nothing has left, so nothing is asked
        if (at::Tensor tensor = registry_.tensor_of(hook); tensor.defined()) {
            registry_.used_now(hook.value());
            return tensor;
        }
    }
    tell_backward_order();
    for (;;) {
        Result<void> const there = loop_->need(hook.value());
        if (!there.ok()) {
            if (there.error().code == Errc::out_of_memory) {
                TORCH_CHECK_WITH(OutOfMemoryError, false, place(), ": ", there.error().message());
            }
            TORCH_CHECK(false, place(), ": ", there.error().message());
        }
        at::Tensor tensor = registry_.tensor_of(hook);
        if (tensor.defined()) {
            registry_.handed_out(hook.value(), tensor);
            return tensor;
        }
    }
}

void TorchSession::make_room_until(std::int64_t size_bytes, c10::function_ref<bool()> try_once) {
    while (!try_once()) {
        Result<void> const room = loop_->make_room(device_->rounded(size_bytes));
        if (!room.ok()) {
            TORCH_CHECK_WITH(
                OutOfMemoryError,
                false,
                place(),
                ": ",
                current_operator(),
                ' ',
                room.error().message()
            );
        }
    }
}

void* TorchSession::allocate(std::int64_t size_bytes) {
    void* memory = nullptr;
    make_room_until(size_bytes, [&] {
        memory = device_->try_allocate(size_bytes, device_->current_stream());
        return memory != nullptr;
    });
    return memory;
}

void TorchSession::own(std::vector<at::Tensor> const& tensors) {
    std::int64_t const outside_bytes = registry_.own(tensors);
    std::int64_t const limit = device_->limit_bytes();
    if (limit > 0 && outside_bytes >= limit) {
        throw BadOption(
            "device_budget_bytes",
            "tensors that the session owns take " + format_size(outside_bytes) + " of " +
                format_size(limit)
        );
    }
    device_->charge(outside_bytes);
}

void TorchSession::end_cap() {
    caps_ = false;
    pool_limit_.reset();
    if (auto* const device = dynamic_cast<C10Device*>(device_.get())) {
        device->end_limit();  // there it counts what all allocate
    }
}

std::string TorchSession::place() const {
    if (loop_->current_phase() == Phase::setup) {
        return "before step " + std::to_string(loop_->step() + 1) + ", setup";
    }
    return "step " + std::to_string(loop_->step()) + ", " +
           std::string(name_of(loop_->current_phase()));
}

Report TorchSession::report() const {
    Report report = loop_->report();
    report.saved_tensors = saved_tensors_.load();
    report.passed_tensors = passed_tensors_.load();
    return report;
}

}  // namespace spillway
