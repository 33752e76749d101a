// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A forward pass as a list of operators: what each reads, makes and has autograd save. A training
// step is made of it (step.h).
#pragma once

#include "trace/tensor_class.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

struct ElementType {
    std::string_view name;  ///< as torch prints it
    std::int64_t size_bytes = 0;
    bool has_gradient = true;

    bool operator==(ElementType const&) const = default;
};
inline constexpr ElementType kFloat32{"float32", 4};
inline constexpr ElementType kFloat16{"float16", 2};
inline constexpr ElementType kBFloat16{"bfloat16", 2};
inline constexpr ElementType kInt64{"int64", 8, false};
inline constexpr ElementType kBool{"bool", 1, false};

/// Of one storage; its place in `Tape::tensors`.
struct TapeTensor {
    std::size_t number = 0;
};

/// An input that autograd saves.
struct TapeSave {
    TapeTensor tensor;
    TensorClass tensor_class = TensorClass::other;
};

struct TapeOutput {
    std::int64_t elements = 0;
    ElementType dtype;
    std::optional<TensorClass> saved{};  ///< by the operator that makes it; none: it does not
    bool is_random = false;              ///< cannot be made again
};

struct TapeOperator {
    std::string module{};  ///< its path; empty: the model
    std::string node{};    ///< of autograd, "AddmmBackward0"
    std::vector<TapeTensor> inputs{};
    std::vector<TapeSave> saves{};
    std::vector<TapeOutput> outputs{};  ///< only the first one has a gradient
    double flop = 0;                    ///< of products, forward
    double backward_flops = 2;          ///< backward's, in forward's
    double passes = 1;             ///< how often it reads its inputs and writes its outputs, being
                                   ///< several operators in truth
    std::int64_t parameters = 0;   ///< elements whose gradient it makes
    bool is_in_place = false;      ///< the first output takes the memory of the first input
    bool shares_gradient = false;  ///< the gradient of its second input is that of the output
    std::int64_t backward_temporary_bytes = 0;
};

struct TapeTensorInfo {
    std::int64_t size_bytes = 0;  ///< as the device's allocator rounds
    ElementType dtype;
    std::optional<std::size_t> maker{};  ///< an operator; none: made outside the step
    std::int32_t output = 0;             ///< which of the maker's
    bool is_random = false;
};

class Tape {
  public:
    /// Made outside the step.
    TapeTensor input(std::int64_t elements, ElementType dtype);
    /// Returns the first output.
    TapeTensor add(TapeOperator what);

    [[nodiscard]] std::vector<TapeOperator> const& operators() const { return operators_; }
    [[nodiscard]] std::vector<TapeTensorInfo> const& tensors() const { return tensors_; }
    /// The outputs of an operator.
    [[nodiscard]] std::vector<TapeTensor> const& outputs(std::size_t of) const {
        return outputs_[of];
    }
    /// Elements of all parameters.
    [[nodiscard]] std::int64_t parameters() const { return parameters_; }

  private:
    TapeTensor add_tensor(TapeTensorInfo const& tensor);

    std::vector<TapeOperator> operators_;
    std::vector<std::vector<TapeTensor>> outputs_;
    std::vector<TapeTensorInfo> tensors_;
    std::int64_t parameters_ = 0;
};

/// As torch's allocator of a GPU rounds: to 512 bytes.
[[nodiscard]] std::int64_t rounded_bytes(std::int64_t size_bytes);

}  // namespace spillway
