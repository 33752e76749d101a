// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Values that are made again: where recipes come from, what they keep, and how they run.

#include "base/ordering_rules.h"
#include "base/units.h"
#include "torch_driver/autograd/saved_tensors.h"
#include "torch_driver/recorder/recipe_rules.h"

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// Of one recipe: a choice. Longer ones are made of shorter ones (Note [Recipes] in the executor).
constexpr std::size_t kMostCalls = 4;

/// Where whole blocks are made again: what lies between two saved values, as much as a norm written
/// in single operators, or a product with what scales and masks it.
constexpr std::size_t kMostCallsOfABlock = 16;

/// A source that is no value and no larger than this is copied: weights of norms, tables. Whatever
/// becomes of the original, the copy stays what it was. All copies of a recipe are at most this
/// share of the value that can go for it.
constexpr std::int64_t kMostCopiedBytes = 65536;
/// Of a parameter or buffer, where whole blocks are made again: larger ones are used in place.
constexpr std::int64_t kMostCopiedOfOwned = 4096;
constexpr std::int64_t kCopiedShare = 4;
/// What an operator of the step made is copied only below this share: else its operator runs again.
constexpr std::int64_t kCopiedShareOfMade = 64;

/// What helps where making again does not.
constexpr char const* kWithoutRecipes = "With recompute \"off\" nothing is made again";

std::exception_ptr& thrown_here() {
    static thread_local std::exception_ptr thrown;
    return thrown;
}

/// One for all recipes of it.
std::shared_ptr<CopiedSource> source_of(Content& content) {
    std::shared_ptr<CopiedSource> source = content.source.lock();
    if (source == nullptr) {
        source = std::make_shared<CopiedSource>(content.storage, content.size_bytes);
        content.source = source;
    }
    return source;
}

}  // namespace

std::size_t SavedTensors::most_calls() const {
    return makes_blocks_again_ ? kMostCallsOfABlock : kMostCalls;
}

/// Note [Parameters as sources]
/// A parameter or buffer that is too large to be copied is a source as it lies there, since plain
/// training does not write it between forward and backward. One that a program does write there (a
/// queue of keys that each forward changes) is copied before the operator runs that writes it, for
/// what was dropped by a recipe, and is no source from then on. A gradient, which backward writes,
/// is none as it lies, and nor is a buffer in memory that another library gave. A write that the
/// recorder does not see (on another thread, after the `with`, by no operator) is seen by the
/// checksum of what is made again, and the step stops.
bool SavedTensors::is_used_in_place(Content const& content) const {
    if (!makes_blocks_again_ || content.value.valid() || !content.is_of_before ||
        content.is_changing || content.size_bytes <= kMostCopiedOfOwned) {
        return false;
    }
    auto const storage = content.storage.lock();
    return storage != nullptr && is_used_as_it_lies(*storage);
}

bool SavedTensors::is_used_as_it_lies(c10::StorageImpl const& storage) const {
    std::optional<OwnedKind> const kind = owned_.kind_of(storage);
    // A buffer in NumPy's or another library's memory may be written unseen, also in plain
    // training.
    bool const is_watched = storage.resizable() || kind == OwnedKind::parameter;
    return kind && kind != OwnedKind::gradient && is_watched;
}

std::int64_t SavedTensors::copied_bytes(Recipe const& recipe) const {
    std::int64_t sum = 0;
    for (ContentRef const& content : recipe.sources()) {
        bool const is_copied = !content->value.valid() && !is_used_in_place(*content);
        sum += is_copied ? content->size_bytes : 0;
    }
    return sum;
}

std::exception_ptr SavedTensors::take_thrown() {
    return std::exchange(thrown_here(), nullptr);
}

c10::Storage SavedTensors::storage_of(SavedValue const& entry) {
    if (entry.held) {
        return entry.held;
    }
    bool const is_here = !entry.hooks.empty() && entry.hooks.front()->kept_.defined();
    return is_here ? entry.hooks.front()->kept_.storage() : c10::Storage();
}

