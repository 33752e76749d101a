// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/torch_session.h"

#include "base/units.h"
#include "torch_driver/allocator/allocator.h"
#include "torch_driver/autograd/engine.h"
#include "torch_driver/autograd/operator_name.h"
#include "torch_driver/device/c10_device.h"
#include "torch_driver/session/session_codecs.h"
#include "torch_driver/torch_version.h"

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <optional>
#include <string_view>
#include <thread>
#include <typeinfo>
#include <utility>

namespace spillway {

namespace {

/// What torch's own refusal says: programs that look for a batch size that fits look for it.
char const* words_of_finders(Device const& device) {
    if (device.is_host()) {
        return "DefaultCPUAllocator: can't allocate memory";
    }
    auto const* const c10 = dynamic_cast<C10Device const*>(&device);
    return c10 != nullptr && c10->where().is_cuda() ? "CUDA out of memory."
                                                    : "the device is out of memory.";
}

/// Below this a saved tensor costs more to move than it frees: one page of I/O each way and a
/// transfer's bookkeeping. A choice, not a measurement yet.
constexpr std::int64_t kMinValueBytes = 65536;

/// Whether a Python Function asks for what it saved: under Python's lock, and without a lock of the
/// node, which a getter of a node's attribute holds.
bool is_python_function() {
    auto const node = torch::autograd::get_current_node();
    if (node == nullptr) {
        return false;
    }
    auto const& ran = *node;
    return std::string_view(typeid(ran).name()).find("PyNode") != std::string_view::npos;
}

}  // namespace

std::shared_ptr<TorchSession> TorchSession::open(SessionOptions const& options) {
    std::optional<CodecTable> const codecs = codecs_of(options);  // refused before all is opened
    SessionDevice device = open_session_device(options);
    if (codecs) {
        check_codecs(options, *codecs, device);
    }
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
    // Looks for Python here: where there is none, the C library keeps an error for the thread that
    // looked, and threads of devices never end.
    (void)holds_python_lock();
    std::optional<CodecTable> const codecs = codecs_of(options);
    LoopOptions loop;
    loop.executor = {
        .chooser = chooser_of(options),
        .device_bytes = device.device->limit_bytes(),
        .host_bytes = host == nullptr ? 0 : host->capacity_bytes(),
        .nvme_bytes = nvme == nullptr ? 0 : nvme->capacity_bytes()};
    loop.face = options.face;
    loop.record_events = options.record_events;
    loop.flight_record = options.flight_record;
    loop.timeline_file = options.timeline_file;
    loop.keep_timeline = options.keep_timeline;
    loop.non_finite = non_finite_of(options);
    loop.seed = rounding_seed_of(options);
    if (codecs) {
        check_codecs(options, *codecs, device);
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
            "device_budget_bytes", "there is no room on the device for what is encoded"
        );
    }
    std::shared_ptr<TorchSession> session(
        new TorchSession(std::move(device), std::move(mover), std::move(loop), options)
    );
    if (codecs) {
        session->follow(make_rule(options, *codecs, *session->loop_), coded_bytes);
    }
    Result<void> const log = session->loop_->open_log();
    if (!log.ok()) {
        throw BadOption("record_events", log.error().message());
    }
    Result<void> const timeline = session->loop_->open_timeline();
    if (!timeline.ok()) {
        throw BadOption("timeline_file", timeline.error().message());
    }
    install_engine();
    watch_replaced_data();
    install_allocator();
    return session;
}

TorchSession::TorchSession(
    SessionDevice device,
    std::unique_ptr<Mover> mover,
    LoopOptions options,
    SessionOptions const& session
)
    : device_(std::move(device.device)),
      pool_limit_(std::move(device.pool_limit)),
      registry_(
          device_,
          device.place,
          session.min_value_bytes < 0 ? kMinValueBytes : session.min_value_bytes
      ),
      loop_(std::make_unique<Loop>(std::move(options), device_, std::move(mover), registry_)),
      caps_from_open_(session.cap_from_open || !device_->is_host()),
      loan_(device_) {
    registry_.on_dropped = [this](ValueId value) { loop_->dropped(value); };
    if (session.keep_timeline) {
        registry_.keep_saves();
    }
    registry_.on_short = [this](std::int64_t size_bytes, bool last_resort) {
        return borrow(size_bytes, last_resort);
    };
}

TorchSession::~TorchSession() {
    loop_.reset();  // ends what is in flight while the registry is still there
}

