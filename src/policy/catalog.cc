// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/catalog.h"

#include "policy/qpo.h"
#include "policy/te.h"

#include <algorithm>
#include <array>

namespace spillway {

namespace {

constexpr std::array kTeParameters{PolicyParameter{
    .name = "layers", .what = "how many leave, of the first; 0: all but two", .most = 1e6}};

constexpr std::array kPolicies{
    Policy{
        .name = "online",
        .what = "chooses at run time",
        .paper = "DELTA: Tang et al., 2022 (its run-time choice, reduced to moves)"},
    Policy{.name = "keep_all", .what = "moves nothing", .moves = false},
    Policy{
        .name = "qpo",
        .what = "layer inputs, in 4 or 8 bits",
        .paper = "QPO: Xiang Fan and Shaohuai Shi, ICPADS 2025, "
                 "DOI 10.1109/ICPADS67057.2025.11323016",
        .is_lossy = true,
        .codec_of = &qpo_codec,
        .make_rule = &make_qpo},
    Policy{
        .name = "te",
        .what = "plans: the first layers leave, at fixed points of the others",
        .paper = "Transformer Engine offload: NVIDIA, TransformerEngine cpu_offload",
        .make_plan = &plan_te,
        .parameters = kTeParameters},
};

}  // namespace

std::span<Policy const> policies() {
    return kPolicies;
}

Policy const* find_policy(std::string_view name) {
    auto const* const at = std::find_if(kPolicies.begin(), kPolicies.end(), [&](Policy const& p) {
        return p.name == name.substr(0, name.find(':'));
    });
    return at == kPolicies.end() ? nullptr : at;
}

std::string policy_names() {
    std::string names;
    for (std::size_t i = 0; i < kPolicies.size(); ++i) {
        bool const is_last = i + 1 == kPolicies.size();
        names += i == 0 ? "" : is_last ? " and " : ", ";
        names += kPolicies[i].name;
    }
    return names;
}

}  // namespace spillway
