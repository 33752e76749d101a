// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the loop asks of whoever owns the tensors. torch_driver implements it; tests do with plain
// memory. A driver has no branch over fates, bytes or budgets.
#pragma once

#include "base/ids.h"
#include "base/result.h"
#include "memory/held_bytes.h"
#include "trace/recipe.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

/// How a value of `size_bytes`, as the device rounds, can be made again.
struct ValueRecipe {
    RecipeShape shape;
    std::int64_t size_bytes = 0;
};

/// Thread  called by the loop on program threads only, with none of the loop's locks held
class Driver {
  public:
    virtual ~Driver() = default;

    /// The bytes of a value that is on the device. Empty when nothing refers to it any more.
    [[nodiscard]] virtual HeldBytes bytes_of(ValueId value) = 0;

    /// The stream that will use a value which returns; its target is allocated there.
    [[nodiscard]] virtual StreamId stream_of(ValueId value) = 0;

    /// The saved graph's own references to the value's storage go; its bytes come free when nothing
    /// else holds them.
    virtual void drop(ValueId value) = 0;

    /// `memory`, of the device's allocator and filled with the value's bytes, becomes the value's
    /// storage. The driver owns it from here on.
    virtual void bind(ValueId value, void* memory) = 0;

    /// Values that only the saved graph holds now and that were not returned before, or were handed
    /// out since. Checks `at_most` candidates.
    [[nodiscard]] virtual std::vector<ValueId> newly_unshared(std::size_t at_most) = 0;

    /// How a value that is unshared can be made again; nothing: it cannot.
    [[nodiscard]] virtual std::optional<ValueRecipe> recipe_of(ValueId value) {
        (void)value;
        return std::nullopt;
    }
    /// Values whose recipe was found after they were unshared, each once.
    [[nodiscard]] virtual std::vector<ValueId> found_recipes() { return {}; }
    /// The value's bytes are about to go, and its recipe will bring them back: what that needs is
    /// kept until then. False: some of it has gone.
    [[nodiscard]] virtual bool keep_recipe(ValueId value) {
        (void)value;
        return false;
    }
    /// Makes the value again, in the driver's own storage, from sources that are on the device.
    /// The loop's turn is not held: what it allocates may ask for room.
    ///
    /// Returns how many operators ran.
    /// Fails   Errc::cancelled: nothing refers to the value any more; Errc::broken_promise: it is
    ///         not what it was; Errc::unsupported: an operator threw, which the driver keeps
    [[nodiscard]] virtual Result<std::int64_t> recompute(ValueId value) {
        (void)value;
        return Error{Errc::unsupported, "no recipe", ""};
    }

    /// Asked before the session's own values leave for an allocation of `size_bytes`: where another
    /// budget than the session's own is what stops it, makes room there. Asked once more, as the
    /// `last_resort`, when no value can leave any more: takes back what the session lent. True:
    /// room was made, so that the caller tries again. May wait.
    [[nodiscard]] virtual bool borrow(std::int64_t size_bytes, bool last_resort) {
        (void)size_bytes;
        (void)last_resort;
        return false;
    }

    /// For people: "saved tensor [4, 512, 2048] of AddmmBackward0".
    [[nodiscard]] virtual std::string describe(ValueId value) const = 0;
};

}  // namespace spillway
