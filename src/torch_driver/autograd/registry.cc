// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/registry.h"

#include "base/assert.h"
#include "base/rules.h"
#include "torch_driver/allocator/restored_block.h"
#include "torch_driver/autograd/handed_out.h"

#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/Storage.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace spillway {

namespace {

/// What a plain strided tensor of the device carries, autograd's keys included.
c10::DispatchKeySet keys_of_plain_tensor(c10::Device device) {
    c10::InferenceMode const normal(false);
    return at::empty({0}, at::TensorOptions().device(device)).key_set();
}

Geometry geometry_of(at::Tensor const& tensor) {
    return {
        tensor.sizes().vec(),
        tensor.strides().vec(),
        tensor.storage_offset(),
        tensor.key_set(),
        tensor.dtype()};
}

at::Tensor view_of(c10::Storage storage, Geometry const& geometry) {
    c10::InferenceMode const normal(false);  // else it would have no version counter
    auto impl =
        c10::make_intrusive<c10::TensorImpl>(std::move(storage), geometry.keys, geometry.dtype);
    impl->set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
    return at::Tensor(std::move(impl));
}

}  // namespace

Registry::Registry(
    std::shared_ptr<Device> device,
    TorchPlace place,
    OwnedStorages const& owned,
    std::int64_t min_value_bytes
)
    : owner_(std::move(device)),
      device_(*owner_),
      place_(place),
      owned_(owned),
      min_value_bytes_(min_value_bytes),
      plain_keys_(keys_of_plain_tensor(place.device)) {}

/// Called with the mutex held.
Stay Registry::stay_of(at::Tensor const& tensor, c10::StorageImpl const& storage) const {
    auto const size_bytes = static_cast<std::int64_t>(storage.nbytes());
    if (tensor.key_set() != plain_keys_) {
        return storage.device() == place_.device ? Stay::no_plain_tensor : Stay::other_device;
    }
    if (storage.device() != place_.device) {
        return Stay::other_device;
    }
    if (owned_.has(storage)) {
        return Stay::owned;
    }
    if (size_bytes < min_value_bytes_) {
        return Stay::small;
    }
    if (size_bytes > place_.max_value_bytes) {
        return Stay::long_for_tier;
    }
    bool const is_ours = is_own_block(storage) && stream_is_known(storage.data());
    return is_ours ? Stay::may_leave : Stay::foreign_block;
}

/// Called with the mutex held.
void Registry::log_save(SavedHook const& hook, c10::StorageImpl const& storage, Stay stay) {
    if (!keeps_saves_) {
        return;
    }
    saves_.add(
        {.node = hook.node_number_,
         .origin = hook.origin_,
         .value = hook.value_,
         .size_bytes = static_cast<std::int64_t>(storage.nbytes()),
         .stay = stay,
         .name = stay == Stay::owned ? owned_.name_of(storage) : nullptr}
    );
}

std::string Registry::explain(
    std::string const& module, std::map<ValueId, History> const& histories
) const {
    std::lock_guard const lock(mutex_);
    return saves_.explain(module, histories);
}

/// Where streams order, a block whose stream nobody knows (allocated before the session) stays.
bool Registry::stream_is_known(void const* block) const {
    return device_.is_host() || device_.stream_of(block).valid();
}

/// Where the storage came back, its end waits for the current stream.
void Registry::add_user_here(c10::StorageImpl const& storage) const {
    if (!device_.is_host()) {
        add_user(storage.data_ptr(), stream_of_torch(device_.current_stream()));
    }
}

c10::Stream Registry::stream_of_torch(StreamId stream) const {
    return c10::Stream(c10::Stream::UNSAFE, place_.device, stream.number);
}

/// Called with the mutex held.
Slot Registry::slot_of(Origin const& origin) {
    Producer& producer = producers_[{origin.node, origin.output}];
    if (producer.name.empty()) {
        producer.name = origin.name();
    }
    return {producer.name, static_cast<std::int32_t>(origin.output), producer.saved++};
}

void Registry::begin_pass() {
    std::lock_guard const lock(mutex_);
    for (auto& [key, producer] : producers_) {
        producer.saved = 0;
    }
    saves_.begin_pass();
}

