// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/states/away_states.h"

#include "base/log.h"
#include "torch_driver/autograd/saved_hook.h"
#include "torch_driver/session/torch_session.h"
#include "torch_driver/states/storage_bytes.h"

#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>
#include <c10/core/Storage.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <string>
#include <utility>

namespace spillway {

namespace {

constexpr char const* kIsAway =
    "this tensor is an optimizer's state that waits off the device until the optimizer's next step "
    "(states=\"optimizer\"); read it through optimizer.state_dict(), or close the Spillway session";

/// Of the state's size, so that whatever would copy its bytes finds that they are away.
c10::intrusive_ptr<c10::StorageImpl> stand_in_for(c10::StorageImpl const& storage) {
    auto stand_in = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(),
        storage.nbytes(),
        c10::DataPtr(nullptr, storage.device()),
        nullptr,
        false
    );
    stand_in->release_data_and_set_meta_custom_data_ptr_error_msg_(kIsAway);
    return stand_in;
}

/// Also where Python may not: what an optimizer keeps of a gradient may be detached from it.
void set_storage(at::Tensor const& state, c10::Storage storage) {
    c10::TensorImpl& impl = *state.unsafeGetTensorImpl();
    bool const is_allowed = impl.allow_tensor_metadata_change();
    impl.set_allow_tensor_metadata_change(true);
    impl.set_storage_keep_dtype(std::move(storage));
    impl.set_allow_tensor_metadata_change(is_allowed);
}

}  // namespace

AwayStates::~AwayStates() {
    if (!session_->use().is_forked()) {  // else the bytes are the parent's
        give_all_back();
    }
}

bool AwayStates::is_away(at::Tensor const& state) {
    auto const at = away_.find(state.unsafeGetTensorImpl());
    if (at == away_.end()) {
        return false;
    }
    if (at->second.state.lock().get() == state.unsafeGetTensorImpl() &&
        state.storage().unsafeGetStorageImpl() == at->second.in_place.get()) {
        return true;
    }
    away_.erase(at);  // it was given other bytes, or another tensor lies where it lay
    return false;
}

bool AwayStates::is_in_session(at::Tensor const& state) const {
    Stay const stay = session_->saved_tensors().stay_of(state);
    return stay == Stay::may_leave || stay == Stay::owned;
}

/// An optimizer may keep a tensor that is the model's.
bool AwayStates::is_of_model(at::Tensor const& state) const {
    auto const kind = session_->owned().kind_of(*state.storage().unsafeGetStorageImpl());
    return kind && *kind != OwnedKind::optimizer_state;
}

/// A storage that others have would not come free, and they would not see what the next step
/// writes.
bool AwayStates::can_leave(at::Tensor const& state) {
    if (!state.defined() || !state.has_storage() || state.requires_grad() || state.is_inference() ||
        is_away(state) || state.storage().use_count() != 1 ||
        is_only_a_size(*state.storage().unsafeGetStorageImpl()) || is_of_model(state)) {
        return false;
    }
    if (is_in_session(state)) {
        return true;
    }
    if (session_->saved_tensors().stay_of(state) != Stay::foreign_block) {
        return false;
    }
    try {
        at::Tensor copy = state.clone();
        if (!is_in_session(copy) || copy.strides() != state.strides() ||
            copy.storage_offset() != state.storage_offset()) {
            return false;
        }
        set_storage(state, copy.storage());
        return true;
    } catch (c10::OutOfMemoryError const&) {
        return false;  // it stays, and counts as before
    }
}

void AwayStates::let_leave(std::vector<at::Tensor> const& states) {
    c10::NoGradGuard const no_grad;
    forget_dead();
    for (at::Tensor const& state : states) {
        if (!can_leave(state)) {
            continue;
        }
        c10::StorageImpl const& storage = *state.storage().unsafeGetStorageImpl();
        Away away{
            decltype(Away::state)(state.getIntrusivePtr()),
            stand_in_for(storage),
            std::make_unique<SavedHook>(session_)};
        session_->owned().forget(storage);
        at::Tensor alias = state.detach();
        set_storage(state, c10::Storage(away.in_place));
        away.hook->keep_state(std::move(alias));
        away_.insert_or_assign(state.unsafeGetTensorImpl(), std::move(away));
    }
}

void AwayStates::bring_back(std::vector<at::Tensor> const& states) {
    for (at::Tensor const& state : states) {
        if (state.defined() && is_away(state)) {
            bring_back(away_.find(state.unsafeGetTensorImpl()), false);
        }
    }
}

void AwayStates::give_back(std::vector<at::Tensor> const& states) {
    for (at::Tensor const& state : states) {
        if (state.defined() && is_away(state)) {
            bring_back(away_.find(state.unsafeGetTensorImpl()), true);
        }
    }
}

void AwayStates::bring_back(AllAway::iterator at, bool for_good) {
    c10::NoGradGuard const no_grad;
    at::Tensor const state(at->second.state.lock());
    bool const leaves_session = for_good && session_->device()->is_host();
    if (leaves_session) {
        auto const size_bytes = static_cast<std::int64_t>(at->second.in_place->nbytes());
        session_->allow_beyond(session_->device()->rounded(size_bytes));
    }
    auto const ends = c10::make_scope_exit([&] {
        if (leaves_session) {
            session_->allow_beyond(0);
        }
    });
    at::Tensor const back = session_->bring_state_back(*at->second.hook);
    set_storage(state, leaves_session ? back.clone().storage() : back.storage());
    away_.erase(at);
}

void AwayStates::give_all_back() {
    std::vector<at::Tensor> states;
    for (auto const& [key, away] : away_) {
        states.emplace_back(away.state.lock());
    }
    for (at::Tensor const& state : states) {
        try {
            give_back({state});
        } catch (std::exception const& error) {
            log_once(std::string("an optimizer's state is lost: ") + error.what());
        }
    }
    away_.clear();
}

/// Optimizers that ended, and states that a checkpoint took the place of.
void AwayStates::forget_dead() {
    std::erase_if(away_, [](auto const& each) { return each.second.state.expired(); });
}

}  // namespace spillway