/// Nobody refers to it, and no recipe needs it: it ends, and so may what it is made of.
bool SavedTensors::end_if_unused(ValueId value, SavedValue& entry, Ending& ending) {
    if (!entry.hooks.empty() || entry.recipe_pins > 0) {
        return false;
    }
    if (entry.held) {
        unbind(value, entry);
        ending.storages.push_back(std::exchange(entry.held, c10::Storage()));
    }
    if (entry.pins > 0) {
        return false;
    }
    unpin_sources(entry, ending);
    state_.values.erase(value);
    ending.ended.push_back(value);
    return true;
}

/// Of a value that has gone by its recipe.
void SavedTensors::unpin_sources(SavedValue& entry, Ending& ending) {
    if (!std::exchange(entry.checksum, std::nullopt)) {
        return;
    }
    std::shared_ptr<SavedRecipe const> const recipe = entry.recipe;
    for (ValueId const id : recipe->values()) {
        if (SavedValue* const source = state_.values.find(id)) {
            --source->recipe_pins;
            (void)end_if_unused(id, *source, ending);
        }
    }
}

void SavedTensors::end(Ending ending) noexcept {
    for (c10::Storage& storage : ending.storages) {
        wrapped_->let_go(std::move(storage));
    }
    for (ValueId const value : ending.ended) {
        on_dropped(value);
    }
}

/// What this thread saved since the last call, without what has gone.
std::vector<std::shared_ptr<SavedContent const>> SavedTensors::take_unmade(
    CallRecorder const& recorder
) {
    std::vector<std::shared_ptr<SavedContent const>> mine;
    MutexLock const lock(mutex_);
    std::erase_if(state_.unmade, [&](auto const& each) {
        if (each.first != &recorder) {
            return each.second.expired();
        }
        std::shared_ptr<SavedContent const> saved = each.second.lock();
        bool const is_known = saved != nullptr && saved->is_known;
        if (is_known) {
            mine.push_back(saved);
        }
        return saved == nullptr || is_known;
    });
    return mine;
}

void SavedTensors::add_unmade(
    CallRecorder const& recorder, std::shared_ptr<SavedContent const> const& saved
) {
    state_.unmade.emplace_back(&recorder, saved);
    if (state_.unmade.size() > 2 * state_.values.size() + 64) {  // nobody asked for long
        std::erase_if(state_.unmade, [](auto const& each) { return each.second.expired(); });
    }
}

/// A value that lives and that somebody saved of it, or what is small enough to be copied for
/// `wanted`: it was there before the step, or its bytes are still there and a copy is nearly
/// nothing.
bool SavedTensors::is_source(Content const& content, Content const& wanted) const {
    if (content.value.valid()) {
        SavedValue const* const entry = state_.values.find(content.value);
        return entry != nullptr && entry->content != nullptr && entry->content->is_known &&
               entry->content->content.get() == &content;
    }
    if (is_used_in_place(content)) {
        return true;
    }
    if (content.size_bytes > kMostCopiedBytes || content.storage.expired()) {
        return false;
    }
    bool const is_made = content.maker || content.why == NoMaker::not_listed;
    return content.is_of_before ||
           (is_made && content.size_bytes <= wanted.size_bytes / kCopiedShareOfMade);
}

std::variant<Recipe, Recipe::Refused> SavedTensors::recipe_of_calls(SavedContent const& saved) {
    MutexLock const lock(mutex_);
    Content const& wanted = *saved.content;
    auto const may_use = [&](Content const& content)
                             SPILLWAY_REQUIRES(mutex_) { return is_source(content, wanted); };
    return Recipe::of(saved.content, may_use, most_calls());
}

/// Makes copies, in the order of the streams that have `value`. Nothing: what is to be copied has
/// gone.
std::optional<std::vector<SavedRecipe::Source>> SavedTensors::kept_sources(
    Recipe const& recipe, ValueId value
) {
    StreamId writer;
    {
        MutexLock const lock(mutex_);
        if (SavedValue const* const entry = state_.values.find(value)) {
            come_after(*entry);
            writer = entry->user;
        }
    }
    std::vector<SavedRecipe::Source> sources;
    for (ContentRef const& content : recipe.sources()) {
        if (content->value.valid()) {
            sources.emplace_back(content->value);
            continue;
        }
        std::shared_ptr<CopiedSource> const source = source_of(*content);
        sources.emplace_back(source);
        if (is_used_in_place(*content)) {
            continue;
        }
        if (!source->make_copy()) {
            return std::nullopt;
        }
        MutexLock const lock(mutex_);
        blocks_.order(blocks_.device().current_stream(), writer);  // it may write it next
    }
    return sources;
}

