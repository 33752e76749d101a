// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/torch_session.h"

#include "base/units.h"
#include "memory/arena.h"
#include "policy/catalog.h"
#include "spillway/session_error.h"
#include "torch_driver/allocator/allocator.h"
#include "torch_driver/autograd/engine.h"
#include "torch_driver/autograd/steal_guard.h"
#include "torch_driver/device/c10_device.h"
#include "torch_driver/recorder/observer.h"
#include "torch_driver/session/out_of_memory.h"
#include "torch_driver/states/storage_bytes.h"

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <numeric>
#include <string_view>
#include <typeinfo>
#include <unordered_set>
#include <utility>

namespace spillway {

namespace {

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

Places places_of(ExecutorOptions const& options) {
    return {.host = options.host_bytes > 0, .nvme = options.nvme_bytes > 0};
}

bool makes_again_unplanned_in(SessionOptions const& options, Places const& places) {
    Policy const* const policy = find_policy(options.policy);  // null: a plan was given
    return options.recompute == "on" ||
           makes_again_unplanned(
               policy == nullptr ? policies().front() : *policy, places.host || places.nvme
           );
}

/// "float32", as Python prints it.
std::string name_of_dtype(c10::ScalarType dtype) {
    return std::string(c10::getDtypeNames(dtype).first);
}

std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
}

Refusal refusal_of(Error const& error) {
    return error.refusal == nullptr ? Refusal{} : *error.refusal;
}

}  // namespace

TorchSession::TorchSession(
    SessionDevice device,
    std::unique_ptr<Mover> mover,
    LoopOptions loop,
    SessionOptions const& options
)
    : number_(next_number()),
      face_(options.face),
      trained_is_given_(options.face == Face::python),
      opened_at_(options.opened_at),
      device_(std::move(device.device)),
      pool_limit_(std::move(device.pool_limit)),
      blocks_(device_, device.place),
      owned_(device_, device.place.device),
      gradients_(device.place.device),
      saved_(blocks_, owned_, options.min_value_bytes),
      making_again_(
          making_again(options, places_of(loop.executor), loop.plan && makes_again(*loop.plan))
      ),
      makes_again_unplanned_(makes_again_unplanned_in(options, places_of(loop.executor))),
      loop_(std::make_unique<Loop>(std::move(loop), device_, std::move(mover), saved_)),
      use_(options.cap_from_open || !device_->is_host()),
      budget_(device_, *this),
      states_leave_(options.states == "optimizer"),
      plans_(loop_->plans()) {
    saved_.on_dropped = [this](ValueId value) { loop_->dropped(value); };
    saved_.on_short = [this](std::int64_t size_bytes, bool last_resort) {
        return budget_.borrow(size_bytes, last_resort);
    };
    if (options.keep_timeline || plans_) {
        saved_.log().keep();
    }
    if (plans_) {
        saved_.classify_tensors();
    }
    if (making_again_ == MakingAgain::blocks) {
        saved_.make_blocks_again();
    }
}

TorchSession::~TorchSession() {
    add_to_trace();
    loop_.reset();  // ends what is in flight while the saved tensors are still there
}

void TorchSession::encode_by(std::unique_ptr<CodecRule> rule, std::int64_t staging_bytes) {
    codec_choice_.emplace(std::move(rule));
    saved_.classify_tensors();
    coded_bytes_ = staging_bytes;
    MutexLock const lock(owned_mutex_);
    charged_bytes_ = coded_bytes_;
    device_->charge(coded_bytes_);
}

/// Where values are made again that no plan names, however far the limit was so far: the next entry
/// may be larger.
std::shared_ptr<CallRecorder> TorchSession::recorder_of_this_thread() {
    if (making_again_ == MakingAgain::nothing || !(makes_again_unplanned_ || needs_recipes())) {
        return nullptr;
    }
    MutexLock const lock(recorders_mutex_);
    std::shared_ptr<CallRecorder>& recorder = recorders_[std::this_thread::get_id()];
    if (recorder == nullptr) {
        recorder = std::make_shared<CallRecorder>(making_again_ == MakingAgain::blocks);
    }
    // Where what no plan names is made again, too, its recipes may be of any kind.
    bool const asks_for_all = loop_->is_tracing() || makes_again_unplanned_;
    std::int64_t const plan = asks_for_all ? 0 : loop_->making_plan();
    recorder->record_only(
        plan == 0 ? nullptr
                  : planned_operators_.to_record(
                        plan, saved_.made_again(), [&] { return saved_.used_operators(); }
                    )
    );
    return recorder;
}

