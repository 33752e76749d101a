// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The rules without which what is made again has other bits, or a step has another course than
// plain training. In a build with SPILLWAY_MUTANTS each can be broken by name, to see that the
// tests notice (make mutants); in all others they always hold, at no cost.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway {

enum class RecipeRule : std::uint8_t {
    innermost_above_autograd,         ///< operators that others are made of do not count
    factories_below_autograd,         ///< but those that Python calls there do
    own_work_is_not_recorded,         ///< what the runtime runs itself makes nothing
    results_are_known_at_the_end,     ///< a saved result's maker is asked when its operator ends
    failed_operators_make_nothing,    ///< one that throws may have written a part
    views_are_not_made,               ///< a result on an argument's storage is no product
    buffers_are_not_made,             ///< what `empty` gives is filled later, maybe unseen
    written_storages_hold_another,    ///< what a schema says is written holds another content
    moved_versions_are_writes,        ///< so does what no schema told, and its version did
    other_libraries_may_write,        ///< an operator that is not PyTorch's: all that it is given
    writes_below_autograd_are_seen,   ///< those of operators that are not recorded, too
    statistics_are_written,           ///< norms write what their schema does not tell
    set_writes_no_byte,               ///< a tensor that has another storage now was not written
    left_out_operators_may_write,     ///< a plan that asks for few operators hides no write
    others_may_have_written,          ///< while another session recorded
    parts_show_what_was_before,       ///< a write to a part needs what was there
    overwriting_needs_the_whole,      ///< an operator that overwrites does so where its tensor is
    one_argument_on_what_is_written,  ///< a base of its own would tear two arguments apart
    resized_storages_are_others,      ///< what has another size now is not what was made
    special_tensors_are_not_made,     ///< conjugates, quantized, of inference mode
    statistics_have_one_precision,    ///< batch norm without its statistics runs otherwise
    replaced_contents_are_no_source,  ///< what was written since is gone
    sources_are_copied_in_time,       ///< before an operator writes them
    saved_versions_are_compared,      ///< what moved since the save is not what was saved
    numbers_stay_numbers,             ///< a Python number promotes types as no tensor does
    lists_are_not_shared,             ///< tensors put into a recorded list would stay there
    generators_are_recorded,          ///< what drew draws from where it drew
    generators_are_cloned,            ///< and leaves its generator as it was
    bases_are_private,                ///< an operator in place writes what nobody else needs
    norms_leave_statistics,           ///< batch norm updates them once
    outputs_are_told_apart,           ///< of an operator with several
    autocast_is_over,                 ///< the casts were recorded
    ambient_is_restored,              ///< default dtype, threads, deterministic mode
    products_have_their_precision,    ///< else it is an error
    sizes_are_compared,               ///< of what is made again
    dropout_needs_a_generator,        ///< attention that drops out draws from PyTorch's own
    kinds_are_tried_first,            ///< beside a value that lives, bit by bit
    checksums_are_compared,           ///< of what went and what is made again
};

inline constexpr std::array<std::string_view, 38> kRecipeRuleNames{
    "innermost_above_autograd",
    "factories_below_autograd",
    "own_work_is_not_recorded",
    "results_are_known_at_the_end",
    "failed_operators_make_nothing",
    "views_are_not_made",
    "buffers_are_not_made",
    "written_storages_hold_another",
    "moved_versions_are_writes",
    "other_libraries_may_write",
    "writes_below_autograd_are_seen",
    "statistics_are_written",
    "set_writes_no_byte",
    "left_out_operators_may_write",
    "others_may_have_written",
    "parts_show_what_was_before",
    "overwriting_needs_the_whole",
    "one_argument_on_what_is_written",
    "resized_storages_are_others",
    "special_tensors_are_not_made",
    "statistics_have_one_precision",
    "replaced_contents_are_no_source",
    "sources_are_copied_in_time",
    "saved_versions_are_compared",
    "numbers_stay_numbers",
    "lists_are_not_shared",
    "generators_are_recorded",
    "generators_are_cloned",
    "bases_are_private",
    "norms_leave_statistics",
    "outputs_are_told_apart",
    "autocast_is_over",
    "ambient_is_restored",
    "products_have_their_precision",
    "sizes_are_compared",
    "dropout_needs_a_generator",
    "kinds_are_tried_first",
    "checksums_are_compared",
};

static_assert(
    static_cast<std::size_t>(RecipeRule::checksums_are_compared) + 1 == kRecipeRuleNames.size()
);

#ifdef SPILLWAY_MUTANTS
/// The rule that is broken from now on, by its number; -1: none.
inline std::int32_t broken_recipe_rule = -1;
[[nodiscard]] inline bool keeps(RecipeRule rule) {
    return broken_recipe_rule != static_cast<std::int32_t>(rule);
}
#else
[[nodiscard]] constexpr bool keeps(RecipeRule) {
    return true;
}
#endif

}  // namespace spillway
