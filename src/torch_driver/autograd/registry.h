// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which storages hold which values: a storage that several nodes save, under any view, is one value
// and moves once. Also the loop's driver: turns commands on values into storages and tensors.
#pragma once

#include "base/ids.h"
#include "memory/device.h"
#include "session/driver.h"
#include "torch_driver/allocator/storage_wrapper.h"
#include "torch_driver/autograd/save_log.h"
#include "torch_driver/autograd/saved_hook.h"
#include "torch_driver/autograd/tensor_classes.h"
#include "torch_driver/device/session_device.h"
#include "torch_driver/states/owned_storages.h"
#include "trace/slot.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

/// One value in the registry: the hooks that stand for it and the storage that holds it.
struct SavedValue {
    c10::SmallVector<SavedHook*, 2> hooks;
    c10::StorageImpl* storage = nullptr;  ///< alive while a hook keeps an alias; else null
    std::uint32_t version = 0;
    std::size_t storage_bytes = 0;  ///< as torch asked
    std::int64_t size_bytes = 0;    ///< as the device rounded
    /// That may use the bytes: first the one that they were allocated on, then those that saved.
    c10::SmallVector<StreamId, 2> streams;
    StreamId home;                   ///< the stream that its first block was allocated on
    StreamId user;                   ///< the stream that saved it first, and will ask for it
    int pins = 0;                    ///< it outlives its last hook while there is one
    std::atomic<bool> told = false;  ///< the loop knows it
    bool could_leave = false;        ///< nothing else held it when that was looked at last
    SaverClass saver;                ///< what all savers agree on, where classes are told
};

/// Thread  any; one mutex, never held while torch allocates
class Registry final : public Driver {
  public:
    /// What is in `owned`, which outlives it, is not moved.
    Registry(
        std::shared_ptr<Device> device,
        TorchPlace place,
        OwnedStorages const& owned,
        std::int64_t min_value_bytes
    );

    /// What became of a tensor that was saved.
    enum class Filed : std::uint8_t {
        passed,   ///< not eligible: kept as plain autograd keeps it
        known,    ///< one more hook of a value that was saved before
        differs,  ///< the same, and its savers' class is from now on another
        fresh,    ///< a new value
    };
    /// What the loop is told of a new value.
    struct Fresh {
        std::int64_t size_bytes = 0;  ///< as the device rounds
        Slot slot;
        std::int64_t storage_bytes = 0;  ///< as torch asked
        bool is_whole = false;           ///< the tensor has every element of its storage
        SaverClass saver;                ///< where classes are told
    };

    /// A forward begins: slots are counted afresh.
    void begin_pass();

    /// SaveLog::explain; what is told there is kept from now on.
    void keep_saves() { keeps_saves_ = true; }
    [[nodiscard]] std::string explain(
        std::string const& module, std::map<ValueId, History> const& histories
    ) const;

    /// From now on values have the class of their savers, at the cost of a look at each save.
    void tell_classes() { tells_classes_ = true; }
    /// Of values that live, in the order in which they were saved first. For tests.
    [[nodiscard]] std::vector<std::pair<std::string, SaverClass>> classes() const;

    /// Files the hook, which keeps `tensor`'s alias, under its storage's value if the tensor may be
    /// moved: a plain strided tensor, no subclass, large enough, on a storage that the
    /// session's device allocated and that is no parameter's, buffer's or gradient's.
    [[nodiscard]] Filed file(SavedHook& hook, at::Tensor const& tensor, Fresh& fresh);
    /// A hook dies. Its value ends with its last hook.
    void forget(SavedHook& hook) noexcept;
    /// The tensor that a hook stands for; undefined while the value is away, and where the hook is
    /// none of the value's any more. What others than torch's own nodes see is a fresh alias: while
    /// that lives, the value is not unshared.
    [[nodiscard]] at::Tensor tensor_of(ValueId value, SavedHook const* hook, bool is_of_torch)
        const;
    /// Of a strided tensor on the session's device without further dispatch keys.
    [[nodiscard]] bool is_plain(at::Tensor const& tensor) const {
        return tensor.key_set() == plain_keys_;
    }

    /// Keeps the value until `unpin`, also when its last hook goes meanwhile. False: it has gone.
    [[nodiscard]] bool pin(ValueId value, SavedHook const* hook);
    void unpin(ValueId value) noexcept;
    [[nodiscard]] bool has(ValueId value, SavedHook const* hook) const;

    /// The loop knows the hook's value: it can be asked for.
    static void told(SavedHook const& hook) { hook.filed_->told = true; }
    [[nodiscard]] static bool is_told(SavedHook const& hook) { return hook.filed_->told; }

    /// What ended only for want of Python's lock ends now.
    void let_wrappers_end() { wrapped_->clear(); }