bool TorchSession::needs_recipes() const {
    return loop_->is_tracing() || loop_->plan_uses_recipes();
}

/// Not while the budget is far: what no allocation asks for need not be known. In the middle of an
/// allocation nothing is allocated for it.
void TorchSession::make_recipes(bool is_short) {
    std::int64_t const limit = device_->limit_bytes();
    std::int64_t const used = device_->used_bytes();
    bool const is_near = is_short || used > limit / 4;
    if (making_again_ != MakingAgain::nothing && (is_near || needs_recipes())) {
        saved_.make_recipes(is_short ? 0 : limit - used);
    }
}

/// Of what was saved last: where a trace wants them, no save comes that would make them.
void TorchSession::make_last_recipes() {
    if (loop_->is_tracing()) {
        make_recipes(false);
    }
}

/// Before the log forgets it.
void TorchSession::add_to_trace() {
    if (loop_->is_tracing()) {
        loop_->add_to_trace(saved_.log().trace_words());
    }
}

void TorchSession::begin_pass() {
    step_is_due_ = false;
    if (CallRecorder* const recorder = recorder_here()) {
        recorder->begin_step();
    }
    begin_counts();
}

void TorchSession::begin_counts() {
    peak_.begin_pass([this] { return modules(); });
    add_to_trace();
    saved_.begin_pass();
    loop_->begin_pass();
}

void TorchSession::phase(Phase phase) {
    saved_.let_wrappers_end();
    make_last_recipes();
    if (loop_->current_phase() == Phase::update && phase != Phase::update) {
        estimate_.updated();
    }
    loop_->phase(phase);
    if (codec_choice_) {
        codec_choice_->phase_begins(phase);
    }
}

/// Note [A second kind of saver]
/// A value gets its class when its storage is saved first; later savers may need it exactly.
/// Such a saver has the tensor. While a tensor other than our aliases has the storage, the value is
/// not unshared, and what is not unshared does not start to leave. So in a forward it goes raw in
/// time. In a backward an unpacked tensor may be saved again, whose coded copy is away or on its
/// way: that copy is given up, as before a write (Loop::goes_raw). Where the saver's storage is not
/// the value's any more, since that was dropped meanwhile, it is a value of its own. What came back
/// decoded is for the second saver what it has seen.
void TorchSession::save(SavedHook& hook, at::Tensor const& tensor) {
    filed_count_.fetch_add(1, std::memory_order_relaxed);
    bool const is_in_backward = torch::autograd::get_current_graph_task_id() != -1;
    turns_forward(is_in_backward);
    make_recipes(false);
    // Where classes count, no other thread's saver or drop comes between filing and reporting.
    Loop::Turn const turn = codec_choice_ ? loop_->take_turn() : Loop::Turn();
    SavedTensors::Fresh fresh;
    SavedTensors::Filed const filed = saved_.file(hook, tensor, fresh);
    if (filed == SavedTensors::Filed::fresh) {
        Phase const phase = is_in_backward ? Phase::backward : loop_->current_phase();
        SavedAs const as =
            codec_choice_ ? codec_choice_->of(fresh, phase, loop_->step()) : SavedAs{};
        SaveMark const mark{
            .saver = fresh.saver.tensor_class,
            .dtype = static_cast<std::int16_t>(tensor.scalar_type()),
            .rank = static_cast<std::int16_t>(tensor.dim())};
        loop_->saved(hook.value(), fresh.size_bytes, std::move(fresh.slot), as, mark);
        SavedTensors::mark_reported(hook);
    } else if (filed == SavedTensors::Filed::differs) {
        loop_->goes_raw(hook.value());
    }
    if (loop_->is_tracing()) {
        TraceWords words;
        words.dtype =
            filed == SavedTensors::Filed::fresh ? name_of_dtype(tensor.scalar_type()) : "";
        words.tensor_class = fresh.saver.tensor_class;
        loop_->add_to_trace({{hook.value(), words}});
    }
}

/// No forward saves it, so it turns no phase; no codec is asked, since nobody measures what it
/// would lose.
void TorchSession::save_state(SavedHook& hook, at::Tensor const& alias) {
    SavedTensors::Fresh fresh = saved_.file_state(hook, alias);
    loop_->saved(hook.value(), fresh.size_bytes, std::move(fresh.slot));
    SavedTensors::mark_reported(hook);
}

at::Tensor TorchSession::bring_state_back(SavedHook const& hook) {
    if (loop_->all_on_device()) {
        if (at::Tensor tensor = saved_.used_now(hook); tensor.defined()) {
            return tensor;
        }
    }
    WithoutPythonLock without_lock(false);
    return wait_for(hook.value(), &hook, false, without_lock);
}

