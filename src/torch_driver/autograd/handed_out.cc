// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/handed_out.h"

#include "torch_driver/autograd/steal_guard.h"
#include "torch_driver/python/python_state.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/Storage.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <typeinfo>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// Makes `to` the same view of the same bytes as `from`.
void become(c10::TensorImpl& to, c10::TensorImpl const& from) {
    to.set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
    to.set_version_counter(from.version_counter());
}

template <typename Impl, typename... More>
c10::intrusive_ptr<c10::TensorImpl> like(c10::TensorImpl const& from, More&&... more) {
    c10::InferenceMode const normal(false);  // else it would have no version counter
    auto impl = c10::make_intrusive<Impl>(
        c10::Storage(from.storage()), from.key_set(), from.dtype(), std::forward<More>(more)...
    );
    become(*impl, from);
    return impl;
}

}  // namespace

at::Tensor alias_of(at::Tensor const& tensor) {
    return at::Tensor(like<c10::TensorImpl>(*tensor.unsafeGetTensorImpl()));
}

bool is_of_python(at::Tensor const& tensor) {
    return tensor.key_set().has(c10::DispatchKey::Python);
}

at::Tensor shallow_copy(at::Tensor const& tensor, c10::VariableVersion const& version) {
    return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(version, false));
}

at::Tensor detached(at::Tensor const& tensor, c10::VariableVersion const& version) {
    std::optional<c10::impl::ExcludeDispatchKeyGuard> without_modes;
    if (!is_of_python(tensor)) {
        without_modes.emplace(c10::DispatchKeySet{
            c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});
    }
    return shallow_copy(tensor, version);
}

/// A tensor that reports, when its last user lets go of it, whether it has been changed.
class WatchedTensor final : public c10::TensorImpl {
  public:
    WatchedTensor(
        c10::Storage&& storage,
        c10::DispatchKeySet keys,
        caffe2::TypeMeta dtype,
        std::shared_ptr<HandedOut> of
    )
        : TensorImpl(std::move(storage), keys, dtype), of_(std::move(of)) {}

    ~WatchedTensor() override { report(); }

    void release_resources() override {
        report();
        TensorImpl::release_resources();
    }

    /// From now on a change counts, in the maker's present round.
    void begin(std::uint64_t round) {
        round_ = round;
        storage_at_first_ = storage().unsafeGetStorageImpl();
        keys_at_first_ = bits();
        dtype_at_first_ = dtype();
        sizes_at_first_ = sizes().vec();
        strides_at_first_ = strides().vec();
        offset_at_first_ = storage_offset();
    }

    /// It was given what the saved tensor was given.
    void keep_up(std::uint64_t round) { round_ = round; }

    [[nodiscard]] std::shared_ptr<HandedOut> const& of() const { return of_; }

  private:
    [[nodiscard]] bool is_as_at_first() const {
        return storage().unsafeGetStorageImpl() == storage_at_first_ &&
               storage_offset() == offset_at_first_ && sizes() == sizes_at_first_ &&
               strides() == strides_at_first_ && dtype() == dtype_at_first_ &&
               bits() == keys_at_first_;
    }

    /// Those that determine how the bytes are read.
    [[nodiscard]] c10::DispatchKeySet bits() const {
        return key_set() &
               c10::DispatchKeySet{c10::DispatchKey::Conjugate, c10::DispatchKey::Negative};
    }

    void report() {
        std::shared_ptr<HandedOut> const of = std::exchange(of_, nullptr);
        if (of != nullptr && has_storage() && !is_as_at_first()) {
            of->changed(at::Tensor(like<TensorImpl>(*this)), round_);
        }
    }

    std::shared_ptr<HandedOut> of_;
    std::uint64_t round_ = 0;
    void const* storage_at_first_ = nullptr;
    std::vector<std::int64_t> sizes_at_first_;
    std::vector<std::int64_t> strides_at_first_;
    std::int64_t offset_at_first_ = 0;
    c10::DispatchKeySet keys_at_first_;
    caffe2::TypeMeta dtype_at_first_;
};

namespace {

/// What unpack returns where torch makes a variable of it: a copy, for which it asks here.
class ToBeWrapped final : public c10::TensorImpl {
  public:
    using Make = c10::intrusive_ptr<c10::TensorImpl> (*)(
        ToBeWrapped const& from, c10::VariableVersion const& version
    );