/// Of one that is no saved value: "blocks.0.up.weight".
std::string SavedTensors::source_words(Content const& content) const {
    std::string const size = format_size(content.size_bytes);
    if (!is_used_in_place(content)) {
        return "a copy of " + size;
    }
    auto const storage = content.storage.lock();
    auto const name = storage ? owned_.name_of(*storage) : nullptr;
    return name ? *name : "a parameter or buffer of " + size;
}

SavedTensors::Sought SavedTensors::seek_recipe(SavedContent const& saved, std::int64_t room_bytes) {
    std::variant<Recipe, Recipe::Refused> found = recipe_of_calls(saved);
    if (auto const* const refused = std::get_if<Recipe::Refused>(&found)) {
        return {{}, false, log_.is_kept() ? words_of(*refused, *saved.content, most_calls()) : ""};
    }
    auto& recipe = std::get<Recipe>(found);
    std::string words;
    if (log_.is_kept()) {
        words = recipe.words([this](Content const& content) { return source_words(content); });
    }
    std::int64_t const copied = copied_bytes(recipe);
    if (copied > saved.content->size_bytes / kCopiedShare) {
        return {{}, false, "the copies for it would take more than a quarter of it"};
    }
    if (copied > room_bytes) {
        return {{}, true, {}};
    }
    std::optional<std::vector<SavedRecipe::Source>> sources = kept_sources(recipe, saved.value);
    if (!sources) {
        return {{}, false, "what it is made of has gone"};
    }
    auto made =
        std::make_shared<SavedRecipe const>(SavedRecipe{std::move(recipe), std::move(*sources)});
    switch (prove(saved, *made, room_bytes)) {
        case Proof::same:
            if (room_bytes > 0) {
                checksums_.prepare(blocks_.place().device, saved.content->size_bytes);
            }
            return {std::move(made), false, std::move(words)};
        case Proof::again:
            return {{}, true, {}};
        case Proof::written:
            return {{}, false, "it, or what it is made of, was written since"};
        case Proof::differs:
            break;
    }
    return {
        {},
        false,
        made->recipe.operators() +
            (made->recipe.has_allowed() ? " gave other bits, failed or drew random numbers"
                                        : " gave other bits") +
            " when it ran again"};
}

/// Nothing where one is away. The current stream is about to use them.
std::optional<std::vector<c10::Storage>> SavedTensors::sources_of(SavedRecipe const& recipe) {
    std::vector<c10::Storage> storages;
    for (SavedRecipe::Source const& source : recipe.sources) {
        auto const* const value = std::get_if<ValueId>(&source);
        SavedValue* const entry = value == nullptr ? nullptr : state_.values.find(*value);
        storages.push_back(
            value == nullptr   ? std::get<std::shared_ptr<CopiedSource>>(source)->storage()
            : entry == nullptr ? c10::Storage()
                               : storage_of(*entry)
        );
        c10::Storage const& storage = storages.back();
        if (!storage) {
            return std::nullopt;
        }
        if (keeps(OrderingRule::recompute_waits_for_sources)) {
            Device const& device = blocks_.device();
            blocks_.order(device.stream_of(storage.data()), device.current_stream());
        }
        if (entry != nullptr) {
            use_on_current_stream(*entry, *storage.unsafeGetStorageImpl());
        }
    }
    return storages;
}

/// Runs it on the current stream. Plain training does not know of this reader: the streams that the
/// sources' blocks belong to free them, and write them again, after it.
Result<c10::Storage> SavedTensors::run(
    SavedRecipe const& recipe, std::vector<c10::Storage> const& sources
) const {
    Device const& device = blocks_.device();
    auto const read = c10::make_scope_exit([&] {
        for (c10::Storage const& source : sources) {
            if (keeps(OrderingRule::sources_outlive_the_recompute)) {
                blocks_.order(device.current_stream(), device.stream_of(source.data()));
            }
        }
    });
    return recipe.recipe.run(sources);
}

