// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the saves of a forward reveal about each other: the module of each, and its role there.
#pragma once

#include "base/ids.h"
#include "torch_driver/autograd/eligibility.h"
#include "torch_driver/origin/origin.h"
#include "torch_driver/origin/saved_role.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spillway {

/// One tensor that a node saved.
struct Save {
    std::uint64_t node = 0;  ///< the node's sequence number
    Origin maker;            ///< of the tensor, views aside; where `is_output`: the node itself
    bool is_output = false;
    bool is_cast = false;  ///< of what `maker` made, or `name` is
    SavedElements elements = SavedElements::numbers;
    ValueId value;  ///< where it may leave
    std::int64_t size_bytes = 0;
    Stay stay = Stay::may_leave;
    /// Of an owned tensor that has one, or of one that it is a view or cast of.
    std::shared_ptr<std::string const> name = nullptr;
    /// The operator that saved it, "aten::linear", and the one inside that did; null: not known.
    std::string const* outer = nullptr;
    std::string const* inner = nullptr;
    std::string python_class = {};  ///< "DTensor"; where `stay` is that
};

/// Of each save the module whose parameters the same node saved, else what the parameters before
/// and after it have in common; empty: the whole model.
[[nodiscard]] std::vector<std::string> places_of(std::vector<Save> const& saves);

/// Of each save, in words: saved_role.h.
[[nodiscard]] std::vector<std::string> roles_of(std::vector<Save> const& saves);

}  // namespace spillway
