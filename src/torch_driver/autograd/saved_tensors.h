// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the hooks of a session's graphs stand for. Files saved tensors under values, and is the
// loop's driver: turns commands on values into storages and tensors.
#pragma once

#include "base/ids.h"
#include "base/mutex.h"
#include "session/driver.h"
#include "torch_driver/allocator/device_blocks.h"
#include "torch_driver/allocator/storage_wrapper.h"
#include "torch_driver/autograd/eligibility.h"
#include "torch_driver/autograd/replaced_data.h"
#include "torch_driver/autograd/saved_hook.h"
#include "torch_driver/autograd/saved_values.h"
#include "torch_driver/autograd/unshared_tracker.h"
#include "torch_driver/origin/origin.h"
#include "torch_driver/origin/save_log.h"
#include "torch_driver/origin/tensor_classes.h"
#include "torch_driver/recompute/checksum.h"
#include "torch_driver/recorder/call_recorder.h"
#include "trace/slot.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace spillway {

/// Thread  any; one mutex, never held while torch allocates. It guards `State`, what the values in
///         it have, and of their hooks the alias, the geometry and the value
class SavedTensors final : public Driver {
  public:
    /// `blocks` and `owned` outlive it. What is in `owned`, or smaller than `min_value_bytes`,
    /// stays.
    SavedTensors(
        DeviceBlocks const& blocks, OwnedStorages const& owned, std::int64_t min_value_bytes
    );

    /// What became of a tensor that was saved.
    enum class Filed : std::uint8_t {
        known,    ///< one more hook of a value that was saved before
        differs,  ///< the same, and its savers' class is from now on another
        fresh,    ///< a new value
    };
    /// What is reported to the loop about a new value.
    struct Fresh {
        std::int64_t size_bytes = 0;  ///< as the device rounds
        Slot slot;
        std::int64_t storage_bytes = 0;  ///< as torch asked
        bool is_whole = false;           ///< the tensor has every element of its storage
        SaverClass saver;  ///< where tensors are classified; all that is told of a known value
    };

    /// A forward begins: slots are counted afresh, and the log begins.
    void begin_pass();

    [[nodiscard]] SaveLog& log() { return log_; }
    [[nodiscard]] Eligibility const& eligibility() const { return eligibility_; }

    /// From now on values have the class of their savers, at the cost of a look at each save.
    void classify_tensors() { classifies_ = true; }
    /// From now on recipes may be as long as a block of a model, and parameters and buffers are
    /// what they are made from. Before the first save.
    void make_blocks_again() { makes_blocks_again_ = true; }
    /// Of values that live, in the order in which they were saved first. For tests.
    [[nodiscard]] std::vector<std::pair<std::string, SaverClass>> classes() const;

