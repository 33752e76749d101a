// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What unpack gives to code that is not torch's own: a fresh alias of the saved tensor, never the
// one that the runtime keeps. Plain autograd gives the saved tensor itself, so what that code does
// to it (`x.data = y`, `resize_`, `set_`) is there again at the next unpack; here, too.
#pragma once

#include "base/mutex.h"

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace spillway {

/// A tensor of `tensor`'s storage, type, sizes and version counter and nothing else: no graph, no
/// Python object; also in inference mode. For strided tensors without further dispatch keys.
[[nodiscard]] at::Tensor alias_of(at::Tensor const& tensor);

/// Its operators are Python code: a wrapper subclass.
[[nodiscard]] bool is_of_python(at::Tensor const& tensor);

/// A tensor of any kind without its graph, as `detach` makes it, also for modes and subclasses.
[[nodiscard]] at::Tensor shallow_copy(
    at::Tensor const& tensor, c10::VariableVersion const& version
);

/// The same, which no TorchDispatchMode sees: it might return other values. Of a wrapper subclass
/// its Python code makes the copy.
[[nodiscard]] at::Tensor detached(at::Tensor const& tensor, c10::VariableVersion const& version);

/// What became of one saved tensor outside.
///
/// Thread  any
class HandedOut : public std::enable_shared_from_this<HandedOut> {
  public:
    using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

    /// `saved` is the tensor that was saved, as far as plain autograd would keep it itself.
    explicit HandedOut(WeakTensor saved) : saved_(std::move(saved)) {}

    /// The saved tensor: only its address counts, since it may have gone. Null: none to speak of.
    [[nodiscard]] c10::TensorImpl const* saved() const { return saved_._unsafe_get_target(); }
    /// Undefined: it has gone.
    [[nodiscard]] at::Tensor living() const { return at::Tensor(saved_.lock()); }

    /// A tensor like `from`, whose end is watched. Where torch wraps what is unpacked into a
    /// variable of its own (`is_wrapped`), that variable is watched instead. It gets the Python
    /// class and attributes of `python`, if that is defined (under Python's lock then).
    [[nodiscard]] at::Tensor make(
        at::Tensor const& from, bool is_wrapped, at::Tensor const& python = {}
    );

    /// What to hand out in place of the saved tensor: the tensor that was handed out last, while it
    /// lives, or what its user made of it. Undefined: the saved tensor is as it was.
    [[nodiscard]] at::Tensor again(bool is_wrapped, at::Tensor const& python = {});

    /// The saved tensor was given other data: calls `give` with each tensor that was made of it and
    /// lives, to give it the same; what became of others before does not count any more. Without
    /// locks: frees tensors.
    void follow(std::function<void(at::Tensor const&)> const& give);

  private:
    friend class WatchedTensor;
    void began(c10::intrusive_ptr<c10::TensorImpl> const& watched);
    void changed(at::Tensor as_it_is, std::uint64_t round);

    WeakTensor const saved_;
    Mutex mutex_;
    std::vector<WeakTensor> made_ SPILLWAY_GUARDED_BY(mutex_);  ///< in order; some may have gone
    at::Tensor changed_ SPILLWAY_GUARDED_BY(mutex_);
    std::uint64_t round_ SPILLWAY_GUARDED_BY(mutex_) = 0;  ///< how often `follow` was called
};

/// What made `tensor`; null where none did, or where it is not watched any more.
[[nodiscard]] std::shared_ptr<HandedOut> made_by(at::Tensor const& tensor);

}  // namespace spillway