    /// A tensor of the saved one's type and sizes, whose bytes may be missing.
    [[nodiscard]] at::Tensor shape_of(SavedHook const& hook) const;

    /// `tensor` has the saved one's type, sizes, strides and offset.
    [[nodiscard]] bool is_view_of(SavedHook const& hook, at::Tensor const& tensor) const;

    /// `tensor`, of the value, is handed out to the current stream: whether the value is unshared
    /// has to be seen again, and the block that it came back in is freed after this stream's use.
    void handed_out(ValueId value, at::Tensor const& tensor);

    /// The current stream uses the value from now on, where it is on the device.
    void used_now(ValueId value);

    /// Device bytes that could leave, as far as was seen; `see_what_could_leave` looks again.
    [[nodiscard]] std::int64_t could_leave_bytes() const {
        return could_leave_bytes_.load(std::memory_order_relaxed);
    }
    void see_what_could_leave();

    /// Values in the order in which their nodes run; values of other nodes are left out.
    [[nodiscard]] std::vector<ValueId> in_order(
        std::unordered_map<std::uint64_t, std::size_t> const& rank_of_node
    ) const;

    /// Called when a value's last hook is gone, with no lock held.
    std::function<void(ValueId)> on_dropped;
    /// Driver::borrow.
    std::function<bool(std::int64_t, bool)> on_short;

    HeldBytes bytes_of(ValueId value) override;
    [[nodiscard]] StreamId stream_of(ValueId value) override;
    void drop(ValueId value) override;
    void bind(ValueId value, void* memory) override;
    [[nodiscard]] std::vector<ValueId> newly_unshared(std::size_t at_most) override;
    [[nodiscard]] bool borrow(std::int64_t size_bytes, bool last_resort) override {
        return on_short(size_bytes, last_resort);
    }
    [[nodiscard]] std::string describe(ValueId value) const override;

  private:
    /// What saves values: a node's output.
    struct Producer {
        std::string name;
        std::int32_t saved = 0;  ///< values since the pass began
    };

    [[nodiscard]] Stay stay_of(at::Tensor const& tensor, c10::StorageImpl const& storage) const;
    [[nodiscard]] SaverClass class_of_save(SavedHook const& hook, at::Tensor const& tensor) const;
    [[nodiscard]] Filed file_again(SavedValue& entry, SaverClass const& saver) const;
    void log_save(SavedHook const& hook, c10::StorageImpl const& storage, Stay stay);
    [[nodiscard]] Slot slot_of(Origin const& origin);
    void is_in_use(ValueId value, SavedValue& entry);
    void can_leave(SavedValue& entry);
    [[nodiscard]] bool has_own_block(SavedValue const& entry) const;
    [[nodiscard]] bool is_own_block(c10::StorageImpl const& storage) const;
    [[nodiscard]] bool is_unshared(SavedValue const& entry) const;
    [[nodiscard]] static bool has_hook(SavedValue const& entry, SavedHook const* hook);
    void unlink_storage(ValueId value, SavedValue& entry);

    [[nodiscard]] bool stream_is_known(void const* block) const;
    void add_user_here(c10::StorageImpl const& storage) const;
    [[nodiscard]] c10::Stream stream_of_torch(StreamId stream) const;
    [[nodiscard]] c10::DataPtr block_of(void* memory, StreamId user, StreamId home) const;
    void add_stream(SavedValue& entry, StreamId stream) const;
    void order_users(SavedValue& entry);

    std::shared_ptr<Device> const owner_;  ///< shared with the blocks that came back
    Device& device_;
    TorchPlace const place_;
    OwnedStorages const& owned_;
    std::int64_t const min_value_bytes_;
    c10::DispatchKeySet const plain_keys_;
    /// Shared with what the mover holds.
    std::shared_ptr<WrappedStorages> const wrapped_ = std::make_shared<WrappedStorages>();

    mutable std::mutex mutex_;
    SaveLog saves_;
    bool keeps_saves_ = false;
    bool tells_classes_ = false;
    std::pmr::unsynchronized_pool_resource memory_;  ///< nodes come and go with every saved tensor
    std::pmr::unordered_map<c10::StorageImpl*, ValueId> value_of_{&memory_};
    std::pmr::unordered_map<ValueId, SavedValue> entries_{&memory_};  ///< entries stay put
    std::map<std::pair<std::type_info const*, std::uint32_t>, Producer> producers_;
    std::vector<ValueId> not_unshared_;  ///< candidates to be unshared, oldest first
    std::size_t next_candidate_ = 0;
    std::vector<ValueId> unseen_;  ///< of which is not known whether they could leave
    std::atomic<std::int64_t> could_leave_bytes_ = 0;
    std::int64_t next_value_ = 0;
};

}  // namespace spillway