/// In an operator that saves: what the recorder knows of it stays.
void TorchSession::begin_due_step() {
    begin_counts();
    loop_->begin_histories();
    loop_->begin_step(loop_->step() + 1);
    turned_ = false;
    phase(Phase::forward);
}

void TorchSession::turns_forward(bool is_in_backward) {
    if (step_is_due_.load(std::memory_order_relaxed) && !is_in_backward &&
        step_is_due_.exchange(false)) {
        begin_due_step();
    }
    if (turned_.load(std::memory_order_relaxed) && !is_in_backward && turned_.exchange(false) &&
        loop_->current_phase() == Phase::backward) {
        phase(Phase::forward);
    }
}

void TorchSession::pass(SavedHook const& hook, at::Tensor const& tensor, Stay stay) {
    passed_count_.fetch_add(1, std::memory_order_relaxed);
    if (turned_.load(std::memory_order_relaxed) || step_is_due_.load(std::memory_order_relaxed)) {
        turns_forward(torch::autograd::get_current_graph_task_id() != -1);
    }
    saved_.log_save(hook, tensor, stay);
}

void TorchSession::pass_whole(SavedHook const& hook, at::Tensor const& tensor, Stay stay) {
    passed_count_.fetch_add(1, std::memory_order_relaxed);
    saved_.log_kept_whole(hook, tensor, stay);
}

void TorchSession::runs_backward_here() {
    struct Known {
        int task = -1;
        std::uint64_t session = 0;
    };
    static thread_local Known known;
    int const task = torch::autograd::get_current_graph_task_id();
    if (task == -1 || known.task != task || known.session != number_ || !device_->is_host()) {
        adopt_backward(shared_from_this());
        cap_this_backward();
        begin_backward();
        known = {task, number_};
    }
}

void TorchSession::begin_backward() {
    if (!begun_.first() || use_.is_forked()) {
        return;
    }
    if (loop_->current_phase() == Phase::forward) {
        recharge();  // `zero_grad` in the forward, say
        turned_ = true;
        phase(Phase::backward);
    }
}

/// Once a backward: reports to the loop in which order values will be needed.
void TorchSession::report_backward_order() {
    if (!order_reported_.is_new()) {
        return;
    }
    Backward const backward = what_runs_here();
    if (backward.roots.empty()) {
        return;  // a hook between nodes; the next node reports it
    }
    if (!order_reported_.first()) {
        return;
    }
    std::vector<ValueId> order = saved_.in_order(rank_of_nodes(backward));
    if (!order.empty()) {
        loop_->backward_order(std::move(order));
    }
}

void TorchSession::end_use() {
    // A device's limit holds for the process: without an owner it ends with the last use.
    if (use_.end() && !device_->is_host()) {
        end_cap();
    }
    if (trained_is_given_ && !use_.is_in_use() && saved_.is_empty()) {
        gradients_.clear();
    }
}

std::int64_t TorchSession::gradient_bytes() const {
    OwnedStorages::Living const living = owned_.living();
    std::unordered_set<c10::StorageImpl const*> counted;
    std::int64_t bytes = 0;
    for (auto const& [storage, kind] : living) {
        if (kind == OwnedKind::gradient && counted.insert(storage.get()).second) {
            bytes += bytes_in(*storage);
        }
    }
    return bytes + gradients_.bytes(std::move(counted));
}

void TorchSession::leave() {
    try {
        make_last_recipes();
    } catch (std::exception const&) {  // the trace has fewer
    }
    use_.leave();
    end_use();
}

void TorchSession::cap_this_backward() {
    bool const caps_anyway = !device_->is_host() && use_.has_owner();  // all threads, all the time
    if (caps_anyway || !capped_.first()) {
        return;
    }
    use_.begin();
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
    if (use_.is_forked()) {
        at::Tensor tensor = saved_.tensor_of(value, &hook, is_of_torch);
        TORCH_CHECK(
            tensor.defined(),
            "a saved tensor waits off the device, and this is a fork of the process that moved it; "
            "run this backward where its forward ran"
        );
        return tensor;
    }
    if (codec_choice_) {
        codec_choice_->backward_needs();
    }
    if (is_of_torch && loop_->all_on_device()) {  // nothing has left, so nothing is asked
        if (at::Tensor tensor = saved_.used_now(hook); tensor.defined()) {
            return tensor;
        }
    }
    report_backward_order();
    SavedTensors::wait_until_reported(hook);
    WithoutPythonLock without_lock(!is_of_torch && is_python_function());
    return wait_for(value, &hook, is_of_torch, without_lock);
}