/// From now on what leaves is encoded as the rule says, through staging that counts.
void TorchSession::follow(std::unique_ptr<CodecRule> rule, std::int64_t staging_bytes) {
    rule_ = std::move(rule);
    registry_.tell_classes();
    coded_bytes_ = staging_bytes;
    device_->charge(coded_bytes_);
}

void TorchSession::phase(Phase phase) {
    registry_.let_wrappers_end();
    loop_->phase(phase);
    if (rule_) {
        std::lock_guard const lock(rule_mutex_);
        rule_->phase_begins(phase);
    }
}

SavedAs TorchSession::ask_rule(Registry::Fresh const& fresh, bool is_in_backward) {
    Dtype const dtype = element_of(fresh.saver.dtype);
    SavedTensor const tensor{
        .tensor_class = fresh.saver.tensor_class,
        .dtype = dtype,
        .count = fresh.storage_bytes / size_of(dtype),
        .size_bytes = fresh.size_bytes,
        .is_whole = fresh.is_whole,
        .phase = is_in_backward ? Phase::backward : loop_->current_phase(),
        .step = loop_->step()};
    if (fresh.storage_bytes % size_of(dtype) != 0) {
        return {};
    }
    std::lock_guard const lock(rule_mutex_);
    SavedAs as = rule_->of(tensor);
    bool const is_exact = exact_ || at::globalContext().deterministicAlgorithms();
    if (is_exact && as.encoding && is_lossy(as.encoding->codec)) {
        as.encoding.reset();
    }
    return as;
}

/// Note [A second kind of saver]
/// A value's class is told when its storage is saved first; savers that follow may need it exactly.
/// Such a saver has the tensor. While a tensor other than our aliases has the storage, the value is
/// not unshared, and what is not unshared does not start to leave. So in a forward it goes raw in
/// time. In a backward an unpacked tensor may be saved again, whose coded copy is away or on its
/// way: that copy is given up, as before a write (Loop::goes_raw). Where the saver's storage is not
/// the value's any more, since that was dropped meanwhile, it is a value of its own. What came back
/// decoded is for the second saver what it has seen.
void TorchSession::save(SavedHook& hook, at::Tensor const& tensor) {
    saved_tensors_.fetch_add(1, std::memory_order_relaxed);
    bool const is_in_backward = torch::autograd::get_current_graph_task_id() != -1;
    if (turned_.load(std::memory_order_relaxed) && !is_in_backward && turned_.exchange(false) &&
        loop_->current_phase() == Phase::backward) {
        phase(Phase::forward);
    }
    // Where classes count, no other thread's saver or drop comes between what is filed and what is
    // told.
    Loop::Turn const turn = rule_ ? loop_->take_turn() : Loop::Turn();
    Registry::Fresh fresh;
    Registry::Filed const filed = registry_.file(hook, tensor, fresh);
    if (filed == Registry::Filed::passed) {
        passed_tensors_.fetch_add(1, std::memory_order_relaxed);
    } else if (filed == Registry::Filed::fresh) {
        SavedAs const as = rule_ ? ask_rule(fresh, is_in_backward) : SavedAs{};
        loop_->saved(hook.value(), fresh.size_bytes, std::move(fresh.slot), as);
        Registry::told(hook);
    } else if (filed == Registry::Filed::differs) {
        loop_->goes_raw(hook.value());
    }
}

void TorchSession::begin_backward() {
    int const task = torch::autograd::get_current_graph_task_id();
    if (task == -1 || begun_.load(std::memory_order_relaxed) == task ||
        begun_.exchange(task) == task || is_forked()) {
        return;
    }
    if (loop_->current_phase() == Phase::forward) {
        turned_ = true;
        phase(Phase::backward);
    }
}

/// Once a backward: tells the loop in which order values will be needed.
void TorchSession::tell_backward_order() {
    int const task = torch::autograd::get_current_graph_task_id();
    if (task == -1 || told_ == task) {
        return;
    }
    Backward const backward = what_runs_here();
    if (backward.roots.empty()) {
        return;  // a hook between nodes; one of these will tell
    }
    if (told_.exchange(task) == task) {
        return;
    }
    std::vector<ValueId> order = registry_.in_order(rank_of_nodes(backward));
    if (!order.empty()) {
        loop_->backward_order(std::move(order));
    }
}

void TorchSession::end_use() {
    // A device's limit holds for the process: without an owner it ends with the last use.
    if (--uses_ == 0 && !has_owner_ && !device_->is_host() && !is_forked()) {
        end_cap();
    }
}