    /// Whether `tensor` may leave. If not, why, as far as that is quick to know.
    [[nodiscard]] Stay stay_of(at::Tensor const& tensor) const {
        return tensor.has_storage()
                   ? eligibility_.stay_of(tensor, *tensor.storage().unsafeGetStorageImpl())
                   : Stay::no_plain_tensor;
    }
    /// Files the hook, which keeps an alias of `tensor`, under its storage's value. It may leave.
    [[nodiscard]] Filed file(SavedHook& hook, at::Tensor const& tensor, Fresh& fresh);
    /// The hook keeps `state`, an alias of an optimizer's state that nothing else refers to: a
    /// value that may leave, and that is no saved tensor for logs and recipes.
    [[nodiscard]] Fresh file_state(SavedHook& hook, at::Tensor const& state);
    /// Where saves are kept: what the hook saved, and why it stays.
    void log_save(SavedHook const& hook, at::Tensor const& tensor, Stay stay);
    /// The hook keeps `tensor` itself, for the sake of what Python knows of it. Under Python's
    /// lock.
    void log_kept_whole(SavedHook const& hook, at::Tensor const& tensor, Stay stay);
    /// A hook dies. Its value ends with its last hook.
    void forget(SavedHook& hook) noexcept;
    /// A hook that was passed, and keeps an alias of a tensor that plain autograd keeps itself.
    /// Only `data_was_replaced` asks for it, until `forget_passed`.
    void list_passed(SavedHook& hook);
    void forget_passed(SavedHook& hook) noexcept;
    /// Whether a living hook stands for `saved`, which may have gone.
    [[nodiscard]] bool has_saved(c10::TensorImpl const* saved) const;
    /// What was saved was given other data. The hooks that saved it keep `now`, an alias of it as
    /// it is, from then on; what they kept before goes to `ended`, and what they handed out to
    /// `handed_out`.
    void data_was_replaced(
        c10::TensorImpl const* saved,
        at::Tensor const& now,
        std::vector<at::Tensor>& ended,
        std::vector<std::shared_ptr<HandedOut>>& handed_out
    );
    /// The tensor that a hook stands for; undefined while the value is away, and where the hook is
    /// none of the value's any more. What others than torch's own nodes see is a fresh alias: while
    /// that lives, the value is not unshared.
    [[nodiscard]] at::Tensor tensor_of(ValueId value, SavedHook const* hook, bool is_of_torch)
        const;

    /// Keeps the value until `unpin`, also when its last hook goes meanwhile. False: it has gone.
    [[nodiscard]] bool pin(ValueId value, SavedHook const* hook);
    void unpin(ValueId value) noexcept;
    [[nodiscard]] bool has(ValueId value, SavedHook const* hook) const;

    /// The loop knows the hook's value: it can be asked for.
    static void mark_reported(SavedHook const& hook) {
        std::atomic<bool>& is_reported = hook.filed_->is_reported;
        is_reported = true;
        is_reported.notify_all();
    }
    /// Another thread may be in the middle of saving it first.
    static void wait_until_reported(SavedHook const& hook) { hook.filed_->is_reported.wait(false); }

    /// What ended only for want of Python's lock ends now.
    void let_wrappers_end() { wrapped_->clear(); }

    /// A tensor of the saved one's type and sizes, whose bytes may be missing.
    [[nodiscard]] at::Tensor shape_of(SavedHook const& hook) const;
    /// `tensor` has the saved one's type, sizes, strides and offset.
    [[nodiscard]] bool is_view_of(SavedHook const& hook, at::Tensor const& tensor) const;

    /// `tensor`, of the value, is handed out to the current stream: whether the value is unshared
    /// has to be seen again, and the block that it came back in is freed after this stream's use.
    void handed_out(ValueId value, at::Tensor const& tensor);
    /// As `tensor_of` for torch's own nodes, which the current stream uses from now on.
    [[nodiscard]] at::Tensor used_now(SavedHook const& hook);

    /// Nothing is saved that can move.
    [[nodiscard]] bool is_empty() const {
        MutexLock const lock(mutex_);
        return state_.values.size() == 0;
    }
    /// Saved tensors that are on the device, with their bytes as the device rounds.
    [[nodiscard]] std::vector<std::pair<ValueId, std::int64_t>> on_device() const;
    /// Those of optimizers' states there, all together.
    [[nodiscard]] std::int64_t state_bytes() const;

    /// As UnsharedTracker has them, which is atomic there.
    [[nodiscard]] std::int64_t could_leave_bytes() const SPILLWAY_LOCKS_UNCHECKED {
        return state_.unshared.could_leave_bytes();
    }
    void see_what_could_leave();

    /// Values in the order in which their nodes run; values of other nodes are left out.
    [[nodiscard]] std::vector<ValueId> in_order(
        std::unordered_map<std::uint64_t, std::size_t> const& rank_of_node
    ) const;