/// Without Python's lock another thread may free the graph meanwhile, and the hook with it: so the
/// value is pinned, and the hook is looked for before it is used.
at::Tensor TorchSession::wait_for(
    ValueId value, SavedHook const* hook, bool is_of_torch, WithoutPythonLock& without_lock
) {
    bool const is_pinned = saved_.pin(value, hook);
    auto const unpin = c10::make_scope_exit([&] {
        if (is_pinned) {
            saved_.unpin(value);
        }
        without_lock.end();
    });
    for (;;) {
        TORCH_CHECK(
            is_pinned && saved_.has(value, hook),
            "Trying to backward through the graph a second time: another thread has freed this "
            "graph's saved tensors while this one was waiting for one of them"
        );
        // The turn that it returns keeps another thread from letting the value go.
        Result<Loop::Turn> const there =
            loop_->need(value, is_of_torch ? Loop::Use::read : Loop::Use::write);
        if (!there.ok()) {
            if (there.error().code == Errc::out_of_memory) {
                refuse(there.error().message(), refusal_of(there.error()));
            }
            if (std::exception_ptr const thrown = SavedTensors::take_thrown()) {
                std::rethrow_exception(thrown);
            }
            throw ReloadError(
                {__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                place() + ": " + there.error().message(),
                loop_->step(),
                loop_->current_phase()
            );
        }
        at::Tensor tensor = saved_.tensor_of(value, hook, is_of_torch);
        if (tensor.defined()) {
            saved_.handed_out(value, tensor);
            see_need(0);
            return tensor;
        }
    }
}

std::int64_t TorchSession::stays_bytes() const {
    OwnedBytes const bytes = owned_.bytes();
    return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}) -
           bytes[static_cast<std::size_t>(OwnedKind::gradient)];
}

void TorchSession::refuse(std::string const& why, Refusal refusal) {
    {
        MutexLock const lock(recorders_mutex_);
        planned_operators_.give_up();
    }
    bool const is_left = !use_.caps_from_open() && !use_.is_in_use();
    if (!use_.is_entered() && use_.is_in_use()) {  // a backward's error keeps its graph
        use_.lapse();
    }
    refusal.step = loop_->step();
    refusal.phase = loop_->current_phase();
    if (refusal.why != NoRoom::outer_full) {
        refusal.opened_at = opened_at_;
    }
    StepEstimate::Whole const whole =
        estimate_.whole(refusal.needed_bytes, stays_bytes(), refusal.phase);
    refusal.with_gradients_bytes = whole.with_gradients_bytes;
    refusal.with_optimizer_bytes = whole.with_optimizer_bytes;
    {
        MutexLock const lock(refusal_mutex_);
        last_refusal_ = refusal;
    }
    raise_out_of_memory(
        {.place = is_left ? "after the forward of step " + std::to_string(loop_->step()) : place(),
         .why = why,
         .estimate = whole.words(),
         .face = face_,
         .caps_from_open = use_.caps_from_open(),
         .is_left = is_left,
         .refusal = std::move(refusal)},
        *device_
    );
}

void TorchSession::make_room_until(std::int64_t size_bytes, c10::function_ref<bool()> try_once) {
    while (!try_once()) {
        TORCH_CHECK_WITH(
            OutOfMemoryError,
            !SavedTensors::is_letting_go(),
            "no room for the checksum of a value that goes"
        );
        std::int64_t const used_bytes = device_->used_bytes();
        end_idle_guards(true);
        make_recipes(true);
        if (device_->used_bytes() < used_bytes) {
            continue;  // it may have room now, which the loop could not tell from memory in pieces
        }
        Result<void> const room = loop_->make_room(device_->rounded(size_bytes));
        if (!room.ok()) {
            if (recharge() || saved_.let_recipes_go()) {
                continue;
            }
            see_need(device_->rounded(size_bytes));
            std::optional<Refusal> const of_lender = budget_.refusal(size_bytes);
            std::string const why =
                of_lender ? words_of(*of_lender, face_) : room.error().message();
            refuse(current_operator() + ' ' + why, of_lender.value_or(refusal_of(room.error())));
        }
    }
    see_need(0);
}

/// With `size_bytes` more than is allocated now.
void TorchSession::see_need(std::int64_t size_bytes) {
    auto const needed = [&](std::int64_t used_bytes) {
        return used_bytes + size_bytes - saved_.could_leave_bytes() - loop_->returning_bytes();
    };
    std::int64_t const used_bytes = device_->used_bytes();
    see_peak(used_bytes);
    std::int64_t before = needed_bytes_.load(std::memory_order_relaxed);
    if (needed(used_bytes) <= before) {
        return;
    }
    end_idle_guards(true);
    saved_.see_what_could_leave();
    std::int64_t const now = needed(device_->used_bytes());
    while (now > before && !needed_bytes_.compare_exchange_weak(before, now)) {
    }
}

