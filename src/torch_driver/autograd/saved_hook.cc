// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/saved_hook.h"

#include "torch_driver/autograd/engine.h"
#include "torch_driver/autograd/handed_out.h"
#include "torch_driver/autograd/steal_guard.h"
#include "torch_driver/autograd/written_in_place.h"
#include "torch_driver/origin/generated_node.h"
#include "torch_driver/python/python_lock.h"
#include "torch_driver/python/python_state.h"
#include "torch_driver/recorder/observer.h"
#include "torch_driver/session/torch_session.h"

#include <ATen/SequenceNumber.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <typeinfo>

namespace spillway {

namespace {

/// Whether a node of torch's own asks, which never writes what it saved. Others may: a Function, or
/// Python that reads a node's attribute, also in a hook of the node that runs.
bool is_asked_by_torch(torch::autograd::Node const* running) {
    return running != nullptr && is_generated(typeid(*running)) && !holds_python_lock();
}

/// A kind that is not plain, whose shallow copies are as good as itself.
bool is_copied_whole(at::Tensor const& tensor) {
    return tensor.is_conj() || tensor.is_neg() || tensor.is_sparse() ||
           at::sparse_csr::is_sparse_compressed(tensor);
}

/// As SavedVariable::unpack does.
bool torch_will_wrap(at::Tensor const& tensor) {
    return tensor.requires_grad() || tensor._fw_grad(0).defined();
}

/// One that torch returns as it is, since it wants no gradient.
at::Tensor guarded_copy(at::Tensor const& tensor) {
    at::Tensor copy = shallow_copy(tensor, torch::autograd::impl::version_counter(tensor));
    guard_from_stealing(copy);
    return copy;
}

Origin origin_of(at::Tensor const& tensor) {
    auto const* const meta = torch::autograd::impl::get_autograd_meta(tensor);
    if (meta == nullptr || meta->grad_fn_ == nullptr) {
        return {};
    }
    torch::autograd::Node const& node = *meta->grad_fn_;
    return {&typeid(node), meta->output_nr_, node.sequence_nr(), node.thread_id()};
}

bool is_copy_slices(torch::autograd::Node const& node) {
    return typeid(node) == typeid(torch::autograd::CopySlices);
}

/// The number of the CopySlices that wrote `tensor`, a view, in place; 0: it is none that was
/// written. Torch makes the nodes of the written view anew, in one go, right after it made that
/// one; those of other views of the base later.
std::uint64_t number_of_writer(at::Tensor const& tensor) {
    auto const* const meta = torch::autograd::impl::get_autograd_meta(tensor);
    if (meta == nullptr || !meta->is_view_ || meta->grad_fn_ == nullptr) {
        return 0;
    }
    torch::autograd::Node const* node = meta->grad_fn_.get();
    while (node->num_outputs() == 1) {
        torch::autograd::Node const* const before = node->next_edge(0).function.get();
        if (before == nullptr || before->sequence_nr() + 1 != node->sequence_nr() ||
            before->thread_id() != node->thread_id()) {
            return 0;
        }
        if (is_copy_slices(*before)) {
            return before->sequence_nr();
        }
        node = before;
    }
    return 0;
}

/// Whether the node that made `tensor` is the one that saves it now. That one has just taken its
/// number, unless it is a Function that recorded others in its forward; what such a Function saves
/// is no output of those, so under Python's lock the maker has to be a Function, and one that saves
/// now: with that lock save Functions, and torch's checkpoint, which makes no node.
bool is_saved_by_its_maker(Origin const& origin, at::Tensor const& given) {
    return origin.node != nullptr && origin.number + 1 == at::sequence_number::peek() &&
           origin.thread == at::RecordFunction::currentThreadId() &&
           (!holds_python_lock() ||
            (is_python_function(*origin.node) && is_saved_by_its_function(given)));
}

}  // namespace

SavedHook::SavedHook(std::shared_ptr<TorchSession> session)
    : session_(std::move(session)), storage_(c10::intrusive_ptr<c10::StorageImpl>()) {}

SavedHook::~SavedHook() {
    end_idle_guards();  // its node has run
    if (value_.valid()) {
        session_->saved_tensors().forget(*this);
    } else if (passed_at_ != kNotListed) {
        session_->saved_tensors().forget_passed(*this);
    }
}

void SavedHook::call_pack_hook(at::Tensor const& given) {
    saved_version_ = torch::autograd::impl::version_counter(given).current_version();
    origin_ = origin_of(given);
    is_output_ = is_saved_by_its_maker(origin_, given);
    // Of a node's own output plain autograd keeps a copy, which a TorchDispatchMode sees made, and
    // may make otherwise; of others the tensor itself.
    bool const is_made_by_mode = is_output_ && c10::impl::TorchDispatchModeTLS::any_modes_set();
    at::Tensor const made = is_made_by_mode
                                ? shallow_copy(given, torch::autograd::impl::version_counter(given))
                                : at::Tensor();
    at::Tensor const& tensor = is_made_by_mode ? made : given;
    writer_number_ = is_output_ ? 0 : number_of_writer(tensor);
    node_number_ = at::sequence_number::peek() - 1;
    is_wrapped_ = torch_will_wrap(given);
    Stay const stay = session_->saved_tensors().stay_of(tensor);
    if (stay != Stay::may_leave && may_keep_itself(tensor)) {
        kept_ = tensor;
        is_itself_ = true;
        session_->pass(*this, tensor, stay);
    } else {
        keep_alias(given, tensor, stay);
    }
}

void SavedHook::keep_state(at::Tensor alias) {
    version_ = torch::autograd::impl::version_counter(alias);
    saved_version_ = version_.current_version();
    storage_ = alias.storage().getWeakStorageImpl();
    kept_ = std::move(alias);
    session_->save_state(*this, kept_);
}

bool SavedHook::may_keep_itself(at::Tensor const& tensor) const {
    bool const is_of_another = origin_.node == nullptr || is_made_by_another();
    return is_of_another && session_->saved_tensors().eligibility().is_plain(tensor) &&
           !is_python_subclass(tensor);
}

bool SavedHook::is_made_by_another() const {
    return !is_output_ && operator_made_one_node() && !holds_python_lock();
}

void SavedHook::keep_alias(at::Tensor const& given, at::Tensor const& tensor, Stay stay) {
    version_ = torch::autograd::impl::version_counter(given);
    made_by_ = made_by(given);
    if (!is_output_) {
        original_ = decltype(original_)(tensor.getIntrusivePtr());
    }
    if (tensor.has_storage()) {
        storage_ = tensor.storage().getWeakStorageImpl();
    }
    bool const has_attributes = !is_output_ && has_python_attributes(tensor);
    bool const is_plain = session_->saved_tensors().eligibility().is_plain(tensor);
    is_kept_whole_ = !is_output_ && (is_python_subclass(tensor) || (has_attributes && !is_plain));
    bool const is_python_leaf = origin_.node == nullptr && is_of_python(tensor);
    kept_ = is_kept_whole_ || is_python_leaf ? tensor : detached(tensor, version_);
    if (is_kept_whole_) {
        session_->pass_whole(*this, tensor, stay);
    } else if (stay != Stay::may_leave) {
        session_->pass(*this, tensor, stay);
    } else {
        session_->save(*this, tensor);
    }
    if (has_attributes && !is_kept_whole_) {
        attributes_ = without_bytes(geometry_of(tensor), tensor.device());
        copy_python_state(tensor, attributes_);
    }
    if (!value_.valid() && origin_.node == nullptr) {
        kept_ = tensor;
    } else if (!value_.valid() && !is_output_) {
        session_->saved_tensors().list_passed(*this);
    }
}

at::Tensor SavedHook::call_unpack_hook() {
    end_idle_guards();
    session_->runs_backward_here();
    check_version();
    NodePtr const running = torch::autograd::get_current_node();
    if (is_itself_) {
        check_original(kept_);
        bool const is_of_torch = is_asked_by_torch(running.get());
        bool const is_as_it_is = !torch_copies(kept_) || (is_of_torch && !was_handed_out_);
        return is_as_it_is ? kept_ : hand_out(kept_, kept_, is_of_torch, replaced_by_.defined());
    }
    bool const is_own_output = is_output_of(running.get());
    at::Tensor const original = is_own_output ? at::Tensor() : at::Tensor(original_.lock());
    if (original.defined()) {
        check_original(original);
    } else if (at::Tensor became = is_own_output ? at::Tensor() : what_became_of_unpacked();
               became.defined()) {
        return became;
    }
    bool const is_of_torch = is_asked_by_torch(running.get());
    if (original.defined() && is_another_now(original)) {
        return torch_copies(original) ? hand_out(original, original, is_of_torch, true) : original;
    }
    if (!original.defined() && !is_own_output && replaced_by_.defined()) {
        return hand_out(replaced_by_, original, is_of_torch, true);
    }
    at::Tensor tensor = value_.valid() ? session_->bring_back(*this, is_of_torch) : kept_;
    // A leaf that lives is what plain autograd gives back.
    bool const is_leaf = original.defined() && origin_.node == nullptr;
    if (is_leaf && !torch_copies(original)) {
        return original;
    }
    return hand_out(is_leaf ? original : std::move(tensor), original, is_of_torch, false);
}

bool SavedHook::torch_copies(at::Tensor const& unpacked) const {
    return is_wrapped_ || unpacked.requires_grad();
}

at::Tensor SavedHook::hand_out(
    at::Tensor tensor, at::Tensor const& original, bool is_of_torch, bool is_replaced
) {
    bool const is_plain = session_->saved_tensors().eligibility().is_plain(tensor);
    at::Tensor python;  // whose class and attributes it gets
    // Plain autograd gives a node its own output back as a bare tensor.
    if (!is_of_torch && holds_python_lock() &&
        !is_output_of(torch::autograd::get_current_node().get())) {
        python = attributes_.defined() || !torch_copies(tensor) ? attributes_
                 : is_kept_whole_                               ? kept_
                                                                : original;
        if (!python.defined() || !has_python_object(python)) {
            python.reset();
        } else if (is_wrapped_ && is_python_subclass(python) && (!is_plain || !can_copy_python_state(python))) {
            return as_its_subclass(python);
        }
    }
    std::shared_ptr<HandedOut> out = was_handed_out_ ? handed_out_.load() : nullptr;
    if (out != nullptr && !(is_replaced && original.defined())) {
        if (at::Tensor again = out->again(is_wrapped_, python); again.defined()) {
            return again;
        }
    }
    // As in plain autograd.
    bool const is_itself = !torch_copies(tensor) && !value_.valid() && !is_replaced;
    bool const is_new_each_time = is_output_ && is_wrapped_;  // there, too
    if (!is_plain && !is_of_torch && !is_output_ && is_copied_whole(tensor) &&
        torch_copies(tensor)) {
        return is_wrapped_ ? guarded_when_wrapped(tensor) : guarded_copy(tensor);
    }
    if (is_of_torch || is_itself || is_new_each_time || !is_plain) {
        return tensor;
    }
    if (out == nullptr) {
        HandedOut::WeakTensor const of =
            is_itself_ ? HandedOut::WeakTensor(kept_.getIntrusivePtr()) : original_;
        auto fresh = std::make_shared<HandedOut>(of);
        if (handed_out_.compare_exchange_strong(out, fresh)) {
            out = fresh;
            was_handed_out_ = true;
            if (!value_.valid() && passed_at_ == kNotListed) {
                session_->saved_tensors().list_passed(*this);  // what is made has to follow
            }
        }
    }
    return out->make(tensor, is_wrapped_, python);
}

void SavedHook::check_original(at::Tensor const& original) const {
    auto const* const meta = torch::autograd::impl::get_autograd_meta(original);
    bool const has_node = meta != nullptr && meta->grad_fn_ != nullptr;
    TORCH_CHECK(
        origin_.node == nullptr || has_node,
        // In torch's own words, which lack a space.
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
        "This is not supported, please use out-of-place `.detach()` instead"
    );
    check_gradient_wanted(original);
}

void SavedHook::check_gradient_wanted(at::Tensor const& original) const {
    bool const is_recorded =
        at::GradMode::is_enabled() && torch::autograd::get_current_node() != nullptr;
    TORCH_CHECK(
        is_wrapped_ || !original.requires_grad() || !is_recorded,
        "a tensor of shape ",
        original.sizes(),
        " was set to require a gradient after an operator saved it. With create_graph=True its "
        "gradient would lack what this backward computes, as under any saved-tensor hooks: call "
        "requires_grad_() before the tensor is first used in the session"
    );
}

bool SavedHook::is_another_now(at::Tensor const& original) const {
    if (!original.has_storage()) {
        return false;
    }
    c10::TensorImpl const& now = *original.unsafeGetTensorImpl();
    return now.unsafe_storage().unsafeGetStorageImpl() != storage_._unsafe_get_target() ||
           !session_->saved_tensors().is_view_of(*this, original);
}

bool SavedHook::is_output_of(torch::autograd::Node const* running) const {
    if (running == nullptr || origin_.node == nullptr) {
        return false;
    }
    torch::autograd::Node const& node = *running;
    std::uint64_t const number = node.sequence_nr();
    if (number != origin_.number && (writer_number_ == 0 || number != writer_number_)) {
        return false;
    }
    // The node that saved runs inside it; the base that it writes is no output.
    if (is_copy_slices(node)) {
        return writer_number_ != 0 && writer_number_ == node.sequence_nr() &&
               origin_.thread == node.thread_id();
    }
    return origin_.number == node.sequence_nr() && origin_.thread == node.thread_id() &&
           *origin_.node == typeid(node);
}

at::Tensor SavedHook::what_became_of_unpacked() const {
    if (replaced_by_.defined()) {
        return {};
    }
    at::Tensor const now =
        made_by_ == nullptr || is_output_ ? at::Tensor() : made_by_->again(false);
    if (!now.defined() || !is_another_now(now)) {
        return {};
    }
    return is_wrapped_ ? made_by_->again(true) : now;
}

void SavedHook::check_version() const {
    std::uint32_t const now = is_itself_
                                  ? torch::autograd::impl::version_counter(kept_).current_version()
                                  : version_.current_version();
    if (now == saved_version_) {
        return;
    }
    at::Tensor const like = value_.valid() ? session_->saved_tensors().shape_of(*this) : kept_;
    at::Tensor const original = is_itself_ ? kept_ : at::Tensor(original_.lock());
    if (is_output_) {
        // Plain autograd names the node that saved its own output: the one that runs now.
        raise_written_in_place(
            like, saved_version_, now, torch::autograd::get_current_node(), origin_.output
        );
    }
    NodePtr const node = original.defined() ? original.grad_fn() : NodePtr();
    auto const output = original.defined() ? original.output_nr() : 0;
    raise_written_in_place(like, saved_version_, now, node, static_cast<std::uint32_t>(output));
}

}  // namespace spillway
