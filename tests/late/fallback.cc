// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Note [Three ways to run an operator]
// Late: where the results' shapes are known. Most calls give their results (op.out, op_); the
// others are run once on zeros, now and on the host, for the shapes alone.
// Now: an operator whose shapes or host results depend on the data waits for its stream.
// Drawn: random numbers are drawn by the host at the launch, so that no schedule changes them.

#include "late/fallback.h"

#include "late/tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace late {

namespace {

using c10::IValue;
using torch::jit::Stack;
using OnTensor = std::function<at::Tensor(at::Tensor const&)>;

/// The value with each defined tensor replaced.
IValue map_tensors(IValue const& value, OnTensor const& map) {
    auto const mapped = [&](at::Tensor const& tensor) {
        return tensor.defined() ? map(tensor) : tensor;
    };
    if (value.isTensor()) {
        return mapped(value.toTensor());
    }
    if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (at::Tensor const& tensor : value.toTensorVector()) {
            list.push_back(mapped(tensor));
        }
        return list;
    }
    if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (std::optional<at::Tensor> const& tensor : value.toOptionalTensorVector()) {
            list.push_back(tensor ? std::optional(mapped(*tensor)) : std::nullopt);
        }
        return list;
    }
    return value;
}

std::vector<at::Tensor> tensors_of(IValue const& value) {
    std::vector<at::Tensor> tensors;
    map_tensors(value, [&](at::Tensor const& tensor) {
        tensors.push_back(tensor);
        return tensor;
    });
    return tensors;
}

bool is_generator(c10::Argument const& argument) {
    c10::TypePtr type = argument.type();
    if (auto const optional = type->cast<c10::OptionalType>()) {
        type = optional->getElementType();
    }
    return type->kind() == c10::TypeKind::GeneratorType;
}

bool writes(c10::Argument const& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// Calls the CPU's kernel. Boxed calls of some kernels read arguments that they have dropped from
/// the stack, so a second reference outlives the call.
void call_on_cpu(c10::OperatorHandle const& op, Stack& stack) {
    at::AutoDispatchBelowADInplaceOrView const guard;
    Stack const kept = stack;
    op.callBoxed(stack);
}

/// A host argument's value now: a launch does not see what the host does to it later.
at::Tensor captured(at::Tensor const& tensor) {
    at::Tensor copy = tensor.clone();
    copy.unsafeGetTensorImpl()->set_wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number()
    );
    return copy;
}

at::Tensor zeros_like_on_cpu(at::Tensor const& tensor) {
    if (!on_device(tensor)) {
        return captured(tensor);
    }
    at::Tensor zeros = at::empty_strided(
        tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.scalar_type())
    );
    return zeros.zero_();
}

at::Tensor device_to_cpu(at::Tensor const& tensor) {
    return on_device(tensor) ? cpu_over(tensor) : captured(tensor);
}

/// One call of an operator: its arguments, and what they say of where and how it may run.
class Call {
  public:
    Call(c10::OperatorHandle const& op, Stack* stack) : op_(op), stack_(*stack) {
        std::size_t const count = op.schema().arguments().size();
        args_.assign(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
        find_device();
        for (std::size_t i = 0; i < count; ++i) {
            collect(op.schema().arguments()[i], args_[i]);
        }
    }

    void run() {
        c10::DeviceGuard const guard(
            c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(device_))
        );
        bool const random = op_.hasTag(at::Tag::nondeterministic_seeded);
        if (random && only_writes_) {
            draw();
        } else if (random || depends_on_data()) {
            run_now();
        } else {
            run_late();
        }
    }

  private:
    void find_device() {
        device_ = thread_state().device;
        for (IValue const& value : args_) {
            for (at::Tensor const& tensor : tensors_of(value)) {
                if (on_device(tensor)) {
                    device_ = tensor.device().index();
                    return;
                }
            }
            if (value.isDevice() && value.toDevice().has_index()) {
                device_ = value.toDevice().index();
            }
        }
    }

