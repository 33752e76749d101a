// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Trials of recipes (Note [Never by faith]), and checksums of what goes by them.

#include "torch_driver/autograd/saved_tensors.h"
#include "torch_driver/recorder/own_work.h"
#include "torch_driver/recorder/recipe_rules.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway {

namespace {

bool& is_letting_go_here() {
    static thread_local bool is_letting_go = false;
    return is_letting_go;
}

/// While it lives, this thread's allocations make no room by what takes a checksum.
class LettingGo {
  public:
    LettingGo() : before_(std::exchange(is_letting_go_here(), true)) {}
    ~LettingGo() { is_letting_go_here() = before_; }
    LettingGo(LettingGo const&) = delete;
    LettingGo& operator=(LettingGo const&) = delete;

  private:
    bool const before_;
};

/// PyTorch's own generators, which an operator of another library may draw from unsaid.
class Generators {
  public:
    /// Nothing where they are not `wanted`.
    Generators(bool wanted, c10::Device device) {
        if (!wanted) {
            return;
        }
        add(c10::Device(c10::kCPU));
        if (!device.is_cpu()) {
            add(device);
        }
    }
    /// Where it was moved, each is as it was; whether one was.
    bool put_back() {
        bool has_moved = false;
        for (auto& [generator, before] : all_) {
            std::scoped_lock const lock(generator.mutex());
            at::Tensor const now = generator.get_state();
            if (std::memcmp(now.const_data_ptr(), before.const_data_ptr(), before.nbytes()) != 0) {
                generator.set_state(before);
                has_moved = true;
            }
        }
        all_.clear();
        return has_moved;
    }
    ~Generators() {
        try {
            put_back();
        } catch (std::exception const&) {  // no room for a state: it threw for that before
        }
    }
    Generators(Generators const&) = delete;
    Generators& operator=(Generators const&) = delete;

  private:
    void add(c10::Device device) {
        at::Generator generator = at::globalContext().defaultGenerator(device);
        std::scoped_lock const lock(generator.mutex());
        all_.emplace_back(generator, generator.get_state());
    }

    OwnWork const below_;
    std::vector<std::pair<at::Generator, at::Tensor>> all_;
};

enum class Thrown : std::uint8_t { out_of_memory, interrupt, other };

/// A kernel in Python throws Python's exceptions, whose words begin with their class.
Thrown thrown_by_python(std::exception const& error) {
    std::string_view const words = error.what();
    std::string_view const name = words.substr(0, words.find_first_of(":\n"));
    bool const is_interrupt = name == "KeyboardInterrupt" || name == "SystemExit";
    return is_interrupt                    ? Thrown::interrupt
           : name.ends_with("MemoryError") ? Thrown::out_of_memory
                                           : Thrown::other;
}

}  // namespace

/// Note [Never by faith]
/// No list of PyTorch's says which operators give the same bits twice, and what a kernel writes
/// that is no operator (Triton, NumPy) moves no version. So a recipe of operators, types and
/// layouts that were never tried runs once beside the value that still lives, and is compared bit
/// by bit; a difference refuses all like it. And each value that goes leaves a checksum, which what
/// is made again has to have: else the step stops.
SavedTensors::Proof SavedTensors::prove(
    SavedContent const& saved, SavedRecipe const& recipe, std::int64_t room_bytes
) {
    std::uint64_t const signature = recipe.recipe.signature();
    ProvedRecipes::Verdict const known = proved_.of(signature);
    if (!keeps(RecipeRule::kinds_are_tried_first)) {
        return Proof::same;
    }
    if (known != ProvedRecipes::Verdict::unknown) {
        return known == ProvedRecipes::Verdict::same ? Proof::same : Proof::differs;
    }
    std::optional<std::vector<c10::Storage>> sources;
    c10::Storage value;
    {
        MutexLock const lock(mutex_);
        SavedValue const* const entry = state_.values.find(saved.value);
        value = entry == nullptr ? c10::Storage() : storage_of(*entry);
        if (value) {
            come_after(*entry);
        }
        if (!has_what_was_saved(saved.value, recipe)) {
            return Proof::written;  // which says nothing of others like it
        }
        sources = sources_of(recipe);
    }
    std::int64_t const needed = recipe.recipe.transient_bytes() + saved.content->size_bytes;
    if (!value || !sources || needed > room_bytes) {
        return Proof::again;
    }
    bool is_same = false;
    try {
        Generators generators(recipe.recipe.has_allowed(), blocks_.place().device);
        Result<c10::Storage> const made = run(recipe, *sources);
        bool const has_drawn = generators.put_back();
        if (!made.ok() && made.error().code != Errc::corrupt) {
            return Proof::again;  // a setting was changed meanwhile, which says nothing of its bits
        }
        is_same = made.ok() && !has_drawn && has_same_bytes(*made, value);
    } catch (c10::OutOfMemoryError const&) {
        return Proof::again;  // another thread took the room meanwhile
    } catch (std::exception const& error) {
        switch (thrown_by_python(error)) {
            case Thrown::out_of_memory:
                return Proof::again;
            case Thrown::interrupt:
                throw;  // the program's
            case Thrown::other:
                is_same = false;  // it threw where it did not before
        }
    }
    proved_.add(signature, is_same);
    if (is_same) {
        measure_checksum(value);
    }
    return is_same ? Proof::same : Proof::differs;
}

void SavedTensors::measure_checksum(c10::Storage const& value) {
    LettingGo const here;
    try {
        checksums_.measure(value);
    } catch (std::exception const&) {  // another value's is measured
    }
}

/// When a value goes and when it comes back.
std::int64_t SavedTensors::checking_ns(std::int64_t size_bytes) const {
    return 2 * checksums_.ns_of(size_bytes);
}

/// A sum may allocate, and what makes room for that must not take another.
std::uint64_t SavedTensors::checksum_of(c10::Storage const& storage) {
    LettingGo const here;
    return checksums_.of(storage);
}

bool SavedTensors::is_letting_go() {
    return is_letting_go_here();
}

}  // namespace spillway