Registry::Filed Registry::file(SavedHook& hook, at::Tensor const& tensor, Fresh& fresh) {
    if (!tensor.has_storage()) {
        return Filed::passed;
    }
    c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    std::lock_guard const lock(mutex_);
    Stay const stay = stay_of(tensor, *storage);
    if (stay != Stay::may_leave) {
        log_save(hook, *storage, stay);
        return Filed::passed;
    }
    add_user_here(*storage);
    SaverClass const saver = tells_classes_ ? class_of_save(hook, tensor) : SaverClass{};
    auto const [known, is_new] = value_of_.try_emplace(storage, ValueId{next_value_});
    if (!is_new) {
        SavedValue& entry = entries_.at(known->second);
        if (entry.version == hook.saved_version_) {
            entry.hooks.push_back(&hook);
            add_stream(entry, device_.current_stream());
            hook.value_ = known->second;
            hook.filed_ = &entry;
            log_save(hook, *storage, stay);
            return file_again(entry, saver);
        }
        known->second = ValueId{next_value_};  // written in place since: another value
    }
    auto const storage_bytes = static_cast<std::int64_t>(storage->nbytes());
    bool const is_whole =
        tensor.is_non_overlapping_and_dense() &&
        tensor.numel() * static_cast<std::int64_t>(tensor.element_size()) == storage_bytes;
    fresh = {device_.rounded(storage_bytes), slot_of(hook.origin_), storage_bytes, is_whole, saver};
    hook.value_ = ValueId{next_value_++};
    hook.filed_ = &entries_[hook.value_];
    hook.filed_->hooks.push_back(&hook);
    hook.filed_->storage = storage;
    hook.filed_->version = hook.saved_version_;
    hook.filed_->storage_bytes = storage->nbytes();
    hook.filed_->size_bytes = fresh.size_bytes;
    hook.filed_->saver = saver;
    hook.filed_->user = device_.current_stream();
    StreamId const home = device_.stream_of(storage->data());
    hook.filed_->home = home.valid() ? home : hook.filed_->user;
    add_stream(*hook.filed_, hook.filed_->home);
    add_stream(*hook.filed_, hook.filed_->user);
    log_save(hook, *storage, stay);
    for (std::vector<ValueId>* const candidates : {&not_unshared_, &unseen_}) {
        candidates->push_back(hook.value_);
        if (candidates->size() > 2 * entries_.size() + 64) {  // nobody asked for long
            std::erase_if(*candidates, [this](ValueId value) {
                return entries_.count(value) == 0;
            });
        }
    }
    return Filed::fresh;
}

/// Called with the mutex held.
SaverClass Registry::class_of_save(SavedHook const& hook, at::Tensor const& tensor) const {
    return class_of(
        {tensor, hook.is_output_, hook.node_number_},
        [this](c10::StorageImpl const& storage) {
            return owned_.has(storage);
        }
    );
}

Registry::Filed Registry::file_again(SavedValue& entry, SaverClass const& saver) const {
    SaverClass const before = entry.saver;
    entry.saver = both(before, saver);
    return entry.saver == before ? Filed::known : Filed::differs;
}

std::vector<std::pair<std::string, SaverClass>> Registry::classes() const {
    std::map<ValueId, SaverClass> ordered;
    {
        std::lock_guard const lock(mutex_);
        for (auto const& [value, entry] : entries_) {
            ordered.emplace(value, entry.saver);
        }
    }
    std::vector<std::pair<std::string, SaverClass>> all;
    for (auto const& [value, saver] : ordered) {
        all.emplace_back(describe(value), saver);
    }
    return all;
}

void Registry::add_stream(SavedValue& entry, StreamId stream) const {
    if (std::find(entry.streams.begin(), entry.streams.end(), stream) == entry.streams.end()) {
        entry.streams.push_back(stream);
    }
}

/// Called with the mutex held.
void Registry::unlink_storage(ValueId value, SavedValue& entry) {
    auto const at = value_of_.find(entry.storage);
    if (at != value_of_.end() && at->second == value) {
        value_of_.erase(at);
    }
    entry.storage = nullptr;
    is_in_use(value, entry);
}

/// Called with the mutex held.
void Registry::is_in_use(ValueId value, SavedValue& entry) {
    if (std::exchange(entry.could_leave, false)) {
        could_leave_bytes_ -= entry.size_bytes;
        unseen_.push_back(value);
    }
}