    /// Looks for recipes of the values that this thread saved since the last call, while it
    /// records. What was never run beside a living value is tried here, where `room_bytes` are
    /// enough for it. Allocates, and so may ask for room.
    void make_recipes(std::int64_t room_bytes);
    /// Gives up recipes of values that are here, with the copies that they keep. False: they keep
    /// none.
    [[nodiscard]] bool let_recipes_go();
    /// Of the recipes by which values went so far.
    [[nodiscard]] OperatorSet used_operators() const;
    /// Values so far that came back by their recipes.
    [[nodiscard]] std::int64_t made_again() const;
    /// Kinds of recipes that gave other bits, and are not used.
    [[nodiscard]] std::int64_t refused_recipes() const { return proved_.refused(); }
    /// A value goes on this thread: there is no room for what is allocated meanwhile.
    [[nodiscard]] static bool is_letting_go();
    /// What an operator threw on this thread while a recipe ran; null: none did.
    [[nodiscard]] static std::exception_ptr take_thrown();

    /// Called when a value's last hook is gone, with no lock held.
    std::function<void(ValueId)> on_dropped;
    /// Driver::borrow.
    std::function<bool(std::int64_t, bool)> on_short;

    HeldBytes bytes_of(ValueId value) override;
    [[nodiscard]] StreamId stream_of(ValueId value) override;
    void drop(ValueId value) override;
    void bind(ValueId value, void* memory) override;
    [[nodiscard]] std::vector<ValueId> newly_unshared(std::size_t at_most) override;
    [[nodiscard]] std::optional<ValueRecipe> recipe_of(ValueId value) override;
    [[nodiscard]] std::vector<ValueId> found_recipes() override;
    [[nodiscard]] bool keep_recipe(ValueId value) override;
    [[nodiscard]] Result<std::int64_t> recompute(ValueId value) override;
    [[nodiscard]] bool borrow(std::int64_t size_bytes, bool last_resort) override {
        return on_short(size_bytes, last_resort);
    }
    [[nodiscard]] std::string describe(ValueId value) const override;

  private:
    struct State {
        explicit State(std::function<bool(SavedValue const&)> is_unshared)
            : unshared(values, std::move(is_unshared)) {}

        SavedValues values;
        UnsharedTracker unshared;
        SlotCounter slots;
        /// Saved where operators are recorded, and not looked at by `make_recipes` yet. The values
        /// keep them.
        std::vector<std::pair<CallRecorder const*, std::weak_ptr<SavedContent const>>> unmade;
        std::vector<ValueId> found_recipes;  ///< Driver::found_recipes
        OperatorSet used_operators;
        std::int64_t made_again = 0;
        std::vector<SavedHook*> passed;  ///< in no order; each knows its place
    };