void TorchSession::cap_this_backward() {
    int const task = torch::autograd::get_current_graph_task_id();
    bool const caps_anyway = !device_->is_host() && has_owner_;  // all threads, all the time
    if (task == -1 || caps_anyway || capped_.load(std::memory_order_relaxed) == task ||
        capped_.exchange(task) == task) {
        return;
    }
    begin_use();
    // Threads of devices let go of a backward some time after it has returned: they must not be the
    // last to hold a session.
    auto const end = [weak = weak_from_this()](void*) {
        if (std::shared_ptr<TorchSession> const session = weak.lock()) {
            session->end_use();
        }
    };
    keep_for_backward(std::shared_ptr<void>(this, end));
    if (device_->is_host()) {
        keep_for_backward(capped_on_this_thread(shared_from_this()));
    }
}

at::Tensor TorchSession::bring_back(SavedHook const& hook, bool is_of_torch) {
    ValueId const value = hook.value();
    if (is_forked()) {
        at::Tensor tensor = registry_.tensor_of(value, &hook, is_of_torch);
        TORCH_CHECK(
            tensor.defined(),
            "a saved tensor waits off the device, and this is a fork of the process that moved it; "
            "run this backward where its forward ran"
        );
        return tensor;
    }
    if (rule_) {
        std::lock_guard const lock(rule_mutex_);
        rule_->backward_needs();
    }
    if (is_of_torch && loop_->all_on_device()) {  // nothing has left, so nothing is asked
        if (at::Tensor tensor = registry_.tensor_of(value, &hook, true); tensor.defined()) {
            registry_.used_now(value);
            return tensor;
        }
    }
    tell_backward_order();
    while (!Registry::is_told(hook)) {  // another thread is in the middle of saving it first
        std::this_thread::yield();
    }
    WithoutPythonLock without_lock(!is_of_torch && is_python_function());
    return wait_for(value, &hook, is_of_torch, without_lock);
}

/// Without Python's lock another thread may free the graph meanwhile, and the hook with it: so the
/// value is pinned, and the hook is looked for before it is used.
at::Tensor TorchSession::wait_for(
    ValueId value, SavedHook const* hook, bool is_of_torch, WithoutPythonLock& without_lock
) {
    bool const is_pinned = registry_.pin(value, hook);
    auto const unpin = c10::make_scope_exit([&] {
        if (is_pinned) {
            registry_.unpin(value);
        }
        without_lock.end();
    });
    for (;;) {
        TORCH_CHECK(
            is_pinned && registry_.has(value, hook),
            "Trying to backward through the graph a second time: another thread has freed this "
            "graph's saved tensors while this one was waiting for one of them"
        );
        Loop::Turn const turn = loop_->take_turn();  // or another thread could let it go between
        Result<void> const there = loop_->need(value);
        if (!there.ok()) {
            if (there.error().code == Errc::out_of_memory) {
                raise_out_of_memory(there.error().message());
            }
            TORCH_CHECK(false, place(), ": ", there.error().message());
        }
        at::Tensor tensor = registry_.tensor_of(value, hook, is_of_torch);
        if (tensor.defined()) {
            registry_.handed_out(value, tensor);
            see_need(0);
            if (!is_of_torch) {
                loop_->about_to_write(value);
            }
            return tensor;
        }
    }
}

void TorchSession::raise_out_of_memory(std::string const& why) {
    char const* const how_to_end = caps_from_open_ ? "" : ", which session.close() ends";
    bool const is_left = !caps_from_open_ && !is_in_use();
    std::string const step = std::to_string(loop_->step());
    if (!is_entered() && is_in_use()) {  // a backward's error keeps its graph
        lapse();
    }
    Refusal const refused = loop_->last_refusal().value_or(Refusal{});
    std::string const estimate = estimate_.words(refused.needed_bytes, loop_->current_phase());
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        false,
        is_left ? "after the forward of step " + step : place(),
        ": ",
        why,
        ".",
        estimate,
        " ",
        is_left ? "The session was left, and its budget holds for this thread as long as what it "
                  "recorded lives (a loss, an output, an error's traceback). "
                : "",
        "A step under a larger budget tells the smallest that does: device_needed_bytes in "
        "report() (this is the budget of a Spillway session",
        how_to_end,
        ", not the machine's memory; tools that try a smaller batch look for: ",
        words_of_finders(*device_),
        ")"
    );
}

void TorchSession::make_room_until(std::int64_t size_bytes, c10::function_ref<bool()> try_once) {
    while (!try_once()) {
        Result<void> const room = loop_->make_room(device_->rounded(size_bytes));
        if (!room.ok()) {
            see_need(device_->rounded(size_bytes));
            std::string const of_lender = refusal(size_bytes);
            std::string const why = of_lender.empty() ? room.error().message() : of_lender;
            raise_out_of_memory(current_operator() + ' ' + why);
        }
    }
    see_need(0);
}

