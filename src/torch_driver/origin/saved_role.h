// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a saved tensor is to the operator that saved it, in words of PyTorch's own documentation:
// "input of linear (output of gelu), saved for its weight's gradient".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

/// What the elements of a saved tensor are, as far as that shows what it is for.
enum class SavedElements : std::uint8_t { numbers, integers, booleans };

/// What is known of one saved tensor.
struct SavedFacts {
    std::string_view outer =
        {};  ///< the operator that the model called, "aten::linear"; empty: unknown
    std::string_view inner = {};  ///< the one inside it that saves, "aten::addmm"
    std::string_view owned =
        {};                  ///< which parameter, buffer or other named tensor it is, or a cast of
    std::string maker = {};  ///< the operator that made it, "gelu"; empty: unknown, or none
    std::uint32_t output = 0;  ///< which output of the operator that saves it, where `is_output`
    bool is_output = false;
    bool is_cast = false;  ///< the other fields describe what it was cast from
    SavedElements elements = SavedElements::numbers;
    bool has_owned_beside = false;  ///< the same node saved a named tensor, too
    int others_before = 0;          ///< tensors without a name that the node saved before it
};

[[nodiscard]] std::string role_of(SavedFacts const& facts);

/// The operator of an autograd node: "NativeLayerNormBackward0" -> "layer_norm", "AddBackward0" ->
/// "add". What is no such name stays as it is.
[[nodiscard]] std::string operator_of_node(std::string_view node);

/// What a user calls it: ("aten::linear", "aten::addmm") -> "linear"; where the outer one does more
/// than the inner one: "log_softmax in cross_entropy_loss".
[[nodiscard]] std::string operator_words(std::string_view outer, std::string_view inner);

}  // namespace spillway
