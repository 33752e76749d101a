// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/python/python_state.h"

#include "base/assert.h"
#include "torch_driver/autograd/geometry.h"
#include "torch_driver/autograd/steal_guard.h"
#include "torch_driver/python/python_error.h"
#include "torch_driver/python/python_function.h"
#include "torch_driver/python/python_lock.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

struct Calls {
    PyObject* (*type)(PyObject*) = python_function<PyObject*(PyObject*)>("PyObject_Type");
    PyObject* (*call
    )(PyObject*,
      PyObject*) = python_function<PyObject*(PyObject*, PyObject*)>("PyObject_CallObject");
    void (*release)(PyObject*) = python_function<void(PyObject*)>("Py_DecRef");
    void (*clear_error)() = python_function<void()>("PyErr_Clear");
    PyObject* (*attribute
    )(PyObject*,
      char const*) = python_function<PyObject*(PyObject*, char const*)>("PyObject_GetAttrString");
    PyObject* (*string_of)(PyObject*) = python_function<PyObject*(PyObject*)>("PyObject_Str");
    char const* (*text)(PyObject*, std::intptr_t*) =
        python_function<char const*(PyObject*, std::intptr_t*)>("PyUnicode_AsUTF8AndSize");
    std::intptr_t (*size)(PyObject*) = python_function<std::intptr_t(PyObject*)>("PyObject_Size");
    int (*is_true)(PyObject*) = python_function<int(PyObject*)>("PyObject_IsTrue");
};

Calls const& calls() {
    static Calls const found;
    return found;
}

std::atomic<std::int64_t> tensor_class = 0;  ///< 0: there is no package, and no Python to ask
std::atomic<std::int64_t> parameter_class = 0;
std::atomic<std::int64_t> state_copier = 0;
std::atomic<std::int64_t> state_giver = 0;

thread_local at::Tensor state_from;
thread_local at::Tensor state_to;
thread_local at::Tensor copied;

PyObject* object_of(at::Tensor const& tensor) {
    return tensor.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
}

/// Gives a reference back.
struct Release {
    void operator()(PyObject* object) const { calls().release(object); }
};
using Owned = std::unique_ptr<PyObject, Release>;

/// Of a `str`; "?" where it is none, or null.
std::string text_of(PyObject* string) {
    std::intptr_t size = 0;
    char const* const text = string == nullptr ? nullptr : calls().text(string, &size);
    if (text == nullptr) {
        calls().clear_error();
        return "?";
    }
    return {text, static_cast<std::size_t>(size)};
}

std::string name_of_class(PyObject* type) {
    return text_of(Owned(calls().attribute(type, "__name__")).get());
}

/// While it lives, `__torch_function__` of no class and no mode is called on this thread.
class WithoutTorchFunction {
  public:
    WithoutTorchFunction() : before_(Tls::get_disabled_state()) {
        Tls::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
    }
    ~WithoutTorchFunction() { Tls::set_disabled_state(before_); }
    WithoutTorchFunction(WithoutTorchFunction const&) = delete;
    WithoutTorchFunction& operator=(WithoutTorchFunction const&) = delete;

  private:
    using Tls = at::impl::PythonTorchFunctionTLS;
    at::impl::TorchFunctionDisabledState before_;
};

/// Whether its `__dict__` has something in it.
bool has_attributes(PyObject* object) {
    PyObject* const attributes = calls().attribute(object, "__dict__");
    std::intptr_t const count = attributes == nullptr ? -1 : calls().size(attributes);
    if (attributes != nullptr) {
        calls().release(attributes);
    }
    if (count < 0) {
        calls().clear_error();
    }
    return count > 0;
}

/// "TypeError: must be str", its first line.
std::string text_of(PythonError const& error) {
    Owned const string(error.value() == nullptr ? nullptr : calls().string_of(error.value()));
    std::string const text = text_of(string.get());
    return name_of_class(error.type()) + ": " + text.substr(0, text.find('\n'));
}

/// None: it returned; else what it raised, which Python does not see any more.
using Raised = std::optional<std::string>;

/// Of a callable that raises another error each time.
constexpr std::size_t kMostTries = 3;

/// Only what is raised twice is the callable's own: Note [Errors of signal handlers].
Raised call(std::int64_t callable) {
    std::vector<PythonError> once;
    Raised raised;
    while (!raised) {
        Owned const result(calls().call(reinterpret_cast<PyObject*>(callable), nullptr));
        if (result != nullptr) {
            break;
        }
        PythonError error;
        bool const is_own = !once.empty() && error.is_like(once.back());
        if (is_own || once.size() == kMostTries) {
            raised = text_of(error);
            if (is_own) {
                once.pop_back();
            }
        } else {
            once.push_back(std::move(error));
        }
    }
    for (PythonError& error : once) {
        std::move(error).raise_soon();
    }
    return raised;
}