    void collect(c10::Argument const& argument, IValue& value) {
        bool const write = writes(argument);
        for (at::Tensor const& tensor : tensors_of(value)) {
            if (on_device(tensor)) {
                TORCH_CHECK(
                    tensor.device().index() == device_,
                    "late: ",
                    op_.schema().name(),
                    " has tensors of two devices"
                );
                uses_.push_back(use_of(tensor, write));
                only_writes_ = only_writes_ && write;
                empty_out_ = empty_out_ || (argument.is_out() && tensor.numel() == 0);
            } else {
                TORCH_CHECK(
                    !write && (tensor.dim() == 0 || value.isOptionalTensorList()),
                    "late: ",
                    op_.schema().name(),
                    " has a tensor of the CPU among its arguments"
                );
            }
        }
        if (value.isDevice()) {
            value = c10::Device(c10::kCPU);
        }
        if (is_generator(argument)) {
            value = cpu_generator(value.toOptional<at::Generator>(), device_);
        }
    }

    bool depends_on_data() const {
        if (op_.hasTag(at::Tag::dynamic_output_shape) ||
            op_.hasTag(at::Tag::data_dependent_output)) {
            return true;
        }
        for (c10::Argument const& result : op_.schema().returns()) {
            auto const kind = result.type()->kind();
            if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType) {
                return true;  // a number of the host
            }
        }
        return false;
    }

    Stack mapped_args(OnTensor const& map) const {
        Stack stack;
        for (IValue const& value : args_) {
            stack.push_back(map_tensors(value, map));
        }
        return stack;
    }

    /// The results' shapes, from a run on zeros.
    Stack infer() const {
        Runtime::get().count_inferred();
        Stack stack = mapped_args(zeros_like_on_cpu);
        call_on_cpu(op_, stack);
        return stack;
    }

    /// The argument that the result is; its tensor takes the inferred size where it is empty.
    IValue aliased(std::size_t result, Stack const& inferred) const {
        c10::FunctionSchema const& schema = op_.schema();
        auto const* const alias = schema.returns()[result].alias_info();
        TORCH_CHECK(alias->isWrite(), "late: no kernel for the view ", schema.name());
        for (std::size_t i = 0; i < args_.size(); ++i) {
            auto const* const other = schema.arguments()[i].alias_info();
            if (other != nullptr && other->beforeSets() == alias->beforeSets()) {
                if (empty_out_ && args_[i].isTensor() && args_[i].toTensor().numel() == 0) {
                    resize_tensor(args_[i].toTensor(), inferred[result].toTensor().sizes());
                }
                return args_[i];
            }
        }
        TORCH_CHECK(false, "late: ", schema.name(), " returns none of its arguments");
    }

    void run_late() {
        c10::FunctionSchema const& schema = op_.schema();
        std::size_t const count = schema.returns().size();
        bool infers = empty_out_;
        for (c10::Argument const& result : schema.returns()) {
            infers = infers || result.alias_info() == nullptr;
        }
        Stack const inferred = infers ? infer() : Stack();
        Stack results;
        std::vector<std::pair<std::size_t, std::vector<at::Tensor>>> fresh;
        for (std::size_t i = 0; i < count; ++i) {
            if (schema.returns()[i].alias_info() != nullptr) {
                results.push_back(aliased(i, inferred));
                if (is_single_out(results.back())) {
                    fresh.emplace_back(i, std::vector{cpu_over(results.back().toTensor())});
                }
                continue;
            }
            std::vector<at::Tensor> targets;
            results.push_back(map_tensors(inferred[i], [&](at::Tensor const& like) {
                at::Tensor made = empty_on_device(like, device_);
                uses_.push_back(use_of(made, true));
                targets.push_back(cpu_over(made));
                return made;
            }));
            fresh.emplace_back(i, std::move(targets));
        }
        if (empty_out_) {  // the tensors have grown since they were collected
            collect_again();
        }
        Stack cpu_args = mapped_args(device_to_cpu);
        for (std::size_t i = 0; i < cpu_args.size(); ++i) {
            if (schema.arguments()[i].is_out() && is_single_out(args_[i])) {
                cpu_args[i] = at::empty({0}, cpu_args[i].toTensor().options());
            }
        }
        launch(std::move(cpu_args), std::move(fresh));
        give(std::move(results));
    }

    /// Some reductions first resize their result to the size of their input, which only a result
    /// with a storage of its own can bear.
    bool is_single_out(IValue const& value) const {
        return op_.schema().arguments().back().is_out() && value.isTensor() &&
               value.toTensor().defined() && value.toTensor().dim() == 0;
    }

    void collect_again() {
        for (std::size_t i = 0; i < args_.size(); ++i) {
            if (op_.schema().arguments()[i].is_out()) {
                for (at::Tensor const& tensor : tensors_of(args_[i])) {
                    uses_.push_back(use_of(tensor, true));
                }
            }
        }
    }

    void launch(Stack args, std::vector<std::pair<std::size_t, std::vector<at::Tensor>>> fresh) {
        Runtime::get().launch(
            current_lane(device_),
            op_.schema().name(),
            std::move(uses_),
            [op = op_, args = std::move(args), fresh = std::move(fresh)]() mutable {
                call_on_cpu(op, args);
                at::AutoDispatchBelowADInplaceOrView const guard;
                for (auto const& [result, targets] : fresh) {
                    std::vector<at::Tensor> const values = tensors_of(args[result]);
                    TORCH_CHECK(
                        values.size() == targets.size(), "late: other results than on zeros"
                    );
                    for (std::size_t i = 0; i < values.size(); ++i) {
                        TORCH_CHECK(values[i].sizes() == targets[i].sizes(), "late: another shape");
                        targets[i].copy_(values[i]);
                    }
                }
            }
        );
    }

    void run_now() {
        Actor const lane = current_lane(device_);
        auto const args =
            std::make_shared<Stack>(mapped_args(device_to_cpu));  // the task's and ours
        Runtime::get().launch(lane, op_.schema().name(), std::move(uses_), [op = op_, args] {
            call_on_cpu(op, *args);
        });
        Runtime::get().synchronize(lane);
        give_values(*args);
    }

    void draw() {
        Stack values = mapped_args(zeros_like_on_cpu);
        call_on_cpu(op_, values);
        give_values(values);
    }

    /// Gives results that are on the host: fresh ones, and those of arguments that are written.
    void give_values(Stack const& values) {
        c10::FunctionSchema const& schema = op_.schema();
        Stack results;
        for (std::size_t i = 0; i < schema.returns().size(); ++i) {
            auto const send = [&](at::Tensor const& value) {
                at::Tensor made = empty_on_device(value, device_);
                upload(schema.name(), made, value);
                return made;
            };
            if (schema.returns()[i].alias_info() == nullptr) {
                results.push_back(map_tensors(values[i], send));
                continue;
            }
            IValue const target = aliased(i, values);
            std::vector<at::Tensor> const drawn = tensors_of(values[i]);
            std::vector<at::Tensor> const targets = tensors_of(target);
            for (std::size_t j = 0; j < targets.size(); ++j) {
                if (drawn[j].const_data_ptr() != targets[j].const_data_ptr()) {
                    upload(schema.name(), targets[j], drawn[j]);
                }
            }
            results.push_back(target);
        }
        give(std::move(results));
    }

    void give(Stack results) {
        torch::jit::drop(stack_, args_.size());
        for (IValue& result : results) {
            stack_.push_back(std::move(result));
        }
    }

    c10::OperatorHandle op_;
    Stack& stack_;
    Stack args_;
    std::vector<Use> uses_;
    int device_ = 0;
    bool only_writes_ = true;
    bool empty_out_ = false;
};

}  // namespace

void fallback(c10::OperatorHandle const& op, Stack* stack) {
    Call(op, stack).run();
}

void register_fallback() {
    static auto* const library = new torch::Library(
        torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__
    );
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    static auto* const autocast = new torch::Library(
        torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__
    );
    autocast->fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace late
