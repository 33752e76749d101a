// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/qpo.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace spillway {

namespace {

constexpr int kWarmUpPasses = 1;
constexpr int kMeasuredPasses = 3;
constexpr std::int64_t kOtherSizeShare = 8;

double ns_of(std::int64_t bytes, double rate) {
    return rate > 0 ? 1e9 * static_cast<double>(bytes) / rate : 0;
}

std::int64_t raw_bytes(std::vector<QpoSave> const& saves) {
    std::int64_t sum = 0;
    for (QpoSave const& save : saves) {
        sum += save.raw_bytes;
    }
    return sum;
}

}  // namespace

std::string_view qpo_codec(TensorClass tensor_class) {
    switch (tensor_class) {
        case TensorClass::linear_input:
        case TensorClass::convolution_input:
            return "affine4:group=256,stochastic";
        case TensorClass::norm_input:
        case TensorClass::activation_input:
            return "affine8:group=256,stochastic";
        case TensorClass::relu_output:
            return "sign";
        case TensorClass::mask:
            return "mask";
        case TensorClass::attention:
        case TensorClass::statistics:
        case TensorClass::index:
        case TensorClass::other:
            return "identity";
    }
    return "identity";
}

std::int64_t qpo_tail_begins(QpoPass const& pass, MoveRates const& rates) {
    std::int64_t const all_bytes = raw_bytes(pass.saves);
    if (rates.out <= 0 || rates.in <= 0 || all_bytes == 0) {
        return kQpoNoTail;
    }
    double encoder_free_ns = 0;
    double link_free_ns = 0;
    std::int64_t before_bytes = 0;
    for (QpoSave const& save : pass.saves) {
        encoder_free_ns = std::max(encoder_free_ns, static_cast<double>(save.at_ns)) +
                          ns_of(save.raw_bytes, rates.encode);
        link_free_ns = std::max(link_free_ns, encoder_free_ns) + ns_of(save.away_bytes, rates.out);
        double const back_ns =
            link_free_ns + ns_of(save.away_bytes, rates.in) + ns_of(save.raw_bytes, rates.decode);
        // Backward comes to it after all that was saved later, in the time that their bytes take.
        double const later = static_cast<double>(all_bytes - before_bytes - save.raw_bytes) /
                             static_cast<double>(all_bytes);
        double const needed_ns =
            static_cast<double>(pass.forward_ns) + static_cast<double>(pass.backward_ns) * later;
        if (back_ns > needed_ns) {
            return before_bytes;
        }
        before_bytes += save.raw_bytes;
    }
    return kQpoNoTail;
}

bool Qpo::is_measuring() const {
    return passes_ < kWarmUpPasses + kMeasuredPasses;
}

/// A pass has ended that has a forward and a backward.
void Qpo::take_pass() {
    bool const is_other_size = fastest_bytes_ > 0 && std::abs(saved_bytes_ - fastest_bytes_) >
                                                         fastest_bytes_ / kOtherSizeShare;
    if (is_other_size) {
        passes_ = std::min(passes_, kWarmUpPasses);
        fastest_bytes_ = 0;
        tail_begins_ = kQpoNoTail;
        // Where it was not recorded, the next pass is.
    }
    if (!is_measuring() || pass_.saves.empty() || raw_bytes(pass_.saves) != saved_bytes_) {
        return;
    }
    if (passes_ < kWarmUpPasses) {
        ++passes_;
        return;
    }
    auto const time_of = [](QpoPass const& pass) { return pass.forward_ns + pass.backward_ns; };
    if (fastest_bytes_ == 0 || time_of(pass_) < time_of(fastest_)) {
        std::swap(fastest_, pass_);
        fastest_bytes_ = saved_bytes_;
    }
    bool const is_known = rates_.out > 0 && rates_.in > 0;
    passes_ += is_known ? 1 : 0;  // until then nothing has moved
    tail_begins_ = qpo_tail_begins(fastest_, rates_);
}

void Qpo::forward_begins(std::int64_t compute_ns) {
    if (part_ == Part::backward) {
        take_pass();
    }
    part_ = Part::forward;
    began_ns_ = compute_ns;
    saved_bytes_ = 0;
    pass_.saves.clear();
    pass_.forward_ns = 0;
    pass_.backward_ns = 0;
}

void Qpo::backward_begins(std::int64_t compute_ns) {
    if (part_ != Part::forward) {
        return;
    }
    part_ = Part::backward;
    pass_.forward_ns = compute_ns - began_ns_;
    began_ns_ = compute_ns;
}

void Qpo::needs(std::int64_t compute_ns) {
    if (part_ == Part::backward) {
        pass_.backward_ns = compute_ns - began_ns_;
    }
}

bool Qpo::keeps(std::int64_t raw_bytes, std::int64_t away_bytes, std::int64_t compute_ns) {
    if (part_ != Part::forward) {
        return false;
    }
    std::int64_t const before_bytes = saved_bytes_;
    saved_bytes_ += raw_bytes;
    if (is_measuring()) {
        pass_.saves.push_back({compute_ns - began_ns_, raw_bytes, away_bytes});
    }
    return before_bytes >= tail_begins_;
}

std::unique_ptr<OnlineRule> make_qpo() {
    return std::make_unique<Qpo>();
}

}  // namespace spillway
