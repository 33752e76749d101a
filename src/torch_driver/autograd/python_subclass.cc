// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/python_subclass.h"

#include "torch_driver/autograd/python_lock.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <atomic>
#include <utility>

namespace spillway {

namespace {

template <typename Function>
Function* of_python(char const* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

struct Calls {
    PyObject* (*type)(PyObject*) = of_python<PyObject*(PyObject*)>("PyObject_Type");
    PyObject* (*call
    )(PyObject*, PyObject*) = of_python<PyObject*(PyObject*, PyObject*)>("PyObject_CallObject");
    void (*release)(PyObject*) = of_python<void(PyObject*)>("Py_DecRef");
    void (*clear_error)() = of_python<void()>("PyErr_Clear");
};

Calls const& calls() {
    static Calls const found;
    return found;
}

std::atomic<std::int64_t> tensor_class = 0;  ///< 0: there is no package, and no Python to ask
std::atomic<std::int64_t> parameter_class = 0;
std::atomic<std::int64_t> class_copier = 0;

thread_local at::Tensor to_copy;
thread_local at::Tensor copied;

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

void set_python_classes(std::int64_t tensor, std::int64_t parameter, std::int64_t copier) {
    parameter_class = parameter;
    class_copier = copier;
    tensor_class = tensor;
}

bool is_python_subclass(at::Tensor const& tensor) {
    std::int64_t const plain = tensor_class.load(std::memory_order_relaxed);
    PyObject* const object = tensor.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
    if (plain == 0 || object == nullptr || !holds_python_lock()) {
        return false;
    }
    PyObject* const type = calls().type(object);
    auto const address = reinterpret_cast<std::intptr_t>(type);
    calls().release(type);
    return address != plain && address != parameter_class.load(std::memory_order_relaxed);
}

at::Tensor subclass_to_copy() {
    return to_copy;
}

void subclass_copied(at::Tensor const& copy) {
    copied = copy;
}

at::Tensor as_its_subclass(at::Tensor const& original) {
    to_copy = original;
    auto* const copier = reinterpret_cast<PyObject*>(class_copier.load());
    PyObject* const result = calls().call(copier, nullptr);
    to_copy = at::Tensor();
    at::Tensor ready = std::exchange(copied, at::Tensor());
    if (result == nullptr) {
        calls().clear_error();
    } else {
        calls().release(result);
    }
    TORCH_CHECK(
        result != nullptr && ready.defined(),
        "a saved tensor is of a subclass of torch.Tensor that could not be made again; save a "
        "plain "
        "tensor (tensor.as_subclass(torch.Tensor)), or run this part outside of the Spillway "
        "session"
    );
    c10::TensorImpl const& like = *original.unsafeGetTensorImpl();
    auto impl = c10::make_intrusive<OfSubclass>(
        c10::Storage(like.storage()), like.key_set(), like.dtype(), std::move(ready)
    );
    impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    impl->set_version_counter(like.version_counter());
    return at::Tensor(std::move(impl));
}

}  // namespace spillway