/// What the current stream does next comes after what the streams have done that saved the value.
void SavedTensors::come_after(SavedValue const& entry) const {
    for (StreamId const stream : entry.streams) {
        if (keeps(OrderingRule::copies_wait_for_the_value)) {
            blocks_.order(stream, blocks_.device().current_stream());
        }
    }
}

void SavedTensors::make_recipes(std::int64_t room_bytes) {
    CallRecorder const* const recorder = recorder_here();
    if (recorder == nullptr) {
        return;
    }
    for (std::shared_ptr<SavedContent const> const& saved : take_unmade(*recorder)) {
        Sought sought;
        try {
            sought = seek_recipe(*saved, room_bytes);
        } catch (c10::OutOfMemoryError const&) {
            sought.again = true;
        }
        if (log_.is_kept() && !sought.again) {
            log_.add_recipe(
                saved->value,
                {.is_there = sought.recipe != nullptr,
                 .words = std::move(sought.words),
                 .exact_duration_ns = sought.recipe ? sought.recipe->recipe.exact_duration_ns(
                                                          checking_ns(saved->content->size_bytes)
                                                      )
                                                    : nullptr}
            );
        }
        MutexLock const lock(mutex_);
        SavedValue* const entry = state_.values.find(saved->value);
        if (entry != nullptr && sought.again) {
            add_unmade(*recorder, saved);
        } else if (entry != nullptr) {
            entry->recipe = std::move(sought.recipe);
            if (entry->recipe != nullptr && entry->could_leave) {
                state_.found_recipes.push_back(saved->value);
            }
        }
    }
}

/// Of values that are here, whole; of what has gone the copies of parameters and buffers, which the
/// model keeps, as long as nobody writes them. Any other original (a bias that autocast converted)
/// may go before it is needed.
bool SavedTensors::let_recipes_go() {
    std::vector<std::shared_ptr<SavedRecipe const>> going;  // ends after the lock
    std::vector<c10::Storage> copies;
    MutexLock const lock(mutex_);
    for (auto& [value, entry] : state_.values) {
        if (entry.recipe == nullptr) {
            continue;
        }
        SavedRecipe const& recipe = *entry.recipe;
        for (std::size_t i = 0; i < recipe.sources.size(); ++i) {
            auto const* const other =
                std::get_if<std::shared_ptr<CopiedSource>>(&recipe.sources[i]);
            if (other == nullptr || !(*other)->has_copy() ||
                recipe.recipe.sources()[i]->is_written) {
                continue;
            }
            c10::Storage const original = (*other)->original();
            if (original && is_used_as_it_lies(*original.unsafeGetStorageImpl())) {
                copies.push_back((*other)->let_go());
            }
        }
        if (!entry.checksum) {
            going.push_back(std::exchange(entry.recipe, {}));
        }
    }
    bool const has_sums = checksums_.let_go();
    return has_sums || !copies.empty();
}

OperatorSet SavedTensors::used_operators() const {
    MutexLock const lock(mutex_);
    return state_.used_operators;
}

std::int64_t SavedTensors::made_again() const {
    MutexLock const lock(mutex_);
    return state_.made_again;
}

std::vector<ValueId> SavedTensors::found_recipes() {
    MutexLock const lock(mutex_);
    return std::exchange(state_.found_recipes, {});
}

std::optional<ValueRecipe> SavedTensors::recipe_of(ValueId value) {
    MutexLock const lock(mutex_);
    SavedValue const* const entry = state_.values.find(value);
    if (entry == nullptr || entry->recipe == nullptr) {
        return std::nullopt;
    }
    Recipe const& recipe = entry->recipe->recipe;
    return ValueRecipe{
        {.sources = entry->recipe->values(),
         .calls = static_cast<std::int64_t>(recipe.calls()),
         .duration_ns = recipe.duration_ns() + checking_ns(entry->size_bytes),
         .transient_bytes = recipe.transient_bytes()},
        entry->size_bytes};
}

/// It has not gone, and nobody wrote to it before the graph alone held it.
bool SavedTensors::is_as_saved(ValueId value) const {
    SavedValue const* const entry = state_.values.find(value);
    return entry != nullptr && entry->content != nullptr && !entry->content->is_written();
}