    [[nodiscard]] SaverClass class_of_save(SavedHook const& hook, at::Tensor const& tensor) const;
    void add_hook(SavedHook& hook, std::pair<ValueId const, SavedValue>& filed) const
        SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] std::pair<ValueId const, SavedValue>& add_entry(
        SavedHook& hook, at::Tensor const& tensor
    ) SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] Fresh add_value(
        SavedHook& hook, at::Tensor const& tensor, SaverClass const& saver
    ) SPILLWAY_REQUIRES(mutex_);
    /// `stay`, or that the storage is owned.
    [[nodiscard]] Stay reason_of(Stay stay, c10::StorageImpl const& storage) const;
    [[nodiscard]] std::vector<SavedHook*> hooks_of(c10::TensorImpl const* saved) const
        SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] bool is_view_of_saved(SavedHook const& hook, at::Tensor const& tensor) const;
    [[nodiscard]] bool has_own_block(SavedValue const& entry) const;
    [[nodiscard]] bool is_unshared(SavedValue const& entry) const SPILLWAY_REQUIRES(mutex_);
    void unbind(ValueId value, SavedValue& entry) SPILLWAY_REQUIRES(mutex_);
    void add_unmade(CallRecorder const& recorder, std::shared_ptr<SavedContent const> const& saved)
        SPILLWAY_REQUIRES(mutex_);
    void put_back(ValueId value, SavedValue& entry, c10::Storage const& storage)
        SPILLWAY_REQUIRES(mutex_);
    void use_on_current_stream(SavedValue& entry, c10::StorageImpl const& storage) const
        SPILLWAY_REQUIRES(mutex_);

    // saved_recipes.cc
    /// What ends when a value does, to be let go of without the lock.
    struct Ending {
        std::vector<ValueId> ended;  ///< of which nobody has heard yet
        std::vector<c10::Storage> storages;
    };
    [[nodiscard]] static c10::Storage storage_of(SavedValue const& entry);
    [[nodiscard]] bool end_if_unused(ValueId value, SavedValue& entry, Ending& ending)
        SPILLWAY_REQUIRES(mutex_);
    void unpin_sources(SavedValue& entry, Ending& ending) SPILLWAY_REQUIRES(mutex_);
    void end(Ending ending) noexcept;
    [[nodiscard]] std::vector<std::shared_ptr<SavedContent const>> take_unmade(
        CallRecorder const& recorder
    );
    [[nodiscard]] bool is_as_saved(ValueId value) const SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] bool is_source(Content const& content, Content const& wanted) const
        SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] bool is_used_in_place(Content const& content) const;
    /// A parameter or buffer (Note [Parameters as sources]).
    [[nodiscard]] bool is_used_as_it_lies(c10::StorageImpl const& storage) const;
    [[nodiscard]] std::string source_words(Content const& content) const;
    [[nodiscard]] std::int64_t copied_bytes(Recipe const& recipe) const;
    [[nodiscard]] std::size_t most_calls() const;
    /// What became of the look for a recipe.
    struct Sought {
        std::shared_ptr<SavedRecipe const> recipe;  ///< null: none, or not yet
        bool again = false;                         ///< it is to be looked for again: no room now
        std::string words;                          ///< of it, or why there is none; for the log
    };
    [[nodiscard]] std::uint64_t checksum_of(c10::Storage const& storage);
    void measure_checksum(c10::Storage const& value);
    [[nodiscard]] std::int64_t checking_ns(std::int64_t size_bytes) const;
    enum class Proof : std::uint8_t { same, differs, written, again };
    /// Nobody wrote the value or what it is made of since they were saved.
    [[nodiscard]] bool has_what_was_saved(ValueId value, SavedRecipe const& recipe) const
        SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] Sought seek_recipe(SavedContent const& saved, std::int64_t room_bytes);
    [[nodiscard]] std::variant<Recipe, Recipe::Refused> recipe_of_calls(SavedContent const& saved);
    [[nodiscard]] std::optional<std::vector<SavedRecipe::Source>> kept_sources(
        Recipe const& recipe, ValueId value
    );
    [[nodiscard]] Proof prove(
        SavedContent const& saved, SavedRecipe const& recipe, std::int64_t room_bytes
    );
    [[nodiscard]] std::optional<std::vector<c10::Storage>> sources_of(SavedRecipe const& recipe)
        SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] Result<c10::Storage> run(
        SavedRecipe const& recipe, std::vector<c10::Storage> const& sources
    ) const;
    void come_after(SavedValue const& entry) const SPILLWAY_REQUIRES(mutex_);

    DeviceBlocks const& blocks_;
    OwnedStorages const& owned_;
    Eligibility const eligibility_;
    /// Shared with what the mover holds.
    std::shared_ptr<WrappedStorages> const wrapped_ = std::make_shared<WrappedStorages>();
    std::atomic<bool> classifies_ = false;
    bool makes_blocks_again_ = false;
    ProvedRecipes proved_;
    Checksums checksums_;
    SaveLog log_;

    mutable Mutex mutex_;
    State state_ SPILLWAY_GUARDED_BY(mutex_);
    ReplacedDataWatch const watch_{*this};  ///< goes before all that it asks
};

}  // namespace spillway
