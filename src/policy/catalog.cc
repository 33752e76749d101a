// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/catalog.h"

#include "policy/auto_policy.h"
#include "policy/baselines.h"
#include "policy/capuchin.h"
#include "policy/checkpoint.h"
#include "policy/optimal_offload.h"
#include "policy/pofo.h"
#include "policy/qpo.h"
#include "policy/qpo_plan.h"
#include "policy/rotor.h"
#include "policy/str.h"
#include "policy/superneurons.h"
#include "policy/swapadvisor.h"
#include "policy/tba.h"
#include "policy/te.h"
#include "policy/vdnn.h"

#include <algorithm>
#include <array>

namespace spillway {

namespace {

constexpr std::array kTeParameters{PolicyParameter{
    .name = "layers", .what = "how many leave, of the first; 0: all but two", .most = 1e6}};

constexpr std::array kSqrtParameters{PolicyParameter{
    .name = "every",
    .what = "layers of a segment; 0: the square root of their number",
    .most = 1e6}};

constexpr std::array kTbaParameters{PolicyParameter{
    .name = "least_bytes", .what = "smaller tensors stay; theirs is 16777216", .most = 1e15}};

constexpr std::array kCapuchinParameters{PolicyParameter{
    .name = "queue",
    .what = "1: swaps wait for each other on the link; 0: each is chosen as if alone",
    .otherwise = 1,
    .most = 1}};

constexpr std::array kSwapadvisorParameters{
    PolicyParameter{.name = "seed", .what = "of the search's draws", .most = 1e9},
    PolicyParameter{
        .name = "generations",
        .what = "how many; 0: by the number of values, 1 to 12",
        .most = 1e6},
    PolicyParameter{
        .name = "population",
        .what = "lists in each; theirs is 144; 0: by the number of values, 6 to 16",
        .most = 1e5}};

constexpr std::array kAutoParameters{PolicyParameter{
    .name = "tries",
    .what = "plans that the search for a better one simulates; 0: by the number of values",
    .most = 1e6}};

constexpr std::array kPolicies{
    Policy{.name = "online", .what = "chooses at run time"},
    Policy{.name = "keep_all", .what = "moves nothing", .moves = false},
    Policy{
        .name = "auto",
        .what = "ours: of all policies' plans the quickest by simulation, then improved",
        .recomputes = true,
        .make_plan = &plan_auto,
        .parameters = kAutoParameters,
        .works_without_pool = true},
    Policy{
        .name = "delta",
        .what = "chooses at run time, by size and time unused",
        .paper = "DELTA: Yu Tang et al., 2022, arXiv:2203.15980",
        .recomputes = true,
        .eviction = EvictionRule::delta,
        .works_without_pool = true},
    Policy{
        .name = "qpo",
        .what = "layer inputs, in 4 or 8 bits",
        .paper = "QPO: Xiang Fan and Shaohuai Shi, ICPADS 2025, "
                 "DOI 10.1109/ICPADS67057.2025.11323016",
        .is_lossy = true,
        .codec_of = &qpo_codec,
        .make_rule = &make_qpo,
        .make_plan = &plan_qpo},
    Policy{
        .name = "te",
        .what = "the first layers leave, at fixed points of the others",
        .paper = "Transformer Engine offload: NVIDIA, TransformerEngine cpu_offload",
        .make_plan = &plan_te,
        .parameters = kTeParameters},
    Policy{
        .name = "tba",
        .what = "the first modules leave, as far as writing hides behind compute",
        .paper = "TBA / SSDTrain: Kun Wu et al., DAC 2025, arXiv:2408.10013",
        .make_plan = &plan_tba,
        .parameters = kTbaParameters},
    Policy{
        .name = "tba_recompute",
        .what = "as tba, and what follows the first modules is made again, but for the last one's",
        .paper = "TBA / SSDTrain: Kun Wu et al., DAC 2025, arXiv:2408.10013",
        .recomputes = true,
        .make_plan = &plan_tba_recompute,
        .parameters = kTbaParameters},
    Policy{
        .name = "vdnn_all",
        .what =
            "each layer's input leaves when the layer has ended, and is fetched one layer ahead",
        .paper = "vDNN: Minsoo Rhu et al., MICRO 2016, arXiv:1602.08124",
        .make_plan = &plan_vdnn_all},
    Policy{
        .name = "vdnn_conv",
        .what = "as vdnn_all, of convolutions alone",
        .paper = "vDNN: Minsoo Rhu et al., MICRO 2016, arXiv:1602.08124",
        .make_plan = &plan_vdnn_conv},
    Policy{
        .name = "vdnn_dyn",
        .what = "of nothing, vdnn_conv and vdnn_all the first that fits",
        .paper = "vDNN: Minsoo Rhu et al., MICRO 2016, arXiv:1602.08124",
        .make_plan = &plan_vdnn_dyn},
    Policy{
        .name = "optimal_offload",
        .what = "the fewest of the oldest values, or of those away longest; with a lower bound",
        .paper = "optimal offloading: Olivier Beaumont et al., Euro-Par 2020, hal-02316266",
        .make_plan = &plan_optimal_offload},
    Policy{
        .name = "capuchin",
        .what = "what hides is moved; of the rest the cheaper of a move and being made again",
        .paper = "Capuchin: Xuan Peng et al., ASPLOS 2020, DOI 10.1145/3373376.3378505",
        .recomputes = true,
        .make_plan = &plan_capuchin,
        .parameters = kCapuchinParameters,
        .learns = true},
    Policy{
        .name = "recompute_all",
        .what = "each layer is made again from its input, which stays",
        .moves = false,
        .recomputes = true,
        .make_plan = &plan_recompute_all},
    Policy{
        .name = "sqrt_checkpoint",
        .what = "of every so many layers the first one's input stays, the rest is made again",
        .paper = "sublinear memory: Tianqi Chen et al., 2016, arXiv:1604.06174",
        .moves = false,
        .recomputes = true,
        .make_plan = &plan_sqrt_checkpoint,
        .parameters = kSqrtParameters},
    Policy{
        .name = "rotor",
        .what = "of all ways to checkpoint the layers the quickest that fits",
        .paper = "rotor: Olivier Beaumont et al., ACM TOMS 2024, arXiv:1911.13214",
        .moves = false,
        .recomputes = true,
        .make_plan = &plan_rotor},
    Policy{
        .name = "pofo",
        .what = "of all ways to checkpoint and move the layers the quickest that fits",
        .paper = "POFO: Olivier Beaumont et al., NeurIPS 2021",
        .recomputes = true,
        .make_plan = &plan_pofo},
    Policy{
        .name = "superneurons",
        .what = "what cheap layers made is made again; of the rest the least recently used leave",
        .paper = "SuperNeurons: Linnan Wang et al., PPoPP 2018, arXiv:1801.04380",
        .recomputes = true,
        .make_plan = &plan_superneurons},
    Policy{
        .name = "swapadvisor",
        .what = "what leaves, and where to, by a genetic search that the simulator judges",
        .paper = "SwapAdvisor: Chien-Chin Huang et al., ASPLOS 2020, DOI 10.1145/3373376.3378530",
        .make_plan = &plan_swapadvisor,
        .parameters = kSwapadvisorParameters},
    Policy{
        .name = "str",
        .what = "a program of swaps that the link hides and of values made again",
        .paper = "STR: hybrid tensor re-generation, TPDS 2023, DOI 10.1109/TPDS.2023.3266110",
        .recomputes = true,
        .make_plan = &plan_str},
    Policy{
        .name = "offload_all",
        .what = "everything leaves as soon as it is stored",
        .make_plan = &plan_offload_all},
    Policy{
        .name = "largest_first",
        .what = "the largest leave, until the step fits",
        .make_plan = &plan_largest_first},
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