/// What a callable is called with. Restored, as Python may free a tensor in it and call again.
class Given {
  public:
    Given(at::Tensor const& from, at::Tensor const& to)
        : from_(std::exchange(state_from, from)), to_(std::exchange(state_to, to)) {}
    ~Given() {
        state_from = std::move(from_);
        state_to = std::move(to_);
    }
    Given(Given const&) = delete;
    Given& operator=(Given const&) = delete;

  private:
    at::Tensor from_;
    at::Tensor to_;
};

Raised give(at::Tensor const& from, at::Tensor const& to) {
    Given const given(from, to);
    return call(state_giver);
}

void check_copied(Raised const& raised, at::Tensor const& of) {
    TORCH_CHECK(
        !raised,
        "a saved tensor is of a subclass of torch.Tensor, ",
        python_class_name(of),
        ", that could not be made again (",
        *raised,
        "); save a plain tensor (tensor.as_subclass(torch.Tensor)), or run this part outside of "
        "the Spillway session"
    );
}

/// Autograd asks it for a shallow copy, to make a variable of; it has one ready.
class OfSubclass final : public c10::TensorImpl {
  public:
    OfSubclass(
        c10::Storage&& storage, c10::DispatchKeySet keys, caffe2::TypeMeta dtype, at::Tensor ready
    )
        : TensorImpl(std::move(storage), keys, dtype), ready_(std::move(ready)) {}

    c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion const&, bool)
        const override {
        return ready_.getIntrusivePtr();
    }
    c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&&, bool)
        const override {
        return ready_.getIntrusivePtr();
    }

  private:
    at::Tensor const ready_;
};

}  // namespace

void set_python_classes(
    std::int64_t tensor, std::int64_t parameter, std::int64_t copier, std::int64_t giver
) {
    parameter_class = parameter;
    state_copier = copier;
    state_giver = giver;
    tensor_class = tensor;
}

bool has_python_object(at::Tensor const& tensor) {
    return tensor_class.load(std::memory_order_relaxed) != 0 && object_of(tensor) != nullptr;
}

bool is_python_subclass(at::Tensor const& tensor) {
    if (!has_python_object(tensor) || !holds_python_lock()) {
        return false;
    }
    PyObject* const type = calls().type(object_of(tensor));
    auto const address = reinterpret_cast<std::intptr_t>(type);
    calls().release(type);
    return address != tensor_class.load(std::memory_order_relaxed) &&
           address != parameter_class.load(std::memory_order_relaxed);
}

std::string python_class_name(at::Tensor const& tensor) {
    return name_of_class(Owned(calls().type(object_of(tensor))).get());
}

bool has_python_attributes(at::Tensor const& tensor) {
    return has_python_object(tensor) && holds_python_lock() && has_attributes(object_of(tensor));
}

bool is_saved_by_its_function(at::Tensor const& output) {
    if (!has_python_object(output)) {
        return true;
    }
    WithoutTorchFunction const only_torchs_own;
    Owned const node(calls().attribute(object_of(output), "grad_fn"));
    // What `save_for_backward` was given; torch takes it away when that is saved.
    Owned const to_save(node == nullptr ? nullptr : calls().attribute(node.get(), "to_save"));
    if (to_save == nullptr) {
        calls().clear_error();
        return true;
    }
    return calls().is_true(to_save.get()) != 0;
}

at::Tensor python_state_from() {
    return state_from;
}

at::Tensor python_state_to() {
    return state_to;
}

void python_state_copied(at::Tensor const& copy) {
    copied = copy;
}

void copy_python_state(at::Tensor const& from, at::Tensor const& to) {
    check_copied(give(from, to), from);
}

bool can_copy_python_state(at::Tensor const& from) {
    return !give(from, without_bytes(geometry_of(from), from.device()));
}

at::Tensor as_its_subclass(at::Tensor const& original) {
    Given const given(original, {});
    Raised const raised = call(state_copier);
    at::Tensor ready = std::exchange(copied, at::Tensor());
    check_copied(raised, original);
    SPILLWAY_ASSERT(ready.defined(), "the copier hands a copy over, or raises");
    guard_from_stealing(ready);
    c10::TensorImpl const& like = *original.unsafeGetTensorImpl();
    auto impl = c10::make_intrusive<OfSubclass>(
        c10::Storage(like.storage()), like.key_set(), like.dtype(), std::move(ready)
    );
    impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    impl->set_version_counter(like.version_counter());
    return at::Tensor(std::move(impl));
}

}  // namespace spillway