/// Gradients of a backward, and of the optimizer's step after it, are not known yet.
void TorchSession::see_peak(std::int64_t used_bytes) {
    if (!peak_.wants(used_bytes)) {
        return;
    }
    DeviceNow now{
        .saved = saved_.on_device(), .read_ahead_bytes = loop_->returning_bytes() + coded_bytes_};
    {
        MutexLock const lock(owned_mutex_);
        now.owned = owned_bytes_;
    }
    now.owned[static_cast<std::size_t>(OwnedKind::optimizer_state)] += saved_.state_bytes();
    bool const is_in_backward = torch::autograd::get_current_graph_task_id() != -1;
    if (is_in_backward || loop_->current_phase() == Phase::update) {
        now.owned[static_cast<std::size_t>(OwnedKind::gradient)] = gradient_bytes();
    }
    peak_.look(used_bytes, std::move(now));
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
    std::vector<at::Tensor> const& tensors,
    std::vector<std::string> const& names,
    std::vector<OwnedKind> const& kinds
) {
    owned_.add(tensors, names, kinds);
    if (!trained_is_given_) {
        gradients_.add(tensors);
    }
    {
        OwnedBytes const bytes = owned_.bytes();
        MutexLock const lock(owned_mutex_);
        owned_bytes_ = bytes;
    }
    std::int64_t const outside_bytes = owned_.outside_bytes() + coded_bytes_;
    estimate_.own(tensors, *device_);
    std::int64_t const limit = device_->limit_bytes();
    if (limit > 0 && outside_bytes >= limit) {
        throw BadOption(
            {.code = OptionCode::below_owned,
             .option = "device_budget_bytes",
             .number = outside_bytes,
             .bound = limit}
        );
    }
    MutexLock const lock(owned_mutex_);
    ++charges_;
    charged_bytes_ = outside_bytes;
    device_->charge(outside_bytes - beyond_bytes_);
}

bool TorchSession::recharge() {
    std::uint64_t charges = 0;
    {
        MutexLock const lock(owned_mutex_);
        if (charged_bytes_ == coded_bytes_) {
            return false;
        }
        charges = charges_;
    }
    // Without the lock: the last reference to a storage may end here, which may need Python's.
    std::int64_t const outside_bytes = owned_.outside_bytes() + coded_bytes_;
    MutexLock const lock(owned_mutex_);
    if (charges != charges_ || outside_bytes >= charged_bytes_) {
        return false;
    }
    charged_bytes_ = outside_bytes;
    device_->charge(outside_bytes - beyond_bytes_);
    return true;
}

void TorchSession::allow_beyond(std::int64_t bytes) {
    MutexLock const lock(owned_mutex_);
    beyond_bytes_ = bytes;
    device_->charge(charged_bytes_ - beyond_bytes_);
}

void TorchSession::end_cap() {
    use_.end_cap();
    pool_limit_.reset();
    if (auto* const device = dynamic_cast<C10Device*>(device_.get())) {
        device->end_limit();  // there it counts what all allocate
    }
}

void TorchSession::exact(bool on) {
    if (codec_choice_) {
        codec_choice_->exact(on);
    }
}

std::optional<Refusal> TorchSession::last_refusal() {
    MutexLock const lock(refusal_mutex_);
    return last_refusal_;
}

bool TorchSession::make_room(std::int64_t size_bytes) {
    return loop_->make_room(size_bytes).ok();
}

bool TorchSession::make_room_for_another(std::int64_t size_bytes) {
    return loop_->make_room_for_another(size_bytes);
}

std::string TorchSession::place() const {
    if (loop_->current_phase() == Phase::setup) {
        return "before step " + std::to_string(loop_->step() + 1) + ", setup";
    }
    return "step " + std::to_string(loop_->step()) + ", " +
           std::string(name_of(loop_->current_phase()));
}

Report TorchSession::report() {
    budget_.trim_borrowers();
    Report report = loop_->report();
    report.passed_tensors = passed_count_.load();
    report.saved_tensors = filed_count_.load() + report.passed_tensors;
    see_need(0);
    report.device_peak_split = peak_.split(report.device_peak_bytes, [this] { return modules(); });
    report.device_needed_bytes = round_up(needed_bytes_.load(), kArenaPageBytes);
    report.refused_recipes = saved_.refused_recipes();
    return report;
}

}  // namespace spillway
