// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/saved_tensors.h"

#include "base/ordering_rules.h"
#include "session/state_slot.h"
#include "torch_driver/autograd/handed_out.h"
#include "torch_driver/origin/maker.h"
#include "torch_driver/python/python_state.h"
#include "torch_driver/recorder/observer.h"

#include <c10/core/Storage.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

namespace spillway {

namespace {

SavedElements elements_of(c10::ScalarType dtype) {
    return dtype == c10::ScalarType::Bool      ? SavedElements::booleans
           : c10::isIntegralType(dtype, false) ? SavedElements::integers
                                               : SavedElements::numbers;
}

}  // namespace

SavedTensors::SavedTensors(
    DeviceBlocks const& blocks, OwnedStorages const& owned, std::int64_t min_value_bytes
)
    : blocks_(blocks),
      owned_(owned),
      eligibility_(blocks, owned, min_value_bytes),
      state_([this](SavedValue const& entry)
                 SPILLWAY_REQUIRES(mutex_) { return is_unshared(entry); }) {}

void SavedTensors::begin_pass() {
    log_.begin_pass();
    MutexLock const lock(mutex_);
    state_.slots.begin_pass();
}

SavedTensors::Filed SavedTensors::file(SavedHook& hook, at::Tensor const& tensor, Fresh& fresh) {
    c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    blocks_.add_current_user(*storage);
    SaverClass const saver = classifies_ ? class_of_save(hook, tensor) : SaverClass{};
    Filed filed = Filed::fresh;
    {
        MutexLock const lock(mutex_);
        auto* const known = state_.values.in(storage);
        if (known != nullptr && known->second.version == hook.saved_version_) {
            SavedValue& entry = known->second;
            add_hook(hook, *known);
            SaverClass const before = std::exchange(entry.saver, both(entry.saver, saver));
            filed = entry.saver == before ? Filed::known : Filed::differs;
            fresh.saver = saver;
        } else {  // where it is known it was written in place since: another value
            fresh = add_value(hook, tensor, saver);
        }
    }
    log_save(hook, tensor, Stay::may_leave);
    return filed;
}

void SavedTensors::add_hook(SavedHook& hook, std::pair<ValueId const, SavedValue>& filed) const {
    filed.second.hooks.push_back(&hook);
    filed.second.add_stream(blocks_.device().current_stream());
    hook.value_ = filed.first;
    hook.filed_ = &filed.second;
}

std::pair<ValueId const, SavedValue>& SavedTensors::add_entry(
    SavedHook& hook, at::Tensor const& tensor
) {
    c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    Device const& device = blocks_.device();
    auto& filed = state_.values.add(storage);
    SavedValue& entry = filed.second;
    entry.version = hook.saved_version_;
    entry.storage_bytes = storage->nbytes();
    entry.size_bytes = device.rounded(static_cast<std::int64_t>(storage->nbytes()));
    entry.user = device.current_stream();
    StreamId const home = device.stream_of(storage->data());
    entry.home = home.valid() ? home : entry.user;
    entry.add_stream(entry.home);
    add_hook(hook, filed);
    state_.unshared.add(filed.first);
    return filed;
}

SavedTensors::Fresh SavedTensors::add_value(
    SavedHook& hook, at::Tensor const& tensor, SaverClass const& saver
) {
    auto const storage_bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
    bool const is_whole =
        tensor.is_non_overlapping_and_dense() &&
        tensor.numel() * static_cast<std::int64_t>(tensor.element_size()) == storage_bytes;
    auto& filed = add_entry(hook, tensor);
    SavedValue& entry = filed.second;
    entry.saver = saver;
    if (CallRecorder* const recorder = recorder_here()) {
        auto const content = recorder->saved(tensor, filed.first, hook.is_output_);
        entry.content = content;
        add_unmade(*recorder, content);
    }
    return {entry.size_bytes, state_.slots.next(hook.origin_), storage_bytes, is_whole, saver};
}

SavedTensors::Fresh SavedTensors::file_state(SavedHook& hook, at::Tensor const& state) {
    blocks_.add_current_user(*state.storage().unsafeGetStorageImpl());
    MutexLock const lock(mutex_);
    SavedValue& entry = add_entry(hook, state).second;
    entry.is_state = true;
    Fresh fresh;
    fresh.size_bytes = entry.size_bytes;
    fresh.slot.producer = kOptimizerState;
    fresh.storage_bytes = static_cast<std::int64_t>(entry.storage_bytes);
    return fresh;
}

SaverClass SavedTensors::class_of_save(SavedHook const& hook, at::Tensor const& tensor) const {
    return class_of(
        {tensor, hook.is_output_, hook.node_number_},
        [this](c10::StorageImpl const& storage) { return owned_.has(storage); }
    );
}

void SavedTensors::log_save(SavedHook const& hook, at::Tensor const& tensor, Stay stay) {
    if (!log_.is_kept() || !tensor.has_storage()) {
        return;
    }
    Maker const maker = hook.is_output_ ? Maker{.origin = hook.origin_} : maker_of(tensor);
    c10::StorageImpl const& storage = *tensor.storage().unsafeGetStorageImpl();
    // What an operator made is nobody's, so that is not asked of all.
    bool const may_be_owned = maker.leaf != nullptr || maker.origin.node == nullptr;
    Stay const reason = may_be_owned ? reason_of(stay, storage) : stay;
    bool const is_of_leaf = reason != Stay::owned && maker.leaf != nullptr;
    bool const has_name = reason == Stay::owned || is_of_leaf;
    log_.add(
        {.node = hook.node_number_,
         .maker = maker.origin,
         .is_output = hook.is_output_,
         .is_cast = maker.is_cast,
         .elements = elements_of(tensor.scalar_type()),
         .value = hook.value_,
         .size_bytes = static_cast<std::int64_t>(storage.nbytes()),
         .stay = reason,
         .name = has_name ? owned_.name_of(is_of_leaf ? *maker.leaf : storage) : nullptr,
         .python_class = reason == Stay::python_class ? python_class_name(tensor) : std::string()},
        running_operators()
    );
}

void SavedTensors::log_kept_whole(SavedHook const& hook, at::Tensor const& tensor, Stay stay) {
    // A tracer's may have a size that is no number.
    if (!log_.is_kept() || !tensor.has_storage() ||
        tensor.storage().sym_nbytes().is_heap_allocated()) {
        return;
    }
    Stay const reason = reason_of(stay, *tensor.storage().unsafeGetStorageImpl());
    bool const says_more = reason == Stay::other_device || reason == Stay::owned;
    log_save(hook, tensor, says_more || !is_python_subclass(tensor) ? reason : Stay::python_class);
}

Stay SavedTensors::reason_of(Stay stay, c10::StorageImpl const& storage) const {
    bool const is_here = stay != Stay::no_plain_tensor && stay != Stay::other_device;
    return is_here && owned_.has(storage) ? Stay::owned : stay;
}

std::vector<std::pair<std::string, SaverClass>> SavedTensors::classes() const {
    std::map<ValueId, SaverClass> ordered;
    {
        MutexLock const lock(mutex_);
        for (auto const& [value, entry] : state_.values) {
            ordered.emplace(value, entry.saver);
        }
    }
    std::vector<std::pair<std::string, SaverClass>> all;
    for (auto const& [value, saver] : ordered) {
        all.emplace_back(describe(value), saver);
    }
    return all;
}

void SavedTensors::unbind(ValueId value, SavedValue& entry) {
    state_.values.unbind(value);
    state_.unshared.is_in_use(value, entry);
}

std::vector<std::pair<ValueId, std::int64_t>> SavedTensors::on_device() const {
    std::vector<std::pair<ValueId, std::int64_t>> all;
    MutexLock const lock(mutex_);
    all.reserve(state_.values.size());
    for (auto const& [value, entry] : state_.values) {
        if (entry.storage != nullptr && !entry.is_state) {
            all.emplace_back(value, entry.size_bytes);
        }
    }
    return all;
}

std::int64_t SavedTensors::state_bytes() const {
    std::int64_t bytes = 0;
    MutexLock const lock(mutex_);
    for (auto const& [value, entry] : state_.values) {
        bytes += entry.storage != nullptr && entry.is_state ? entry.size_bytes : 0;
    }
    return bytes;
}

void SavedTensors::see_what_could_leave() {
    MutexLock const lock(mutex_);
    state_.unshared.see_all();
}

void SavedTensors::forget(SavedHook& hook) noexcept {
    ValueId const value = hook.value_;
    at::Tensor last;  // goes after the lock: freeing runs foreign code
    Ending ending;
    {
        MutexLock const lock(mutex_);
        SavedValue& entry = *hook.filed_;
        entry.hooks.erase(std::find(entry.hooks.begin(), entry.hooks.end(), &hook));
        last = std::move(hook.kept_);
        if (entry.hooks.empty() && entry.recipe_pins > 0 && last.defined()) {
            entry.held = last.storage();
        } else if (entry.hooks.empty()) {
            unbind(value, entry);
        }
        (void)end_if_unused(value, entry, ending);
    }
    last.reset();
    end(std::move(ending));
}

void SavedTensors::list_passed(SavedHook& hook) {
    MutexLock const lock(mutex_);
    if (hook.is_itself_) {  // which has not asked for what it could be found by
        hook.original_ = decltype(hook.original_)(hook.kept_.getIntrusivePtr());
        hook.storage_ = hook.kept_.storage().getWeakStorageImpl();
    }
    hook.passed_at_ = state_.passed.size();
    state_.passed.push_back(&hook);
}

void SavedTensors::forget_passed(SavedHook& hook) noexcept {
    MutexLock const lock(mutex_);
    SavedHook* const last = state_.passed.back();
    state_.passed[hook.passed_at_] = last;
    last->passed_at_ = hook.passed_at_;
    state_.passed.pop_back();
}

std::vector<SavedHook*> SavedTensors::hooks_of(c10::TensorImpl const* saved) const {
    std::vector<SavedHook*> found;
    auto const add = [&](SavedHook* hook) {
        if (hook->original_._unsafe_get_target() == saved) {
            found.push_back(hook);
        }
    };
    for (auto const& [value, entry] : state_.values) {
        std::for_each(entry.hooks.begin(), entry.hooks.end(), add);
    }
    std::for_each(state_.passed.begin(), state_.passed.end(), add);
    return found;
}

bool SavedTensors::has_saved(c10::TensorImpl const* saved) const {
    MutexLock const lock(mutex_);
    return !hooks_of(saved).empty();
}

void SavedTensors::data_was_replaced(
    c10::TensorImpl const* saved,
    at::Tensor const& now,
    std::vector<at::Tensor>& ended,
    std::vector<std::shared_ptr<HandedOut>>& handed_out
) {
    MutexLock const lock(mutex_);
    for (SavedHook* const hook : hooks_of(saved)) {
        // What was saved may be back.
        bool const is_saved =
            now.has_storage() &&
            now.storage().unsafeGetStorageImpl() == hook->storage_._unsafe_get_target() &&
            is_view_of_saved(*hook, now);
        ended.push_back(std::exchange(hook->replaced_by_, is_saved ? at::Tensor() : now));
        if (std::shared_ptr<HandedOut> out = hook->handed_out_.load(); out != nullptr) {
            handed_out.push_back(std::move(out));
        }
    }
}

bool SavedTensors::pin(ValueId value, SavedHook const* hook) {
    MutexLock const lock(mutex_);
    SavedValue* const entry = state_.values.find(value);
    if (entry == nullptr || !entry->has(hook)) {
        return false;
    }
    ++entry->pins;
    if (entry->content) {
        entry->content->is_needed();
    }
    return true;
}

void SavedTensors::unpin(ValueId value) noexcept {
    Ending ending;
    {
        MutexLock const lock(mutex_);
        SavedValue& entry = *state_.values.find(value);
        --entry.pins;
        (void)end_if_unused(value, entry, ending);
    }
    end(std::move(ending));
}

bool SavedTensors::has(ValueId value, SavedHook const* hook) const {
    MutexLock const lock(mutex_);
    SavedValue const* const entry = state_.values.find(value);
    return entry != nullptr && entry->has(hook);
}

at::Tensor SavedTensors::tensor_of(ValueId value, SavedHook const* hook, bool is_of_torch) const {
    MutexLock const lock(mutex_);
    SavedValue const* const entry = state_.values.find(value);
    if (entry == nullptr || !entry->has(hook) || !hook->kept_.defined()) {
        return {};
    }
    return is_of_torch && hook->is_wrapped() ? hook->kept_ : alias_of(hook->kept_);
}

at::Tensor SavedTensors::shape_of(SavedHook const& hook) const {
    MutexLock const lock(mutex_);
    return hook.kept_.defined() ? hook.kept_
                                : without_bytes(*hook.geometry_, blocks_.place().device);
}

bool SavedTensors::is_view_of(SavedHook const& hook, at::Tensor const& tensor) const {
    MutexLock const lock(mutex_);
    return is_view_of_saved(hook, tensor);
}

bool SavedTensors::is_view_of_saved(SavedHook const& hook, at::Tensor const& tensor) const {
    return hook.kept_.defined() ? has_geometry_of(tensor, hook.kept_)
                                : has_geometry(tensor, *hook.geometry_);
}

/// As it was when it was saved. FSDP resizes storages between uses.
bool SavedTensors::has_own_block(SavedValue const& entry) const {
    return entry.storage->nbytes() == entry.storage_bytes && blocks_.is_block_of(*entry.storage);
}

/// Only our aliases refer to the storage. Of a value on the device.
bool SavedTensors::is_unshared(SavedValue const& entry) const {
    std::size_t const ours = entry.held ? 1 : entry.hooks.size();
    return ours > 0 && references_but_an_idle_wrapper(*entry.storage) == ours &&
           has_own_block(entry);
}

std::vector<ValueId> SavedTensors::newly_unshared(std::size_t at_most) {
    MutexLock const lock(mutex_);
    return state_.unshared.newly_unshared(at_most);
}

void SavedTensors::handed_out(ValueId value, at::Tensor const& tensor) {
    MutexLock const lock(mutex_);
    if (SavedValue* const entry = state_.values.find(value); entry != nullptr) {
        state_.unshared.is_in_use(value, *entry);
        use_on_current_stream(*entry, *tensor.storage().unsafeGetStorageImpl());
    }
    state_.unshared.handed_out(value);
}

/// What a recipe made is there when its work has been done, in the order of that stream alone.
void SavedTensors::use_on_current_stream(SavedValue& entry, c10::StorageImpl const& storage) const {
    StreamId const current = blocks_.device().current_stream();
    entry.add_stream(current);
    blocks_.add_current_user(storage);
    if (keeps(OrderingRule::users_wait_for_the_recompute)) {
        blocks_.order(entry.made_on, current);
    }
}

at::Tensor SavedTensors::used_now(SavedHook const& hook) {
    MutexLock const lock(mutex_);
    if (!hook.kept_.defined()) {
        return {};
    }
    SavedValue& entry = *hook.filed_;
    state_.unshared.is_in_use(hook.value_, entry);
    if (entry.content) {
        entry.content->is_needed();
    }
    use_on_current_stream(entry, *entry.storage);
    return hook.is_wrapped() ? hook.kept_ : alias_of(hook.kept_);
}

std::vector<ValueId> SavedTensors::in_order(
    std::unordered_map<std::uint64_t, std::size_t> const& rank_of_node
) const {
    std::vector<std::pair<std::size_t, ValueId>> ranked;
    {
        MutexLock const lock(mutex_);
        ranked = state_.values.ranked(rank_of_node);
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<ValueId> values;
    values.reserve(ranked.size());
    for (auto const& [rank, value] : ranked) {
        values.push_back(value);
    }
    return values;
}

HeldBytes SavedTensors::bytes_of(ValueId value) {
    MutexLock const lock(mutex_);
    SavedValue const* const entry = state_.values.find(value);
    c10::Storage storage = entry == nullptr ? c10::Storage() : storage_of(*entry);
    if (!storage || !has_own_block(*entry)) {
        return {};  // its owner fills it again
    }
    // Not `mutable_data`, which may allocate.
    auto* const first = static_cast<std::byte*>(const_cast<void*>(storage.data()));
    // In place a block moves whole, for direct I/O; what a copy moves is what torch asked for.
    auto const count = blocks_.device().is_host() ? static_cast<std::size_t>(entry->size_bytes)
                                                  : entry->storage_bytes;
    std::shared_ptr<c10::Storage> owner(
        new c10::Storage(std::move(storage)),
        [wrapped = wrapped_](c10::Storage* held) {
            wrapped->let_go(std::move(*held));
            delete held;
        }
    );
    return {{first, count}, std::move(owner), {entry->streams.begin(), entry->streams.end()}};
}

StreamId SavedTensors::stream_of(ValueId value) {
    MutexLock const lock(mutex_);
    SavedValue const* const entry = state_.values.find(value);
    if (entry == nullptr || !keeps(OrderingRule::target_belongs_to_its_stream)) {
        return blocks_.device().current_stream();
    }
    return entry->user;
}

void SavedTensors::drop(ValueId value) {
    std::vector<at::Tensor> going;  // freed after the lock
    c10::Storage storage;
    {
        MutexLock const lock(mutex_);
        SavedValue* const entry = state_.values.find(value);
        if (entry == nullptr || !storage_of(*entry)) {
            return;
        }
        blocks_.wait_for_all(entry->streams);  // the block is freed on its own stream
        entry->streams = {entry->user};        // of the block that it comes back in
        entry->made_on = {};
        storage = storage_of(*entry);
        entry->held = c10::Storage();
        for (SavedHook* const hook : entry->hooks) {
            hook->geometry_ = std::make_unique<Geometry>(geometry_of(hook->kept_));
            going.push_back(std::move(hook->kept_));
        }
        unbind(value, *entry);
    }
    going.clear();
    wrapped_->let_go(std::move(storage));
}

void SavedTensors::bind(ValueId value, void* memory) {
    c10::DataPtr data;  // freed after the lock, where the last hook died meanwhile
    MutexLock const lock(mutex_);
    SavedValue* const entry = state_.values.find(value);
    if (entry == nullptr || (entry->hooks.empty() && entry->recipe_pins == 0)) {
        StreamId const own = blocks_.device().stream_of(memory);
        data = blocks_.data_of(memory, own, own);
        return;
    }
    c10::Storage const storage =
        blocks_.storage_of(blocks_.data_of(memory, entry->user, entry->home), entry->storage_bytes);
    put_back(value, *entry, storage);
}

void SavedTensors::put_back(ValueId value, SavedValue& entry, c10::Storage const& storage) {
    state_.values.bind(value, storage.unsafeGetStorageImpl());  // a backward may save it again
    state_.unshared.came_back(value);
    if (entry.hooks.empty()) {
        entry.held = storage;
    }
    for (SavedHook* const hook : entry.hooks) {
        hook->kept_ = view_of(storage, *hook->geometry_);
        hook->geometry_.reset();
        // Writes to what backward is given must be seen by a second unpack.
        hook->kept_.unsafeGetTensorImpl()->set_version_counter(hook->version_);
    }
}

std::string SavedTensors::describe(ValueId value) const {
    MutexLock const lock(mutex_);
    SavedValue const* const entry = state_.values.find(value);
    if (entry == nullptr || entry->hooks.empty()) {
        return "a saved tensor";
    }
    SavedHook const& hook = *entry->hooks.front();
    Geometry const shape = hook.kept_.defined() ? geometry_of(hook.kept_) : *hook.geometry_;
    std::ostringstream out;
    out << (entry->is_state ? "an optimizer's state " : "the saved tensor ")
        << c10::IntArrayRef(shape.sizes) << ' ' << shape.dtype.name();
    if (!entry->is_state) {
        out << ", " << hook.origin_.words();
    }
    return out.str();
}

}  // namespace spillway