void Registry::see_what_could_leave() {
    std::lock_guard const lock(mutex_);
    std::erase_if(unseen_, [this](ValueId value) {
        auto const at = entries_.find(value);
        if (at == entries_.end() || at->second.storage == nullptr || at->second.could_leave) {
            return true;
        }
        if (is_unshared(at->second)) {
            can_leave(at->second);
        }
        return at->second.could_leave;
    });
}

/// Called with the mutex held.
void Registry::can_leave(SavedValue& entry) {
    if (!std::exchange(entry.could_leave, true)) {
        could_leave_bytes_ += entry.size_bytes;
    }
}

void Registry::forget(SavedHook& hook) noexcept {
    ValueId const value = hook.value_;
    at::Tensor last;  // goes after the lock: freeing runs foreign code
    bool ended = false;
    {
        std::lock_guard const lock(mutex_);
        SavedValue& entry = *hook.filed_;
        entry.hooks.erase(std::find(entry.hooks.begin(), entry.hooks.end(), &hook));
        last = std::move(hook.kept_);
        if (entry.hooks.empty()) {
            unlink_storage(value, entry);
        }
        ended = entry.hooks.empty() && entry.pins == 0;
        if (ended) {
            entries_.erase(value);
        }
    }
    last.reset();
    if (ended) {
        on_dropped(value);
    }
}

bool Registry::pin(ValueId value, SavedHook const* hook) {
    std::lock_guard const lock(mutex_);
    auto const at = entries_.find(value);
    if (at == entries_.end() || !has_hook(at->second, hook)) {
        return false;
    }
    ++at->second.pins;
    return true;
}

void Registry::unpin(ValueId value) noexcept {
    {
        std::lock_guard const lock(mutex_);
        SavedValue& entry = entries_.at(value);
        if (--entry.pins > 0 || !entry.hooks.empty()) {
            return;
        }
        entries_.erase(value);
    }
    on_dropped(value);
}

bool Registry::has(ValueId value, SavedHook const* hook) const {
    std::lock_guard const lock(mutex_);
    auto const at = entries_.find(value);
    return at != entries_.end() && has_hook(at->second, hook);
}

bool Registry::has_hook(SavedValue const& entry, SavedHook const* hook) {
    return std::find(entry.hooks.begin(), entry.hooks.end(), hook) != entry.hooks.end();
}

at::Tensor Registry::tensor_of(ValueId value, SavedHook const* hook, bool is_of_torch) const {
    std::lock_guard const lock(mutex_);
    auto const at = entries_.find(value);
    if (at == entries_.end() || !has_hook(at->second, hook) || !hook->kept_.defined()) {
        return {};
    }
    return is_of_torch && hook->is_wrapped() ? hook->kept_ : alias_of(hook->kept_);
}

at::Tensor Registry::shape_of(SavedHook const& hook) const {
    std::lock_guard const lock(mutex_);
    if (hook.kept_.defined()) {
        return hook.kept_;
    }
    c10::DataPtr nothing(nullptr, place_.device);
    return view_of(
        c10::Storage(c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), 0, std::move(nothing), nullptr, false
        )),
        *hook.geometry_
    );
}

bool Registry::is_view_of(SavedHook const& hook, at::Tensor const& tensor) const {
    std::lock_guard const lock(mutex_);
    auto const same = [&tensor](auto const& sizes, auto const& strides, std::int64_t offset) {
        return tensor.sizes() == c10::IntArrayRef(sizes) &&
               tensor.strides() == c10::IntArrayRef(strides) && tensor.storage_offset() == offset;
    };
    at::Tensor const& kept = hook.kept_;
    if (kept.defined()) {
        bool const has_view = kept.layout() == c10::kStrided && !kept.is_nested() &&
                              !kept.key_set().has(c10::DispatchKey::Python);
        return kept.is_same(tensor) || !has_view ||
               (kept.dtype() == tensor.dtype() &&
                same(kept.sizes(), kept.strides(), kept.storage_offset()));
    }
    Geometry const& away = *hook.geometry_;
    return away.dtype == tensor.dtype() && same(away.sizes, away.strides, away.offset);
}

