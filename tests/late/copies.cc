// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Copies between tensors, and work on raw bytes.

#include "late/tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cstring>
#include <string>
#include <utility>

namespace late {

namespace {

std::string copy_name(bool from_device, bool to_device) {
    return std::string("copy_") + (from_device ? "d2" : "h2") + (to_device ? "d" : "h");
}

/// Whether CUDA could leave this copy to its copy engine: pinned, and byte by byte.
bool may_run_late(at::Tensor const& from, at::Tensor const& to) {
    at::Tensor const& host = on_device(from) ? to : from;
    return Runtime::get().device_of(host.const_data_ptr()) == kPinned &&
           from.dtype() == to.dtype() && from.sizes() == to.sizes() &&
           from.strides() == to.strides() && from.is_non_overlapping_and_dense();
}

/// Enqueues the copy on `lane`. Plain host memory is nobody's to check: its address may be anything
/// tomorrow.
void launch_copy(Actor lane, at::Tensor const& from, at::Tensor const& to) {
    std::vector<Use> uses;
    for (bool const write : {false, true}) {
        at::Tensor const& side = write ? to : from;
        if (Runtime::get().device_of(side.const_data_ptr())) {
            uses.push_back(use_of(side, write));
        }
    }
    Runtime::get().launch(
        lane,
        copy_name(on_device(from), on_device(to)),
        std::move(uses),
        [from = cpu_over(from), to = cpu_over(to)] {
            at::AutoDispatchBelowADInplaceOrView const guard;
            to.copy_(from);
        }
    );
}

/// On the stream of the source; the destination's is in order with it on both sides, as CUDA's is.
void copy_between_devices(at::Tensor const& from, at::Tensor const& to) {
    Runtime& runtime = Runtime::get();
    Actor const lane = current_lane(from.device().index());
    Actor const other = current_lane(to.device().index());
    runtime.block(lane, runtime.record(other));
    launch_copy(lane, from, to);
    runtime.block(other, runtime.record(lane));
}

at::Tensor copy_from(at::Tensor const& from, at::Tensor const& to, bool non_blocking) {
    if (to.numel() == 0) {
        return to;
    }
    Runtime& runtime = Runtime::get();
    if (on_device(from) && on_device(to)) {
        if (from.device() != to.device()) {
            copy_between_devices(from, to);
        } else {
            launch_copy(current_lane(to.device().index()), from, to);
        }
        return to;
    }
    Actor const lane = current_lane((on_device(from) ? from : to).device().index());
    launch_copy(lane, from, to);
    if (non_blocking && may_run_late(from, to)) {
        runtime.record_use((on_device(from) ? to : from).const_data_ptr(), lane);
    } else {
        runtime.synchronize(lane);
    }
    return to;
}

at::Tensor copy_from_and_resize(at::Tensor const& from, at::Tensor const& to) {
    to.resize_(from.sizes());
    return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(at::Tensor const& tensor) {
    at::Tensor const value = at::empty({}, at::TensorOptions().dtype(tensor.scalar_type()));
    Actor const lane = current_lane(tensor.device().index());
    Runtime::get().launch(
        lane,
        "_local_scalar_dense",
        {use_of(tensor, false)},
        [from = cpu_over(tensor), value] {
            at::AutoDispatchBelowADInplaceOrView const guard;
            value.copy_(from);
        }
    );
    Runtime::get().synchronize(lane);
    return value.item();
}

/// The bytes as a use, if they are of one of our blocks.
std::optional<Use> use_of_bytes(void const* bytes, std::size_t size_bytes, bool write) {
    auto const begin = reinterpret_cast<std::uintptr_t>(bytes);
    if (size_bytes == 0 || !Runtime::get().device_of(bytes)) {
        return std::nullopt;
    }
    TORCH_CHECK(
        Runtime::get().device_of(static_cast<char const*>(bytes) + size_bytes - 1),
        "late: bytes past the end of their block"
    );
    return Use{.begin = begin, .end = begin + size_bytes, .write = write};
}

}  // namespace

void launch(
    c10::Stream stream,
    std::string name,
    std::vector<Touched> const& touched,
    std::function<void()> kernel
) {
    std::vector<Use> uses;
    for (Touched const& each : touched) {
        if (auto const use = use_of_bytes(each.bytes, each.size_bytes, each.writes)) {
            uses.push_back(*use);
        }
    }
    Runtime::get().launch(actor_of(stream), std::move(name), std::move(uses), std::move(kernel));
}

void copy_async(void* to, void const* from, std::size_t size_bytes, c10::Stream stream) {
    std::optional<int> const source = Runtime::get().device_of(from);
    std::optional<int> const target = Runtime::get().device_of(to);
    launch(
        stream,
        copy_name(source.value_or(kPinned) != kPinned, target.value_or(kPinned) != kPinned),
        {{from, size_bytes, false}, {to, size_bytes, true}},
        [=] { std::memcpy(to, from, size_bytes); }
    );
    if (!source || !target) {
        Runtime::get().synchronize(actor_of(stream));
    }
}

void poison_async(void* bytes, std::size_t size_bytes, c10::Stream stream) {
    launch(stream, "poison", {{bytes, size_bytes, true}}, [=] {
        Memory::clear(static_cast<std::byte*>(bytes), size_bytes);
    });
}

void host_reads(void const* bytes, std::size_t size_bytes, std::string_view name) {
    if (auto const use = use_of_bytes(bytes, size_bytes, false)) {
        Runtime::get().host_access(name, *use);
    }
}

void host_writes(void* bytes, std::size_t size_bytes, std::string_view name) {
    if (auto const use = use_of_bytes(bytes, size_bytes, true)) {
        Runtime::get().host_access(name, *use);
    }
}

void register_copies() {
    static auto* const library = new torch::Library(
        torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__
    );
    library->impl("_copy_from", &copy_from);
    library->impl("_copy_from_and_resize", &copy_from_and_resize);
    library->impl("_local_scalar_dense", &local_scalar_dense);
}

}  // namespace late
