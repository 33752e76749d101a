// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// QPO, "Quantized and Pipelined Offloading" (Xiang Fan and Shaohuai Shi, ICPADS 2025, DOI
// 10.1109/ICPADS67057.2025.11323016), as a rule that is asked at each save. It needs no trace. As a
// plan: qpo_plan.h.
#pragma once

#include "policy/online_rule.h"
#include "trace/tensor_class.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

namespace spillway {

/// Note [QPO: what is the authors', what is ours]
/// Only the abstract was at hand, and no code. The authors': activations are quantized to few bits
/// before they leave, and both ways are pipelined with forward and backward. Everything else is
/// reconstructed:
/// - 4 bits for inputs of linear layers, 8 for those of norms and activation functions, min-max
///   groups of 256, rounded stochastically: the first version of the code of AGoQ, of the same
///   group. Convolutions are taken as linear layers.
/// - What is exact at one bit (dropout masks, the signs of a ReLU) goes so, as in ActNN and GACT;
///   all the rest goes uncompressed.
/// - The kept tail: by the pipeline's hiding test, value by value where theirs is probably layer by
///   layer, and with TBA's idea that backward's time counts, too (Wu et al., 2024).
/// Not taken over: staging buffers that hold one layer each. The bit width is chosen where a plan
/// is made (qpo_plan.h), not here.

/// How tensors of a class leave, as `parse_codec` reads it; "identity": as they are.
[[nodiscard]] std::string_view qpo_codec(TensorClass tensor_class);

/// One save of a forward. Times are of compute: a clock from which its waits are taken off.
struct QpoSave {
    std::int64_t at_ns = 0;  ///< since the forward began
    std::int64_t raw_bytes = 0;
    std::int64_t away_bytes = 0;  ///< what it takes outside the device

    bool operator==(QpoSave const&) const = default;
};

/// One forward and its backward.
struct QpoPass {
    std::vector<QpoSave> saves;
    std::int64_t forward_ns = 0;
    std::int64_t backward_ns = 0;

    bool operator==(QpoPass const&) const = default;
};

inline constexpr std::int64_t kQpoNoTail = std::numeric_limits<std::int64_t>::max();

/// Raw bytes saved before the first save that backward needs before it could be out and back: from
/// there on values are kept. `kQpoNoTail` where there is none, or where a rate is not known.
[[nodiscard]] std::int64_t qpo_tail_begins(QpoPass const& pass, MoveRates const& rates);

/// The kept tail over a training: the first pass warms up, the fastest of the next few is the
/// measure, and a pass that saves an eighth more or less is measured anew.
///
/// Thread  not thread-safe
class Qpo final : public OnlineRule {
  public:
    void forward_begins(std::int64_t compute_ns) override;
    void backward_begins(std::int64_t compute_ns) override;
    /// So it lasts at least until now.
    void needs(std::int64_t compute_ns) override;
    void set_rates(MoveRates const& rates) override { rates_ = rates; }
    /// Allocates only while it measures.
    [[nodiscard]] bool keeps(
        std::int64_t raw_bytes, std::int64_t away_bytes, std::int64_t compute_ns
    ) override;
    [[nodiscard]] bool is_measuring() const override;

    [[nodiscard]] std::int64_t tail_begins() const { return tail_begins_; }

  private:
    void take_pass();

    enum class Part : std::uint8_t { none, forward, backward };

    MoveRates rates_;
    Part part_ = Part::none;
    std::int64_t began_ns_ = 0;     ///< of the forward, then of the backward
    std::int64_t saved_bytes_ = 0;  ///< raw, in this forward
    QpoPass pass_;                  ///< this one
    QpoPass fastest_;
    std::int64_t fastest_bytes_ = 0;  ///< that it saved
    int passes_ = 0;                  ///< that were measured, warm-up included
    std::int64_t tail_begins_ = kQpoNoTail;
};

[[nodiscard]] std::unique_ptr<OnlineRule> make_qpo();

}  // namespace spillway
