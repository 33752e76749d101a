// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/tensor_class.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace spillway {

namespace {

constexpr std::array<std::string_view, kTensorClasses> kNames{
    "linear_input",
    "convolution_input",
    "norm_input",
    "activation_input",
    "relu_output",
    "mask",
    "attention",
    "statistics",
    "index",
    "other"};

}  // namespace

std::string_view name_of(TensorClass tensor_class) {
    return kNames[static_cast<std::size_t>(tensor_class)];
}

Result<TensorClass> parse_tensor_class(std::string_view name) {
    auto const* const found = std::find(kNames.begin(), kNames.end(), name);
    if (found != kNames.end()) {
        return static_cast<TensorClass>(std::distance(kNames.begin(), found));
    }
    std::string known;
    for (std::string_view const one : kNames) {
        known += (known.empty() ? "" : ", ") + std::string(one);
    }
    return Error{
        Errc::bad_argument,
        "'" + std::string(name) + "' is not a class of tensors; known are " + known,
        ""};
}

TensorClass both(TensorClass one, TensorClass another) {
    return one == another ? one : TensorClass::other;
}

void SaverClasses::add(TensorClass one) {
    all_ = each_.empty() ? one : both(all_, one);
    if (std::find(each_.begin(), each_.end(), one) == each_.end()) {
        each_.push_back(one);
    }
}

std::vector<TensorClass> SaverClasses::differing() const {
    return each_.size() > 1 ? each_ : std::vector<TensorClass>();
}

}  // namespace spillway