    ToBeWrapped(
        c10::Storage&& storage,
        c10::DispatchKeySet keys,
        caffe2::TypeMeta dtype,
        std::shared_ptr<HandedOut> of,
        at::Tensor python,
        Make make
    )
        : TensorImpl(std::move(storage), keys, dtype),
          of_(std::move(of)),
          python_(std::move(python)),
          make_(make) {}

    c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
        c10::VariableVersion const& version, bool
    ) const override {
        return make_(*this, version);
    }
    c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
        c10::VariableVersion&& version, bool
    ) const override {
        return make_(*this, version);
    }

    [[nodiscard]] std::shared_ptr<HandedOut> const& of() const { return of_; }
    [[nodiscard]] at::Tensor const& python() const { return python_; }

  private:
    std::shared_ptr<HandedOut> const of_;
    at::Tensor const python_;
    Make const make_;
};

}  // namespace

at::Tensor HandedOut::make(at::Tensor const& from, bool is_wrapped, at::Tensor const& python) {
    c10::TensorImpl const& impl = *from.unsafeGetTensorImpl();
    if (!is_wrapped) {
        auto watched = like<WatchedTensor>(impl, shared_from_this());
        began(watched);
        at::Tensor made(std::move(watched));
        if (python.defined()) {
            copy_python_state(python, made);
        }
        return made;
    }
    auto const make_copy = [](ToBeWrapped const& parent, c10::VariableVersion const& version) {
        auto watched = like<WatchedTensor>(parent, parent.of());
        watched->set_version_counter(version);
        parent.of()->began(watched);
        if (parent.python().defined()) {
            copy_python_state(parent.python(), at::Tensor(watched));
        }
        return watched;
    };
    return at::Tensor(like<ToBeWrapped>(impl, shared_from_this(), python, +make_copy));
}

at::Tensor HandedOut::again(bool is_wrapped, at::Tensor const& python) {
    std::optional<WeakTensor> last;
    at::Tensor changed;
    {
        MutexLock const lock(mutex_);
        if (!made_.empty()) {
            last = made_.back();
        }
        changed = changed_;
    }
    at::Tensor const living(last ? last->lock() : nullptr);  // without the lock: may take Python's
    if (living.defined() && !is_wrapped) {
        guard_from_stealing(living);  // again, if that had ended
        return living;
    }
    if (living.defined()) {
        return make(living, true, python);
    }
    return changed.defined() ? make(changed, is_wrapped, python) : changed;
}

void HandedOut::began(c10::intrusive_ptr<c10::TensorImpl> const& watched) {
    at::Tensor const tensor(watched);
    guard_from_stealing(tensor);
    std::vector<WeakTensor> gone;  // go after the lock
    MutexLock const lock(mutex_);
    static_cast<WatchedTensor&>(*watched).begin(round_);
    auto const first = std::stable_partition(
        made_.begin(), made_.end(), [](WeakTensor const& made) { return !made.expired(); }
    );
    gone.assign(std::make_move_iterator(first), std::make_move_iterator(made_.end()));
    made_.erase(first, made_.end());
    made_.emplace_back(tensor.getIntrusivePtr());
}

void HandedOut::changed(at::Tensor as_it_is, std::uint64_t round) {
    at::Tensor before;  // goes after the lock
    MutexLock const lock(mutex_);
    if (round == round_) {
        before = std::exchange(changed_, std::move(as_it_is));
    }
}

void HandedOut::follow(std::function<void(at::Tensor const&)> const& give) {
    std::vector<WeakTensor> made;
    at::Tensor before;
    std::uint64_t round = 0;
    {
        MutexLock const lock(mutex_);
        made = made_;
        before = std::exchange(changed_, at::Tensor());
        round = ++round_;
    }
    for (WeakTensor const& one : made) {
        if (at::Tensor const living(one.lock()); living.defined()) {
            give(living);
            static_cast<WatchedTensor&>(*living.unsafeGetTensorImpl()).keep_up(round);
        }
    }
}

std::shared_ptr<HandedOut> made_by(at::Tensor const& tensor) {
    c10::TensorImpl const& impl = *tensor.unsafeGetTensorImpl();
    bool const is_watched = typeid(impl) == typeid(WatchedTensor);
    return is_watched ? static_cast<WatchedTensor const&>(impl).of() : nullptr;
}

}  // namespace spillway
