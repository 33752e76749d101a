// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/saved_hook.h"

#include "torch_driver/torch_session.h"

#include <ATen/SequenceNumber.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <sstream>
#include <string>

namespace spillway {

namespace {

Origin origin_of(at::Tensor const& tensor) {
    auto const* const meta = torch::autograd::impl::get_autograd_meta(tensor);
    if (meta == nullptr || meta->grad_fn_ == nullptr) {
        return {};
    }
    torch::autograd::Node const& node = *meta->grad_fn_;
    return {&typeid(node), meta->output_nr_};
}

/// What torch calls the tensor: "torch.FloatTensor [2, 3]".
std::string described(at::Tensor const& tensor, Geometry const& geometry) {
    std::ostringstream out;
    if (tensor.defined()) {
        out << tensor.toString() << ' ' << tensor.sizes();
    } else {
        out << geometry.dtype.name() << " tensor " << c10::IntArrayRef(geometry.sizes);
    }
    return out.str();
}

}  // namespace

std::string Origin::name() const {
    if (node == nullptr) {
        return "input";
    }
    std::string full = c10::demangle(node->name());
    std::size_t const last = full.rfind("::");
    return last == std::string::npos ? full : full.substr(last + 2);
}

SavedHook::~SavedHook() {
    if (value_.valid()) {
        session_->registry().forget(*this);
    }
}

void SavedHook::call_pack_hook(at::Tensor const& tensor) {
    version_ = torch::autograd::impl::version_counter(tensor);
    saved_version_ = version_.current_version();
    kept_ = at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(version_, false));
    session_->count_saved();
    if (session_->registry().eligible(tensor)) {
        origin_ = origin_of(tensor);
        node_number_ = at::sequence_number::peek();
        session_->save(*this);
    } else if (tensor.grad_fn() != nullptr) {
        origin_ = origin_of(tensor);
    }
}

at::Tensor SavedHook::call_unpack_hook() {
    check_version();
    return value_.valid() ? session_->bring_back(*this) : kept_;
}

void SavedHook::check_version() const {
    std::uint32_t const now = version_.current_version();
    if (now == saved_version_) {
        return;
    }
    std::ostringstream words;
    words << "one of the variables needed for gradient computation has been modified by an "
             "inplace operation: ["
          << described(kept_, geometry_) << "]";
    if (origin_.node != nullptr) {
        words << ", which is output " << origin_.output << " of " << origin_.name() << ",";
    }
    words << " is at version " << now << "; expected version " << saved_version_ << " instead.";
    words
        << (torch::autograd::AnomalyMode::is_enabled()
                ? " Hint: the backtrace further above shows the operation that failed to compute "
                  "its gradient. The variable in question was changed in there or anywhere later. "
                  "Good luck!"
                : " Hint: enable anomaly detection to find the operation that failed to compute "
                  "its gradient, with torch.autograd.set_detect_anomaly(True).");
    TORCH_CHECK(false, words.str());
}

}  // namespace spillway