/// A storage's block may become another one: when it is resized, goes to shared memory, or is to be
/// copied on a write.
bool Registry::has_own_block(SavedValue const& entry) const {
    return entry.storage->nbytes() == entry.storage_bytes && is_own_block(*entry.storage);
}

bool Registry::is_own_block(c10::StorageImpl const& storage) const {
    c10::DataPtr const& data = storage.data_ptr();
    bool const is_whole = data.get_deleter() == place_.free_block || is_restored(data);
    return is_whole && device_.owns(data.get());
}

/// Only our aliases refer to the storage. Called with the mutex held.
bool Registry::is_unshared(SavedValue const& entry) const {
    return entry.storage != nullptr && !entry.hooks.empty() &&
           references_but_an_idle_wrapper(*entry.storage) == entry.hooks.size() &&
           has_own_block(entry);
}

std::vector<ValueId> Registry::newly_unshared(std::size_t at_most) {
    std::vector<ValueId> unshared;
    std::lock_guard const lock(mutex_);
    std::size_t const looks = std::min(at_most, not_unshared_.size());
    for (std::size_t look = 0; look < looks && !not_unshared_.empty(); ++look) {
        if (next_candidate_ >= not_unshared_.size()) {
            next_candidate_ = 0;
        }
        auto const at = not_unshared_.begin() + static_cast<std::ptrdiff_t>(next_candidate_);
        auto const entry = entries_.find(*at);
        if (entry == entries_.end()) {
            not_unshared_.erase(at);
        } else if (is_unshared(entry->second)) {
            unshared.push_back(*at);
            can_leave(entry->second);
            not_unshared_.erase(at);
        } else {
            ++next_candidate_;
        }
    }
    return unshared;
}

void Registry::handed_out(ValueId value, at::Tensor const& tensor) {
    std::lock_guard const lock(mutex_);
    auto const entry = entries_.find(value);
    if (entry != entries_.end()) {
        is_in_use(value, entry->second);
    }
    if (!device_.is_host() && entry != entries_.end()) {
        add_stream(entry->second, device_.current_stream());
        add_user_here(*tensor.storage().unsafeGetStorageImpl());
    }
    if (std::find(not_unshared_.begin(), not_unshared_.end(), value) == not_unshared_.end()) {
        not_unshared_.push_back(value);
    }
}

void Registry::used_now(ValueId value) {
    std::lock_guard const lock(mutex_);
    auto const entry = entries_.find(value);
    if (entry == entries_.end()) {
        return;
    }
    is_in_use(value, entry->second);
    if (!device_.is_host()) {
        add_stream(entry->second, device_.current_stream());
        if (entry->second.storage != nullptr) {
            add_user_here(*entry->second.storage);
        }
    }
}

std::vector<ValueId> Registry::in_order(
    std::unordered_map<std::uint64_t, std::size_t> const& rank_of_node
) const {
    std::vector<std::pair<std::size_t, ValueId>> ranked;
    {
        std::lock_guard const lock(mutex_);
        for (auto const& [value, entry] : entries_) {
            std::size_t first = SIZE_MAX;
            for (SavedHook const* const hook : entry.hooks) {
                auto const rank = rank_of_node.find(hook->node_number_);
                first = rank == rank_of_node.end() ? first : std::min(first, rank->second);
            }
            if (first != SIZE_MAX) {
                ranked.emplace_back(first, value);
            }
        }
    }
    std::sort(ranked.begin(), ranked.end());
    std::vector<ValueId> values;
    values.reserve(ranked.size());
    for (auto const& [rank, value] : ranked) {
        values.push_back(value);
    }
    return values;
}

HeldBytes Registry::bytes_of(ValueId value) {
    std::lock_guard const lock(mutex_);
    auto const at = entries_.find(value);
    if (at == entries_.end() || at->second.storage == nullptr || at->second.hooks.empty()) {
        return {};
    }
    c10::Storage storage = at->second.hooks.front()->kept_.storage();
    if (!has_own_block(at->second)) {
        return {};  // resized since, as FSDP does between uses: its owner fills it again
    }
    // Not `mutable_data`, which may allocate.
    auto* const first = static_cast<std::byte*>(const_cast<void*>(storage.data()));
    // In place a block moves whole, for direct I/O; what a copy moves is what torch asked for.
    auto const count = device_.is_host() ? static_cast<std::size_t>(at->second.size_bytes)
                                         : at->second.storage_bytes;
    std::shared_ptr<c10::Storage> owner(
        new c10::Storage(std::move(storage)),
        [wrapped = wrapped_](c10::Storage* held) {
            wrapped->let_go(std::move(*held));
            delete held;
        }
    );
    return {
        {first, count}, std::move(owner), {at->second.streams.begin(), at->second.streams.end()}};
}

