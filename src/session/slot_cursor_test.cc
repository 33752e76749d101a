// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/slot_cursor.h"

#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace spillway {
namespace {

constexpr std::size_t kSeeds = 200;
constexpr double kShareFound = 0.95;

/// One save of a made-up program. Its slot's occurrence is its place in the sequence.
struct ModelSave {
    Slot slot;
    SaveMark mark;
    int layer_kind = 0;
    int place = 0;    ///< in its layer
    int number = -1;  ///< of the save in the program before it was edited; -1: it is an edit's
};
using ModelLayer = std::vector<ModelSave>;
using ModelProgram = std::vector<ModelLayer>;

class CursorDice {
  public:
    explicit CursorDice(int seed) : state_(mixed(static_cast<std::uint64_t>(seed))) {}
    /// From `least` to `most`.
    int in(int least, int most) {
        state_ = mixed(state_);
        auto const span = static_cast<std::uint64_t>(most - least + 1);
        return least + static_cast<int>((state_ >> 20U) % span);
    }

  private:
    std::uint64_t state_;
};

ModelSave save_of(std::string producer, int output = 0, int rank = 3) {
    SaveMark const mark{TensorClass::other, 6, static_cast<std::int16_t>(rank)};
    return {.slot = {std::move(producer), output, 0}, .mark = mark};
}

ModelLayer layer_of(int kind, ModelLayer saves) {
    for (std::size_t i = 0; i < saves.size(); ++i) {
        saves[i].layer_kind = kind;
        saves[i].place = static_cast<int>(i);
    }
    return saves;
}

ModelSave random_save(CursorDice& dice) {
    return save_of(
        "Op" + std::to_string(dice.in(0, 7)) + "Backward0", dice.in(0, 1), dice.in(2, 3)
    );
}

ModelLayer random_layer(int kind, CursorDice& dice) {
    ModelLayer saves(static_cast<std::size_t>(dice.in(12, 24)));
    for (ModelSave& save : saves) {
        save = random_save(dice);
    }
    return layer_of(kind, saves);
}

ModelLayer embedding() {
    return layer_of(-1, {save_of("input", 0, 2), save_of("EmbeddingBackward0")});
}
ModelLayer head() {
    return layer_of(
        -2,
        {save_of("NativeLayerNormBackward0"),
         save_of("UnsafeViewBackward0"),
         save_of("LogSoftmaxBackward0", 0, 2),
         save_of("NllLossBackward0", 1, 0)}
    );
}

ModelLayer transformer_layer() {
    return layer_of(
        0,
        {save_of("AddBackward0"),
         save_of("NativeLayerNormBackward0", 1),
         save_of("NativeLayerNormBackward0", 2),
         save_of("NativeLayerNormBackward0"),
         save_of("TransposeBackward0", 0, 4),
         save_of("ScaledDotProductBackward0", 0, 4),
         save_of("ScaledDotProductBackward0", 1, 3),
         save_of("ViewBackward0", 0, 2),
         save_of("AddBackward0"),
         save_of("NativeLayerNormBackward0", 1),
         save_of("NativeLayerNormBackward0", 2),
         save_of("NativeLayerNormBackward0"),
         save_of("AddmmBackward0", 0, 2),
         save_of("GeluBackward0")}
    );
}

enum class Model { transformer, layers_of_few_kinds, layers_of_their_own };
constexpr std::array<Model, 3> kModels{
    Model::transformer, Model::layers_of_few_kinds, Model::layers_of_their_own};

ModelProgram model(Model which, CursorDice& dice) {
    int const count = dice.in(12, 24);
    int const kinds = which == Model::layers_of_few_kinds ? dice.in(3, 8) : count;
    std::vector<ModelLayer> known;
    for (int kind = 0; kind < kinds; ++kind) {
        known.push_back(
            which == Model::transformer ? transformer_layer() : random_layer(kind, dice)
        );
    }
    ModelProgram program{embedding()};
    for (int i = 0; i < count; ++i) {
        bool const draws = which == Model::layers_of_few_kinds;
        program.push_back(known[static_cast<std::size_t>(draws ? dice.in(0, kinds - 1) : i)]);
    }
    program.push_back(head());
    int number = 0;
    for (ModelLayer& layer : program) {
        for (ModelSave& save : layer) {
            save.number = number++;
        }
    }
    return program;
}

ModelLayer as_added(ModelLayer layer) {
    for (ModelSave& save : layer) {
        save.number = -1;
    }
    return layer;
}

/// What was traced, the step that is matched with it, and the layer from which on they differ.
struct Edited {
    ModelProgram traced;
    ModelProgram step;
    std::size_t from = 0;
};

enum class Edit { inserted, missing, repeated, branch, dropout_on, dropout_off };

/// The same places of each layer of a kind, from the end.
std::vector<std::size_t> places_of_masks(ModelLayer const& layer) {
    return layer.size() < 6 ? std::vector<std::size_t>()
                            : std::vector<std::size_t>{layer.size() - 1, layer.size() / 2};
}

ModelProgram with_masks(ModelProgram program) {
    for (ModelLayer& layer : program) {
        for (std::size_t const place : places_of_masks(layer)) {
            layer.insert(
                layer.begin() + static_cast<std::ptrdiff_t>(place),
                save_of("NativeDropoutBackward0", 1)
            );
        }
    }
    return program;
}

Edited edited(Model which, Edit edit, CursorDice& dice) {
    ModelProgram const program = model(which, dice);
    auto const half = static_cast<int>(program.size()) / 2;
    Edited all{program, program, static_cast<std::size_t>(dice.in(1, half))};
    auto const at = all.step.begin() + static_cast<std::ptrdiff_t>(all.from);
    switch (edit) {
        case Edit::inserted:
            all.step.insert(
                at,
                as_added(which == Model::transformer ? transformer_layer() : random_layer(-3, dice))
            );
            break;
        case Edit::missing:
            all.step.erase(at);
            break;
        case Edit::repeated:
            all.step.insert(at + 1, as_added(*at));
            break;
        case Edit::branch:
            *at = as_added(random_layer(-3, dice));
            break;
        case Edit::dropout_on:
            all = {program, with_masks(program), 0};
            break;
        case Edit::dropout_off:
            all = {with_masks(program), program, 0};
            break;
    }
    return all;
}

ModelLayer flat(ModelProgram const& program) {
    ModelLayer saves;
    for (ModelLayer const& layer : program) {
        saves.insert(saves.end(), layer.begin(), layer.end());
    }
    return saves;
}

SlotCursor cursor_over(ModelLayer const& traced) {
    SaveSequence sequence;
    for (ModelSave const& save : traced) {
        Slot slot = save.slot;
        slot.occurrence = static_cast<std::int32_t>(sequence.saves.size());
        sequence.add(slot, save.mark);
    }
    return SlotCursor(std::move(sequence));
}

/// Equal layers are told apart by nothing: there a slot of the same place in such a layer is right.
bool is_right(Model which, ModelSave const& save, ModelSave const& slot) {
    return which == Model::layers_of_their_own
               ? save.number == slot.number
               : save.layer_kind == slot.layer_kind && save.place == slot.place;
}

struct Tally {
    int later = 0;  ///< saves of the program's own after the difference
    int found = 0;  ///< slots there that went to a save which they are right for
    int wrong = 0;  ///< slots given twice, or to a save of another signature
};

bool is_of_one_kind(ModelSave const& one, ModelSave const& another) {
    return one.slot.producer == another.slot.producer && one.slot.output == another.slot.output &&
           one.mark == another.mark;
}

Tally match_all(Model which, Edited const& all) {
    ModelLayer const traced = flat(all.traced);
    SlotCursor cursor = cursor_over(traced);
    cursor.begin_step();
    std::vector<bool> given(traced.size());
    Tally tally;
    for (std::size_t i = 0; i < all.step.size(); ++i) {
        for (ModelSave const& save : all.step[i]) {
            Slot const* const slot = cursor.match(save.slot, save.mark);
            bool const is_later = i >= all.from;
            tally.later += is_later && save.number >= 0 ? 1 : 0;
            if (slot == nullptr) {
                continue;
            }
            auto const place = static_cast<std::size_t>(slot->occurrence);
            ModelSave const& of = traced[place];
            tally.wrong += given[place] || !is_of_one_kind(of, save) ? 1 : 0;
            given[place] = true;
            tally.found += is_later && is_right(which, save, of) ? 1 : 0;
        }
    }
    tally.found = std::min(tally.found, tally.later);
    return tally;
}

void expect_found(Edit edit) {
    std::array<Tally, kModels.size()> sums;
    for (std::size_t seed = 0; seed < kSeeds; ++seed) {
        CursorDice dice(static_cast<int>(seed));
        Model const which = kModels[seed % kModels.size()];
        Tally const tally = match_all(which, edited(which, edit, dice));
        Tally& sum = sums[seed % kModels.size()];
        sum.later += tally.later;
        sum.found += tally.found;
        sum.wrong += tally.wrong;
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
        std::string const model = "found_per_mille_" + std::to_string(i);
        EXPECT_GT(sums[i].later, 0);
        EXPECT_GE(sums[i].found, kShareFound * sums[i].later) << model;
        EXPECT_EQ(sums[i].wrong, 0) << model;
        int const found_per_mille = static_cast<int>(1000.0 * sums[i].found / sums[i].later);
        ::testing::Test::RecordProperty(model, found_per_mille);
    }
}

TEST(SlotCursor, finds_its_way_back_where_a_layer_is_inserted) {
    expect_found(Edit::inserted);
}
TEST(SlotCursor, finds_its_way_back_where_a_layer_is_missing) {
    expect_found(Edit::missing);
}
TEST(SlotCursor, finds_its_way_back_where_a_layer_is_repeated) {
    expect_found(Edit::repeated);
}
TEST(SlotCursor, finds_its_way_back_after_another_branch) {
    expect_found(Edit::branch);
}
TEST(SlotCursor, finds_its_way_with_dropout_that_was_off) {
    expect_found(Edit::dropout_on);
}
TEST(SlotCursor, finds_its_way_without_dropout_that_was_on) {
    expect_found(Edit::dropout_off);
}

/// The slots, as places in the sequence; -1: none.
std::vector<int> matched(SlotCursor& cursor, std::string const& producers) {
    std::vector<int> places;
    for (char const producer : producers) {
        ModelSave const save = save_of(std::string(1, producer));
        Slot const* const slot = cursor.match(save.slot, save.mark);
        places.push_back(slot == nullptr ? -1 : slot->occurrence);
    }
    return places;
}

SlotCursor cursor_over_letters(std::string const& producers) {
    ModelLayer saves;
    for (char const producer : producers) {
        saves.push_back(save_of(std::string(1, producer)));
    }
    return cursor_over(saves);
}

using Places = std::vector<int>;

TEST(SlotCursor, an_equal_step_of_other_sizes_has_all_slots_each_time) {
    SlotCursor cursor = cursor_over_letters("abcabc");
    for (int step = 0; step < 3; ++step) {
        cursor.begin_step();
        EXPECT_EQ(matched(cursor, "abcabc"), (Places{0, 1, 2, 3, 4, 5}));
        EXPECT_FALSE(cursor.is_lost());
    }
}

TEST(SlotCursor, what_the_sequence_lacks_has_none_and_shifts_nothing) {
    SlotCursor cursor = cursor_over_letters("abcd");
    EXPECT_EQ(matched(cursor, "axyzbcxd"), (Places{0, -1, -1, -1, 1, 2, -1, 3}));
}

TEST(SlotCursor, what_is_missing_is_jumped_over) {
    SlotCursor cursor = cursor_over_letters("abcdefgh");
    EXPECT_EQ(matched(cursor, "abdgh"), (Places{0, 1, 3, 6, 7}));
}

TEST(SlotCursor, a_repeated_part_takes_nobodys_slots) {
    SlotCursor cursor = cursor_over_letters("abcdefgh");
    EXPECT_EQ(matched(cursor, "abcdabcdefgh"), (Places{0, 1, 2, 3, -1, -1, -1, -1, 4, 5, 6, 7}));
}

TEST(SlotCursor, a_pass_beyond_the_sequences_has_its_slots_again) {
    SlotCursor cursor = cursor_over_letters("abc");
    EXPECT_EQ(matched(cursor, "abcabc"), (Places{0, 1, 2, -1, -1, -1}));
    cursor.begin_pass();
    EXPECT_EQ(matched(cursor, "abc"), (Places{0, 1, 2}));
}

/// Two passes; each is in forward what its first letters are, in backward the last.
SlotCursor cursor_over_two_passes() {
    SaveSequence sequence;
    auto const add = [&sequence](std::string const& producers) {
        for (char const producer : producers) {
            ModelSave save = save_of(std::string(1, producer));
            save.slot.occurrence = static_cast<std::int32_t>(sequence.saves.size());
            sequence.add(save.slot, save.mark);
        }
    };
    for (int pass = 0; pass < 2; ++pass) {
        if (pass > 0) {
            sequence.begin_pass();
        }
        sequence.begin_phase(Phase::forward);
        add("abab");
        sequence.begin_phase(Phase::backward);
        add("ba");
    }
    return SlotCursor(std::move(sequence));
}

TEST(SlotCursor, phases_and_passes_begin_where_the_sequences_do) {
    SlotCursor cursor = cursor_over_two_passes();
    for (int step = 0; step < 2; ++step) {
        cursor.begin_pass();  // as a driver does that reports the pass before its step
        cursor.begin_step();
        cursor.begin_phase(Phase::forward);
        EXPECT_EQ(matched(cursor, "ab"), (Places{0, 1}));  // and not 2 and 3, which it lacks
        cursor.begin_phase(Phase::backward);
        EXPECT_EQ(matched(cursor, "ba"), (Places{4, 5}));
        cursor.begin_phase(Phase::update);  // which the sequence has not
        cursor.begin_pass();
        cursor.begin_phase(Phase::forward);
        EXPECT_EQ(matched(cursor, "abab"), (Places{6, 7, 8, 9}));
        cursor.begin_phase(Phase::backward);
        EXPECT_EQ(matched(cursor, "b"), (Places{10}));
    }
}

TEST(SlotCursor, dtype_rank_and_saver_have_to_fit_where_they_are_known) {
    SaveSequence sequence;
    SaveMark const mark{TensorClass::linear_input, 6, 3};
    sequence.add({"a", 0, 0}, mark);
    sequence.add({"a", 1, 0}, mark);
    SlotCursor cursor(sequence);
    EXPECT_EQ(cursor.match({"a", 0, 0}, {TensorClass::norm_input, 6, 3}), nullptr);
    EXPECT_EQ(cursor.match({"a", 0, 0}, {TensorClass::linear_input, 15, 3}), nullptr);
    EXPECT_EQ(cursor.match({"a", 0, 0}, {TensorClass::linear_input, 6, 2}), nullptr);
    EXPECT_EQ(cursor.match({"b", 0, 0}, mark), nullptr);
    Slot const* const unknown = cursor.match({"a", 0, 7}, {TensorClass::other, 6, 3});
    ASSERT_NE(unknown, nullptr);
    EXPECT_EQ(*unknown, (Slot{"a", 0, 0}));
    Slot const* const second = cursor.match({"a", 1, 7}, mark);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(second->output, 1);
}

TEST(SlotCursor, of_an_empty_sequence_nothing_has_a_slot) {
    SlotCursor cursor{SaveSequence()};
    cursor.begin_pass();
    cursor.begin_phase(Phase::backward);
    EXPECT_EQ(matched(cursor, "ab"), (Places{-1, -1}));
    cursor.begin_step();
    EXPECT_EQ(matched(cursor, "a"), (Places{-1}));
}

}  // namespace
}  // namespace spillway
