// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/call_recorder.h"

#include "torch_driver/recorder/copied_source.h"
#include "torch_driver/recorder/operator_callback.h"
#include "torch_driver/recorder/recipe_rules.h"
#include "torch_driver/recorder/tensors_of.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <utility>

namespace spillway {

namespace {

std::shared_ptr<CallRecorder>& recorder_now() {
    static thread_local std::shared_ptr<CallRecorder> now;
    return now;
}

/// Null, too, where its recording was ended elsewhere.
CallRecorder* recorder_that_goes_on() {
    std::shared_ptr<CallRecorder>& now = recorder_now();
    if (now != nullptr && !now->goes_on()) {
        now.reset();
    }
    return now.get();
}

bool is_below_autograd() {
    return c10::impl::tls_local_dispatch_key_set().excluded_.has(
        c10::DispatchKey::AutogradFunctionality
    );
}

/// Null where it has none, or one whose size is no number (a tracer's).
c10::StorageImpl const* storage_of(at::Tensor const& tensor) {
    bool const has_bytes =
        tensor.has_storage() && !tensor.storage().sym_nbytes().is_heap_allocated();
    return has_bytes ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

/// Bytes alone: no further dispatch keys, no meaning beside what its storage holds.
bool is_plain(at::Tensor const& tensor) {
    if (!keeps(RecipeRule::special_tensors_are_not_made)) {
        return true;
    }
    c10::DispatchKeySet const keys = tensor.key_set() -
                                     c10::autograd_dispatch_keyset_with_ADInplaceOrView -
                                     c10::autocast_dispatch_keyset;
    return tensor.layout() == c10::kStrided && storage_of(tensor) != nullptr &&
           !tensor.is_inference() && !tensor.is_quantized() &&
           keys == c10::DispatchKeySet(c10::computeDispatchKey(
                       c10::typeMetaToScalarType(tensor.dtype()), c10::kStrided, tensor.device()
                   ));
}

/// Calls `visit` for each tensor of a list of lists.
template <typename Visit>
void each_nested(c10::IValue const& value, Visit const& visit) {
    if (!value.isList()) {
        return;
    }
    for (c10::IValue const& element : value.toListRef()) {
        if (element.isTensor() && element.toTensor().defined()) {
            visit(element.toTensor());
        }
        each_nested(element, visit);
    }
}

std::uint32_t version_of(at::Tensor const& tensor) {
    c10::VariableVersion const& version = tensor.unsafeGetTensorImpl()->version_counter();
    return version.enabled() ? version.current_version() : 0;
}

/// Every byte of its storage belongs to one element of it.
bool covers_storage(at::Tensor const& tensor) {
    return tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
           static_cast<std::size_t>(tensor.nbytes()) == tensor.storage().nbytes();
}

/// What torch made of a Python number: it steers type promotion, and nobody can write it.
bool is_number(at::Tensor const& tensor) {
    return tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
           keeps(RecipeRule::numbers_stay_numbers);
}

/// A place for tensors, without them, but for numbers.
c10::IValue without_tensors(c10::IValue const& argument) {
    if (argument.isTensorList()) {
        c10::List<at::Tensor> list;
        list.resize(argument.toListRef().size());
        return list;
    }
    if (argument.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        list.resize(argument.toListRef().size());
        return list;
    }
    bool const has_bytes =
        argument.isTensor() && argument.toTensor().defined() && !is_number(argument.toTensor());
    return has_bytes ? c10::IValue() : argument;
}

/// A clone of the generator that the operator is about to draw from.
std::optional<at::Generator> generator_of(
    OperatorFacts const& facts, c10::ArrayRef<c10::IValue const> arguments
) {
    c10::IValue const& given = arguments[static_cast<std::size_t>(*facts.generator)];
    at::Generator generator;
    if (given.isGenerator()) {
        generator = given.toGenerator();
    } else {
        each_tensor(arguments, [&](int, int, at::Tensor const& tensor) {
            if (!generator.defined()) {
                generator = at::globalContext().defaultGenerator(tensor.device());
            }
        });
    }
    if (!generator.defined()) {
        return std::nullopt;  // a factory: on which device is in an argument that has no tensor
    }
    std::scoped_lock const lock(generator.mutex());
    return keeps(RecipeRule::generators_are_cloned) ? generator.clone() : generator;
}

/// It draws from PyTorch's own generator, by an argument that says so.
bool drops_out(OperatorFacts const& facts, std::vector<c10::IValue> const& arguments) {
    if (!facts.dropout) {
        return false;
    }
    c10::IValue const& share = arguments[static_cast<std::size_t>(*facts.dropout)];
    return !share.isDouble() || share.toDouble() > 0;
}

/// Contents and calls refer to one another in chains as long as a step: they end one by one. What
/// the thread keeps for it has no destructor, since an exception leaves a graph in torch's queues
/// of a thread, and that ends at the thread's exit.
void end_in_turn(c10::intrusive_ptr<Call>&& maker) {
    using Makers = std::vector<c10::intrusive_ptr<Call>>;
    static thread_local Makers* waiting = nullptr;
    if (waiting) {
        waiting->push_back(std::move(maker));
        return;
    }
    Makers makers;
    waiting = &makers;
    { c10::intrusive_ptr<Call> const first = std::move(maker); }
    while (!makers.empty()) {
        c10::intrusive_ptr<Call> const next = std::move(makers.back());
        makers.pop_back();
    }
    waiting = nullptr;
}

}  // namespace

Content::~Content() {
    if (maker) {
        end_in_turn(std::move(maker));
    }
}

ContentRef CallRecorder::content_of(c10::StorageImpl const* storage) const {
    auto const at = contents_.find(storage);
    return at == contents_.end() ? ContentRef() : at->second;
}

std::shared_ptr<SavedContent> CallRecorder::saved(
    at::Tensor const& tensor, ValueId value, bool is_output
) {
    auto saved = std::make_shared<SavedContent>(
        value, tensor.unsafeGetTensorImpl()->version_counter(), forward_
    );
    c10::StorageImpl const* const storage = storage_of(tensor);
    bool const is_made_later = is_output && !(depth_ > 0 && open_[depth_ - 1].is_left_out) &&
                               keeps(RecipeRule::results_are_known_at_the_end);
    if (only_ != nullptr && !is_made_later) {
        (void)content(tensor);  // its operator may be one of those that are left out
    }
    ContentRef const now = is_made_later ? ContentRef() : content_of(storage);
    if (now || depth_ == 0) {
        fill_in(*saved, now ? now : content_of(storage));
    } else {
        open_[depth_ - 1].saves.emplace_back(storage, saved);
    }
    return saved;
}

void CallRecorder::fill_in(SavedContent& saved, ContentRef const& content) {
    if (content) {
        content->value = saved.value;
        saved.content = content;
        saved.is_known = true;
    }
}

void CallRecorder::begin_step() {
    for (auto const& [storage, content] : contents_) {
        content->is_replaced = true;  // for all that is known from here on
    }
    contents_.clear();
}

/// Above autograd, or in no operator that is: Python calls factories below it, which are made of
/// others.
bool CallRecorder::is_recorded() const {
    if (depth_ == 0 || !is_below_autograd() || !keeps(RecipeRule::innermost_above_autograd)) {
        return true;
    }
    Open const& around = open_[depth_ - 1];
    return keeps(RecipeRule::factories_below_autograd) && around.is_below &&
           around.facts != nullptr && replay_of(*around.facts) == Replay::unknown;
}

/// `costly` is `unknown` where such operators do not run again.
Replay CallRecorder::replay_of(OperatorFacts const& facts) const {
    return facts.replay == Replay::costly && !runs_costly_ ? Replay::unknown : facts.replay;
}

bool CallRecorder::is_left_out(OperatorFacts const* facts) const {
    bool const writes = facts != nullptr && !facts->written.empty() &&
                        keeps(RecipeRule::left_out_operators_may_write);
    return only_ != nullptr && facts != nullptr && !writes && only_->count(facts) == 0;
}

void CallRecorder::begins(at::RecordFunction const& function) {
    OperatorFacts const* const facts = facts_of(function);
    bool const may_write =
        facts == nullptr ? function.operator_name().has_value() : !facts->written.empty();
    if (may_write && keeps(RecipeRule::sources_are_copied_in_time)) {
        copy_sources(facts, function.inputs());
    }
    if (!is_recorded()) {
        if (may_write && keeps(RecipeRule::writes_below_autograd_are_seen)) {
            note_hidden_writes(facts, function.inputs());
        }
        return;
    }
    if (depth_ == 0) {
        forget_unused();
    }
    if (depth_ == open_.size()) {
        open_.emplace_back();
    }
    Open& open = open_[depth_++];
    open.function = &function;
    open.facts = c10::impl::TorchDispatchModeTLS::any_modes_set() ? nullptr : facts;
    open.is_foreign = open.facts == nullptr && function.operator_name().has_value() &&
                      keeps(RecipeRule::other_libraries_may_write);
    open.is_below = is_below_autograd();
    open.exceptions = std::uncaught_exceptions();
    open.first_content = next_number_;
    open.hidden_writes.clear();
    open.given.clear();
    open.generator.reset();
    open.saves.clear();
    open.is_left_out = is_left_out(open.facts);
    if (open.is_left_out) {
        open.arguments.clear();
        return;
    }
    ++recorded_calls_;
    open.arguments.assign(function.inputs().begin(), function.inputs().end());
    each_tensor(open.arguments, [&](int, int, at::Tensor const& tensor) {
        open.given.push_back({storage_of(tensor), version_of(tensor)});
    });
    open.timer.begins(open.arguments);
    if (open.facts != nullptr && open.facts->replay == Replay::draws) {
        open.generator = generator_of(*open.facts, function.inputs());
    }
}

/// Recipes have what is about to be written as it lies there: from now on they have a copy.
void CallRecorder::copy_sources(
    OperatorFacts const* facts, c10::ArrayRef<c10::IValue const> arguments
) {
    each_tensor(arguments, [&](int argument, int, at::Tensor const& tensor) {
        if (facts != nullptr && !facts->writes(argument)) {
            return;
        }
        ContentRef const content = content_of(storage_of(tensor));
        if (auto const source = content ? content->source.lock() : nullptr) {
            try {
                (void)source->make_copy();
            } catch (c10::OutOfMemoryError const&) {  // checksums tell what comes of it
            }
        }
    });
}

/// An operator below autograd, inside one that is recorded, writes: what that one writes by its
/// schema is seen at its end, and nothing else may be.
void CallRecorder::note_hidden_writes(
    OperatorFacts const* facts, c10::ArrayRef<c10::IValue const> arguments
) {
    each_tensor(arguments, [&](int argument, int, at::Tensor const& tensor) {
        c10::StorageImpl const* const storage = storage_of(tensor);
        bool const is_written = facts == nullptr || facts->writes(argument);
        if (is_written && contents_.count(storage) != 0) {
            open_[depth_ - 1].hidden_writes.emplace_back(tensor, storage);
        }
    });
}

void CallRecorder::ends(at::RecordFunction const& function) {
    if (depth_ == 0 || open_[depth_ - 1].function != &function) {
        return;
    }
    Open& open = open_[--depth_];
    if (open.is_left_out) {
        see_writes(open, next_number_, {{}, NoMaker::not_planned, nullptr});  // hidden ones
    } else {
        finish(open, function.outputs());
    }
    bool const has_thrown = std::uncaught_exceptions() > open.exceptions;
    for (auto& [storage, saved] : open.saves) {
        ContentRef const content = has_thrown ? ContentRef() : content_of(storage);
        if (content || depth_ == 0 || has_thrown) {
            fill_in(*saved, content);
        } else {  // a Function inside an operator, whose result is known at its own end
            open_[depth_ - 1].saves.emplace_back(storage, std::move(saved));
        }
    }
    open.saves.clear();
    open.arguments.clear();
    open.given.clear();
    open.hidden_writes.clear();
    open.generator.reset();
}

void CallRecorder::finish(Open& open, std::vector<c10::IValue> const& results) {
    bool const has_thrown = std::uncaught_exceptions() > open.exceptions;
    std::int64_t const end_of_inner = next_number_;
    c10::SmallVector<Made, 2> const made = results_of(open, results);
    bool const writes = open.facts != nullptr && !open.facts->written.empty();
    Maker maker{{}, NoMaker::not_listed, nullptr};
    if ((!made.empty() || writes) &&
        (!has_thrown || !keeps(RecipeRule::failed_operators_make_nothing))) {
        maker = maker_of(open);
    }
    maker.by = open.facts;
    see_writes(open, end_of_inner, maker);
    for (Made const& each : made) {
        Content& content = fresh_content(each.tensor);
        content.output = each.output;
        bool const is_special = maker.why == NoMaker::none && !is_plain(each.tensor);
        content.why = is_special ? NoMaker::special_tensor : maker.why;
        content.by = maker.by;
        content.maker = content.why == NoMaker::none ? maker.call : c10::intrusive_ptr<Call>();
    }
}

/// The results that are nobody else's: no views of arguments, and made by none of the operators
/// inside. What an allowed one has from one of those, and nobody can make, it filled itself.
c10::SmallVector<CallRecorder::Made, 2> CallRecorder::results_of(
    Open const& open, std::vector<c10::IValue> const& results
) const {
    c10::SmallVector<Made, 2> made;
    int output = 0;
    each_tensor(results, [&](int, int, at::Tensor const& tensor) {
        c10::StorageImpl const* const storage = storage_of(tensor);
        bool const is_argument =
            std::any_of(open.given.begin(), open.given.end(), [&](Given const& each) {
                return each.storage == storage;
            });
        ContentRef const known = content_of(storage);
        bool const is_filled = known && open.facts != nullptr && open.facts->allowed &&
                               known->number >= open.first_content && !known->maker;
        bool const is_there =
            (is_argument || (known && !is_filled)) && keeps(RecipeRule::views_are_not_made);
        if (storage != nullptr && !is_there) {
            made.push_back({tensor, output});
        }
        ++output;
    });
    return made;
}

CallRecorder::Maker CallRecorder::maker_of(Open& open) {
    if (open.facts != nullptr && open.facts->replay == Replay::allocates &&
        keeps(RecipeRule::buffers_are_not_made)) {
        return {{}, NoMaker::external, nullptr};  // what it holds is written later, by whatever
    }
    if (open.facts == nullptr || replay_of(*open.facts) == Replay::unknown) {
        bool const draws = open.facts != nullptr && open.facts->draws_without_generator;
        return {{}, draws ? NoMaker::no_generator : NoMaker::not_listed, nullptr};
    }
    if (drops_out(*open.facts, open.arguments) && keeps(RecipeRule::dropout_needs_a_generator)) {
        return {{}, NoMaker::no_generator, nullptr};
    }
    if (open.facts->replay == Replay::draws && !open.generator) {
        return {{}, NoMaker::no_generator, nullptr};
    }
    auto call = c10::make_intrusive<Call>(*open.facts);
    NoMaker why = NoMaker::none;
    bool const is_norm = open.facts->replay == Replay::batch_norm;
    each_tensor(open.arguments, [&](int argument, int element, at::Tensor const& tensor) {
        NoMaker no = NoMaker::none;
        if (!is_norm || !writes(open, argument) || !keeps(RecipeRule::norms_leave_statistics)) {
            no = add_tensor(*call, argument, element, tensor);
        } else if (tensor.scalar_type() != open.arguments[0].toTensor().scalar_type() && keeps(RecipeRule::statistics_have_one_precision)) {
            no = NoMaker::special_tensor;  // it runs otherwise without its statistics
        }
        why = why == NoMaker::none ? no : why;
    });
    if (why != NoMaker::none) {
        return {{}, why, nullptr};
    }
    if (open.facts->allowed && at::autocast::is_autocast_enabled(call->device())) {
        return {{}, NoMaker::under_autocast, nullptr};
    }
    ++kept_calls_;
    call->generator = std::move(open.generator);
    call->ambient = Ambient::now();
    if (open.facts->replay == Replay::costly) {
        call->products = ProductSettings::now(call->device());
    }
    call->time = open.timer.ends();
    call->arguments.reserve(open.arguments.size());
    for (c10::IValue const& argument : open.arguments) {
        call->arguments.push_back(without_tensors(argument));
    }
    return {std::move(call), NoMaker::none, nullptr};
}

NoMaker CallRecorder::add_tensor(Call& call, int argument, int element, at::Tensor const& tensor) {
    OperatorFacts const& facts = call.facts;
    if (is_number(tensor)) {  // it is kept itself
        return element < 0 ? NoMaker::none : NoMaker::special_tensor;
    }
    if (!is_plain(tensor)) {
        return NoMaker::special_tensor;
    }
    TensorArgument made{
        .argument = argument,
        .element = element,
        .content = content(tensor),
        .geometry = geometry_of(tensor),
        .device = tensor.device(),
        .storage_bytes = static_cast<std::int64_t>(tensor.storage().nbytes())};
    bool const is_resized = made.content->size_bytes != made.storage_bytes &&
                            keeps(RecipeRule::resized_storages_are_others);
    if (facts.writes(argument) && facts.replay != Replay::batch_norm) {
        made.is_overwritten = facts.overwrites && (covers_storage(tensor) ||
                                                   !keeps(RecipeRule::overwriting_needs_the_whole));
        if (made.is_overwritten && facts.fills) {
            return NoMaker::external;
        }
        bool const was_made = (made.content->maker && !is_resized) || made.is_overwritten;
        for (TensorArgument const& other : call.tensors) {
            if ((other.content == made.content || call.written) &&
                keeps(RecipeRule::one_argument_on_what_is_written)) {
                return NoMaker::written_twice;
            }
        }
        call.written = static_cast<int>(call.tensors.size());
        call.tensors.push_back(std::move(made));
        return was_made || !keeps(RecipeRule::parts_show_what_was_before) ? NoMaker::none
                                                                          : NoMaker::partly_written;
    }
    bool const is_also_written =
        call.written && keeps(RecipeRule::one_argument_on_what_is_written) &&
        call.tensors[static_cast<std::size_t>(*call.written)].content == made.content;
    call.tensors.push_back(std::move(made));
    return is_also_written ? NoMaker::written_twice
           : is_resized    ? NoMaker::unseen_write
                           : NoMaker::none;
}

bool CallRecorder::writes(Open const& open, int argument) {
    if (open.facts == nullptr || !open.facts->writes(argument)) {
        return false;
    }
    return open.facts->replay != Replay::batch_norm ||
           open.arguments[static_cast<std::size_t>(kIsTraining)].toBool();
}

/// Storages that hold another content from now on. What an operator inside wrote is seen already.
void CallRecorder::see_writes(Open const& open, std::int64_t end_of_inner, Maker const& maker) {
    c10::SmallVector<c10::StorageImpl const*, 2> written;
    Maker const unseen{{}, NoMaker::unseen_write, nullptr};
    auto const write = [&](at::Tensor const& tensor,
                           c10::StorageImpl const* storage,
                           Maker const& by) {
        auto const known = contents_.find(storage);
        bool const is_seen =
            known != contents_.end() && !open.is_foreign && !known->second->was_there &&
            known->second->number >= open.first_content && known->second->number < end_of_inner;
        bool const is_twice = std::find(written.begin(), written.end(), storage) != written.end();
        bool const is_its_own =
            storage_of(tensor) == storage || !keeps(RecipeRule::set_writes_no_byte);
        if (is_its_own && !is_seen && !is_twice) {  // `set_` writes no bytes
            wrote(tensor, by);
            written.push_back(storage);
        }
    };
    std::size_t i = 0;
    each_tensor(open.arguments, [&](int argument, int, at::Tensor const& tensor) {
        c10::StorageImpl const* const storage = open.given[i++].storage;
        if (writes(open, argument) && keeps(RecipeRule::written_storages_hold_another)) {
            bool const is_unseen = maker.why == NoMaker::none && !maker.call->written;
            write(tensor, storage, is_unseen ? unseen : maker);
        }
    });
    i = 0;
    each_tensor(open.arguments, [&](int, int, at::Tensor const& tensor) {
        Given const& given = open.given[i++];
        bool const has_moved =
            version_of(tensor) != given.version && keeps(RecipeRule::moved_versions_are_writes);
        if (open.is_foreign || has_moved) {
            write(tensor, given.storage, unseen);
        }
    });
    if (open.is_foreign) {
        for (c10::IValue const& argument : open.arguments) {
            each_nested(argument, [&](at::Tensor const& tensor) {
                write(tensor, storage_of(tensor), unseen);
            });
        }
    }
    for (auto const& [tensor, storage] : open.hidden_writes) {
        write(tensor, storage, unseen);
    }
}

void CallRecorder::wrote(at::Tensor const& tensor, Maker const& maker) {
    if (storage_of(tensor) == nullptr) {
        return;
    }
    // Where all that was saved is forgotten, nothing is made again of what it was.
    bool const is_in_forward = forward_->is_under_way.load(std::memory_order_relaxed) &&
                               forward_->saved.load(std::memory_order_relaxed) > 0;
    if (ContentRef const before = content_of(storage_of(tensor))) {
        before->is_replaced = true;
        before->is_written = true;
        if (before->is_of_before && is_in_forward) {
            before->is_changing = true;
            changing_.insert(storage_of(tensor));
        }
    }
    Content& content = fresh_content(tensor);
    content.output = Content::kWritten;
    content.maker = maker.call;
    content.why = maker.why;
    content.by = maker.by;
    content.is_of_before = !is_in_forward;
    content.is_changing = changing_.count(storage_of(tensor)) != 0;
}

ContentRef CallRecorder::content(at::Tensor const& tensor) {
    c10::StorageImpl const* const storage = storage_of(tensor);
    if (ContentRef known = content_of(storage)) {
        return known;
    }
    Content& fresh = fresh_content(tensor);
    fresh.was_there = true;
    fresh.is_of_before = true;
    fresh.why = only_ == nullptr ? NoMaker::external : NoMaker::not_planned;
    fresh.is_changing = changing_.count(storage) != 0;
    return contents_.at(storage);
}

/// Lets go of what nothing refers to, whenever twice as much is there as after the last time.
void CallRecorder::sweep() {
    if (contents_.size() < sweep_at_) {
        return;
    }
    for (auto at = contents_.begin(); at != contents_.end();) {
        bool const is_gone = at->second.use_count() == 1 && at->second->storage.expired();
        at = is_gone ? contents_.erase(at) : std::next(at);
    }
    sweep_at_ = std::max(kLeastSweep, 2 * contents_.size());
}

/// What a living tensor holds keeps all calls that led to it: a sum of losses, every step's. So now
/// and then what no saved tensor and no call refers to is as if it had been there before.
void CallRecorder::forget_unused() {
    bool const is_saved = forward_->saved.load(std::memory_order_relaxed) > 0;
    if (kept_calls_ < (is_saved ? kMostMakers : kMostUnsaved)) {
        return;
    }
    kept_calls_ = 0;
    std::vector<std::pair<c10::StorageImpl const*, std::int64_t>> going;
    for (auto const& [storage, content] : contents_) {
        if (content.use_count() == 1 || content->storage.expired()) {
            going.emplace_back(storage, content->number);
        }
    }
    // What was made of others ends before them.
    std::sort(going.begin(), going.end(), [](auto const& one, auto const& other) {
        return one.second > other.second;
    });
    for (auto const& [storage, number] : going) {
        if (auto const at = contents_.find(storage); at->second.use_count() == 1) {
            contents_.erase(at);
        }
    }
}

Content& CallRecorder::fresh_content(at::Tensor const& tensor) {
    sweep();
    auto content =
        c10::make_intrusive<Content>(tensor.storage().getWeakStorageImpl(), next_number_++);
    content->size_bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
    ContentRef& entry = contents_[storage_of(tensor)];
    entry = std::move(content);
    return *entry;
}

namespace {

std::unique_ptr<at::ObserverContext> call_begins(at::RecordFunction const& function) {
    if (CallRecorder* const recorder = recorder_that_goes_on()) {
        recorder->begins(function);
    }
    return nullptr;
}

void call_ends(at::RecordFunction const& function, at::ObserverContext*) {
    if (CallRecorder* const recorder = recorder_that_goes_on()) {
        recorder->ends(function);
    }
}

}  // namespace

CallRecorder* recorder_here() {
    return recorder_that_goes_on();
}

CallRecording::CallRecording(std::shared_ptr<CallRecorder> recorder)
    : recorder_(std::move(recorder)), outer_(std::exchange(recorder_now(), recorder_)) {
    if (outer_ != recorder_) {
        recorder_->leave_open();
    }
    recorder_->go_on(true);
    at::RecordFunctionCallback callback(&call_begins, &call_ends);
    callback.needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION});
    if (!OperatorCallback::is_there_one(callback)) {
        callback_ = std::make_unique<OperatorCallback>(callback);
    }
}

CallRecording::~CallRecording() {
    if (recorder_now() != recorder_) {
        recorder_->go_on(false);
        return;
    }
    if (outer_ != nullptr && outer_ != recorder_ && keeps(RecipeRule::others_may_have_written)) {
        outer_->begin_step();  // it has not seen what was written meanwhile
    }
    recorder_now() = std::move(outer_);
}

UnrecordedCalls::UnrecordedCalls() : outer_(recorder_now()) {
    if (keeps(RecipeRule::own_work_is_not_recorded)) {
        recorder_now() = nullptr;
    }
}

UnrecordedCalls::~UnrecordedCalls() {
    recorder_now() = std::move(outer_);
}

}  // namespace spillway