bool SavedTensors::has_what_was_saved(ValueId value, SavedRecipe const& recipe) const {
    std::vector<ValueId> const sources = recipe.values();
    auto const is_usable = [this](ValueId id) SPILLWAY_REQUIRES(mutex_) { return is_as_saved(id); };
    return is_as_saved(value) && !recipe.is_written() &&
           std::all_of(sources.begin(), sources.end(), is_usable);
}

bool SavedTensors::keep_recipe(ValueId value) {
    c10::Storage storage;
    {
        MutexLock const lock(mutex_);
        SavedValue* const entry = state_.values.find(value);
        bool const has_recipe = entry != nullptr && entry->recipe != nullptr && storage_of(*entry);
        if (!has_recipe || !is_unshared(*entry) || !has_what_was_saved(value, *entry->recipe)) {
            return false;
        }
        for (ValueId const id : entry->recipe->values()) {
            ++state_.values.find(id)->recipe_pins;
        }
        entry->checksum = 0;
        storage = storage_of(*entry);
        come_after(*entry);
    }
    std::uint64_t checksum = 0;
    try {
        checksum = checksum_of(storage);
    } catch (std::exception const&) {
        Ending ending;  // the device has no room for it, or has failed
        {
            MutexLock const lock(mutex_);
            if (SavedValue* const entry = state_.values.find(value)) {
                unpin_sources(*entry, ending);
            }
        }
        end(std::move(ending));
        return false;
    }
    MutexLock const lock(mutex_);
    SavedValue* const entry = state_.values.find(value);
    if (entry == nullptr) {
        return false;  // another thread freed the graph meanwhile, and with it what was kept
    }
    entry->checksum = checksum;
    entry->recipe->recipe.add_operators(state_.used_operators);
    return true;
}

Result<std::int64_t> SavedTensors::recompute(ValueId value) {
    std::shared_ptr<SavedRecipe const> recipe;
    std::optional<std::vector<c10::Storage>> sources;
    std::uint64_t checksum = 0;
    {
        MutexLock const lock(mutex_);
        SavedValue const* const entry = state_.values.find(value);
        if (entry == nullptr || !entry->checksum) {
            return Error{Errc::cancelled, "nothing refers to the value any more", ""};
        }
        recipe = entry->recipe;
        checksum = *entry->checksum;
        sources = sources_of(*recipe);
    }
    if (!sources) {
        return Error{
            Errc::broken_promise,
            describe(value) + " cannot be made again by " + recipe->recipe.operators() +
                ": what it is made of has been freed. " + kWithoutRecipes,
            ""};
    }
    Result<c10::Storage> made = Error{Errc::unsupported, "", ""};
    bool is_same = false;
    try {  // the checksum may allocate, too
        made = run(*recipe, *sources);
        if (made.ok()) {
            checksums_.prepare(made->device(), static_cast<std::int64_t>(made->nbytes()));
            is_same = checksum_of(*made) == checksum || !keeps(RecipeRule::checksums_are_compared);
        }
    } catch (std::exception const& failure) {
        thrown_here() = std::current_exception();
        return Error{Errc::unsupported, failure.what(), ""};
    }
    if (!made.ok()) {
        return made.error();
    }
    if (!is_same) {
        proved_.add(recipe->recipe.signature(), false);
        return Error{
            Errc::broken_promise,
            describe(value) + " is not what it was after " + recipe->recipe.operators() +
                " ran again: it, or a parameter or buffer that it is made of, was written before "
                "backward needed it, or a setting of PyTorch was changed. " +
                kWithoutRecipes,
            ""};
    }
    Ending ending;
    {
        MutexLock const lock(mutex_);
        ++state_.made_again;
        if (SavedValue* const entry = state_.values.find(value)) {
            StreamId const current = blocks_.device().current_stream();
            put_back(value, *entry, blocks_.came_back(std::move(*made), entry->home));
            entry->streams = {current};
            entry->made_on = current;
            unpin_sources(*entry, ending);
        }
    }
    end(std::move(ending));
    return static_cast<std::int64_t>(recipe->recipe.calls());
}

}  // namespace spillway