/// With `size_bytes` more than is allocated now.
void TorchSession::see_need(std::int64_t size_bytes) {
    auto const needed = [&] {
        return device_->used_bytes() + size_bytes - registry_.could_leave_bytes() -
               loop_->returning_bytes();
    };
    std::int64_t before = needed_bytes_.load(std::memory_order_relaxed);
    if (needed() <= before) {
        return;
    }
    registry_.see_what_could_leave();
    std::int64_t const now = needed();
    while (now > before && !needed_bytes_.compare_exchange_weak(before, now)) {
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

void TorchSession::own(
    std::vector<at::Tensor> const& tensors, std::vector<std::string> const& names
) {
    std::int64_t const outside_bytes = registry_.own(tensors, names) + coded_bytes_;
    estimate_.own(tensors, *device_);
    std::int64_t const limit = device_->limit_bytes();
    if (limit > 0 && outside_bytes >= limit) {
        throw BadOption(
            "device_budget_bytes",
            "parameters, gradients, buffers and optimizer state take " +
                format_size(outside_bytes) + ", and the budget is " + format_size(limit) +
                "; give more, as these stay on the device"
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

bool TorchSession::is_inside(TorchSession const& other) {
    std::shared_ptr<TorchSession> const outer = loan_.lender();
    return outer != nullptr && (outer.get() == &other || outer->is_inside(other));
}

void TorchSession::begin_inside(std::shared_ptr<TorchSession> const& outer) {
    if (outer.get() == this || outer->is_inside(*this)) {
        return;  // entered the other way round before: the allocations count there already
    }
    loan_.begin(outer);
    std::lock_guard const lock(outer->borrowers_mutex_);
    std::erase_if(outer->borrowers_, [this](auto const& borrower) {
        return borrower.expired() || borrower.lock().get() == this;
    });
    outer->borrowers_.push_back(weak_from_this());
}

bool TorchSession::lend(std::int64_t bytes, bool make_room) {
    auto& device = dynamic_cast<CpuDevice&>(*device_);
    while (!device.lend(bytes)) {  // which keeps a page
        std::int64_t const needed = bytes + kArenaPageBytes;
        if (!make_room || asks_borrowers_ || !loop_->make_room(needed).ok()) {
            return false;
        }
    }
    return true;
}

std::vector<std::shared_ptr<TorchSession>> TorchSession::borrowers() {
    std::vector<std::shared_ptr<TorchSession>> living;
    std::lock_guard const lock(borrowers_mutex_);
    for (auto const& weak : borrowers_) {
        if (std::shared_ptr<TorchSession> borrower = weak.lock()) {
            living.push_back(std::move(borrower));
        }
    }
    return living;
}

std::int64_t TorchSession::trim_loans() {
    std::int64_t back = 0;
    for (auto const& borrower : borrowers()) {
        back += borrower->loan_.trim();
    }
    return back;
}

/// First takes back what it lent and is not in use, or asks who lends to it; at last what those
/// that borrowed can let go.
bool TorchSession::borrow(std::int64_t size_bytes, bool last_resort) {
    if (last_resort && asks_borrowers_.exchange(true)) {
        return false;  // one that was asked asks back
    }
    auto const asked =
        c10::make_scope_exit([&] { asks_borrowers_ = asks_borrowers_ && !last_resort; });
    std::int64_t back = trim_loans();
    for (auto const& borrower : borrowers()) {
        if (last_resort && !borrower->loan_.is_asking() && back < size_bytes) {
            bool const has_freed = borrower->loop_->make_room_for_another(size_bytes - back);
            back += has_freed && !device_->is_host() ? size_bytes : 0;  // which all count as theirs
            back += borrower->loan_.trim();
        }
    }
    return back > 0 || loan_.extend(size_bytes, last_resort);
}

std::string TorchSession::place() const {
    if (loop_->current_phase() == Phase::setup) {
        return "before step " + std::to_string(loop_->step() + 1) + ", setup";
    }
    return "step " + std::to_string(loop_->step()) + ", " +
           std::string(name_of(loop_->current_phase()));
}

Report TorchSession::report() {
    trim_loans();
    Report report = loop_->report();
    report.saved_tensors = saved_tensors_.load();
    report.passed_tensors = passed_tensors_.load();
    see_need(0);
    report.device_needed_bytes = round_up(needed_bytes_.load(), kArenaPageBytes);
    return report;
}

}  // namespace spillway