StreamId Registry::stream_of(ValueId value) {
    std::lock_guard const lock(mutex_);
    auto const at = entries_.find(value);
    if (at == entries_.end() || !keeps(Rule::target_belongs_to_its_stream)) {
        return device_.current_stream();
    }
    return at->second.user;
}

/// The block is freed on its own stream: that one waits for the others that use it. Called with the
/// mutex held.
void Registry::order_users(SavedValue& entry) {
    for (std::size_t i = 1; i < entry.streams.size(); ++i) {
        if (keeps(Rule::drop_waits_for_every_user)) {
            device_.wait(entry.streams.front(), device_.record(entry.streams[i]));
        }
    }
    entry.streams = {entry.user};  // of the block that it comes back in
}

void Registry::drop(ValueId value) {
    std::vector<at::Tensor> going;  // freed after the lock
    c10::Storage storage;
    {
        std::lock_guard const lock(mutex_);
        auto const at = entries_.find(value);
        if (at == entries_.end() || at->second.hooks.empty()) {
            return;
        }
        order_users(at->second);
        storage = at->second.hooks.front()->kept_.storage();
        for (SavedHook* const hook : at->second.hooks) {
            hook->geometry_ = std::make_unique<Geometry>(geometry_of(hook->kept_));
            going.push_back(std::move(hook->kept_));
        }
        unlink_storage(value, at->second);
    }
    going.clear();
    wrapped_->let_go(std::move(storage));
}

/// What a storage holds that comes back for `user`. A program may use it on the stream that had it
/// first, `home`, as that is where plain training frees it.
c10::DataPtr Registry::block_of(void* memory, StreamId user, StreamId home) const {
    if (device_.is_host()) {
        return {memory, memory, place_.free_block, place_.device};
    }
    c10::DataPtr data = restored_block(owner_, memory, stream_of_torch(user));
    add_user(data, stream_of_torch(home));
    return data;
}

void Registry::bind(ValueId value, void* memory) {
    c10::DataPtr data;  // freed after the lock, where the last hook died meanwhile
    std::lock_guard const lock(mutex_);
    auto const at = entries_.find(value);
    if (at == entries_.end() || at->second.hooks.empty()) {
        StreamId const own = device_.stream_of(memory);
        data = block_of(memory, own, own);
        return;
    }
    SavedValue& entry = at->second;
    data = block_of(memory, entry.user, entry.home);
    // As torch makes them: a program may resize what it unpacked.
    c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(),
        entry.storage_bytes,
        std::move(data),
        c10::GetAllocator(place_.device.type()),
        true
    ));
    entry.storage = storage.unsafeGetStorageImpl();
    unseen_.push_back(value);
    value_of_.insert_or_assign(entry.storage, value);  // a backward that records may save it again
    for (SavedHook* const hook : entry.hooks) {
        hook->kept_ = view_of(storage, *hook->geometry_);
        hook->geometry_.reset();
        // Writes to what backward is given must be seen by a second unpack.
        hook->kept_.unsafeGetTensorImpl()->set_version_counter(hook->version_);
    }
}

std::string Registry::describe(ValueId value) const {
    std::lock_guard const lock(mutex_);
    auto const at = entries_.find(value);
    if (at == entries_.end() || at->second.hooks.empty()) {
        return "a saved tensor";
    }
    SavedHook const& hook = *at->second.hooks.front();
    Geometry const shape = hook.kept_.defined() ? geometry_of(hook.kept_) : *hook.geometry_;
    std::ostringstream out;
    out << "the saved tensor " << c10::IntArrayRef(shape.sizes) << ' ' << shape.dtype.name()
        << " of " << hook.origin_.name();
    return out.str();
}

}  // namespace spillway
