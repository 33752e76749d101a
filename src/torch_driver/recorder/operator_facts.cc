// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/operator_facts.h"

#include "base/mutex.h"
#include "torch_driver/recorder/recipe_rules.h"

#include <ATen/core/operator_name.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

namespace {

constexpr std::string_view kOfPyTorch = "aten::";

/// Operators that give the same bits for the same arguments, with as many threads and the same
/// settings of PyTorch, and that cost little beside a product of matrices. Each stands for all of
/// its overloads, and for the one that writes in place (`relu_` for `relu`). None sums in an order
/// of chance or chooses its algorithm by time, as far as PyTorch's documentation tells.
constexpr std::string_view kPure =
    "_fused_rms_norm _log_softmax _safe_softmax _softmax _to_copy abs acos acosh add addcdiv "
    "addcmul amax amin arange asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or "
    "bitwise_xor cat ceil celu clamp clamp_max clamp_min clone copysign cos cosh div elu "
    "embedding eq erf erfc exp exp2 expm1 eye flip floor floor_divide fmod gather ge gelu "
    "glu gt hardshrink hardsigmoid hardswish hardtanh index index_select isfinite isinf "
    "isnan le leaky_relu lerp linspace log log10 log1p log2 log_sigmoid_forward logaddexp "
    "logical_and logical_not logical_or logical_xor lt masked_fill maximum mean minimum mish "
    "mul native_group_norm native_layer_norm ne neg polar pow reciprocal relu remainder "
    "repeat roll round rsqrt rsub scalar_tensor sgn sigmoid sign silu sin sinh softplus "
    "softshrink sqrt square stack sub sum tan tanh threshold tril triu trunc where";
/// As kPure, with products, convolutions, attention and pooling: the dear ones. Those of attention
/// draw only where they drop out.
constexpr std::string_view kCostly =
    "_adaptive_avg_pool2d _scaled_dot_product_cudnn_attention "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention "
    "_scaled_dot_product_flash_attention_for_cpu addbmm addmm addmv avg_pool1d avg_pool2d baddbmm "
    "bmm constant_pad_nd convolution cudnn_convolution dot linear max_pool2d_with_indices mm mv";
constexpr std::string_view kOverwriting = "copy_ fill_ zero_";
/// They take a generator, and overwrite.
constexpr std::string_view kDrawing =
    "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_";
/// They make a tensor of drawn numbers, where their overload takes a generator.
constexpr std::string_view kDrawingMakers = "bernoulli normal rand randint randn randperm";
/// Buffers, which kernels that are no operators may fill (Triton, NumPy): what is in them later
/// is not known, and no version tells.
constexpr std::string_view kAllocating =
    "empty empty_like empty_strided full full_like new_empty new_empty_strided new_full new_ones "
    "new_zeros ones ones_like zeros zeros_like";
constexpr std::string_view kBatchNorm = "native_batch_norm";
/// They write running statistics, and no schema tells.
constexpr std::string_view kStatisticsAtThree =
    "batch_norm_gather_stats batch_norm_gather_stats_with_counts cudnn_batch_norm "
    "miopen_batch_norm native_batch_norm";

/// Their schemas say that they write: streams or autograd's facts, and no byte.
constexpr std::string_view kWritingNoBytes = "detach_ record_stream requires_grad_ retain_grad";

/// Whether `names`, with spaces between, has `name`.
bool has(std::string_view names, std::string_view name) {
    for (std::size_t at = names.find(name); at != std::string_view::npos;
         at = names.find(name, at + 1)) {
        std::size_t const end = at + name.size();
        bool const begins = at == 0 || names[at - 1] == ' ';
        if (begins && (end == names.size() || names[end] == ' ')) {
            return true;
        }
    }
    return false;
}

/// "relu" of "aten::relu_"; whole where that is listed.
std::string_view without_in_place(std::string_view name) {
    return name.size() > 1 && name.back() == '_' ? name.substr(0, name.size() - 1) : name;
}

void sort_in(OperatorFacts& facts, std::string_view name) {
    bool const draws = has(kDrawing, name) || has(kDrawingMakers, name);
    facts.overwrites = facts.overwrites || has(kDrawing, name) || has(kOverwriting, name);
    facts.fills = name == "fill_" || name == "zero_";
    if (has(kAllocating, name)) {
        facts.replay = Replay::allocates;
    } else if (has(kBatchNorm, name)) {
        facts.replay = Replay::batch_norm;
    } else if (draws && facts.generator) {
        facts.replay = Replay::draws;
    } else if (has(kCostly, without_in_place(name))) {
        facts.replay = Replay::costly;
    } else if (draws || facts.handle.hasTag(at::Tag::nondeterministic_seeded)) {
        facts.draws_without_generator = true;
    } else if (has(kOverwriting, name) || has(kPure, without_in_place(name))) {
        facts.replay = Replay::pure;
    }
}

/// What any schema tells.
OperatorFacts of_schema(c10::OperatorHandle const& handle) {
    OperatorFacts facts(handle);
    c10::FunctionSchema const& schema = handle.schema();
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
        c10::Argument const& argument = schema.arguments()[i];
        if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) {
            facts.written.push_back(static_cast<int>(i));
            facts.overwrites = argument.is_out();
        }
        if (argument.name() == "generator") {
            facts.generator = static_cast<int>(i);
        }
        if (argument.name() == "dropout_p") {
            facts.dropout = static_cast<int>(i);
        }
    }
    return facts;
}

OperatorFacts made(c10::OperatorHandle const& handle) {
    OperatorFacts facts = of_schema(handle);
    std::string_view name = handle.schema().operator_name().name;
    name.remove_prefix(name.find("::") + 2);
    bool const tells = keeps(RecipeRule::statistics_are_written);
    if (tells && has(kStatisticsAtThree, name)) {
        facts.written.insert(facts.written.end(), {kRunningMean, kRunningVar});
    } else if (tells && name == "batch_norm_update_stats") {
        facts.written.insert(facts.written.end(), {1, 2});
    } else if (has(kWritingNoBytes, name)) {
        facts.written.clear();
    }
    sort_in(facts, name);
    return facts;
}

/// Keyed by where torch keeps an operator's name, which is in its schema: PyTorch's own stay.
struct Known {
    Mutex mutex;
    std::unordered_map<char const*, std::unique_ptr<OperatorFacts const>> facts
        SPILLWAY_GUARDED_BY(mutex);
};

Known& known() {
    static auto* const all = new Known;  // threads may outlive static objects
    return *all;
}

/// Operators of other libraries, which may end: keyed by name, and asked each time.
struct Allowed {
    std::atomic<bool> is_any = false;
    Mutex mutex;
    std::unordered_map<c10::OperatorName, std::unique_ptr<OperatorFacts const>> facts
        SPILLWAY_GUARDED_BY(mutex);
    /// Of those that were allowed again: recorded calls may refer to them.
    std::vector<std::unique_ptr<OperatorFacts const>> replaced SPILLWAY_GUARDED_BY(mutex);
};

Allowed& allowed() {
    static auto* const all = new Allowed;
    return *all;
}

OperatorFacts const* allowed_facts_of(at::RecordFunction const& function) {
    if (!allowed().is_any.load(std::memory_order_relaxed)) {
        return nullptr;
    }
    std::optional<c10::OperatorName> const full = function.operator_name();
    auto const handle = full ? c10::Dispatcher::singleton().findSchema(*full) : std::nullopt;
    if (!handle) {
        return nullptr;
    }
    MutexLock const lock(allowed().mutex);
    auto const at = allowed().facts.find(*full);
    bool const is_it =
        at != allowed().facts.end() && handle->schema() == at->second->allowed.value();
    return is_it ? at->second.get() : nullptr;
}

bool is_generator(c10::Argument const& argument) {
    auto const optional = argument.type()->cast<c10::OptionalType>();
    c10::TypePtr const type = optional ? optional->getElementType() : argument.type();
    return type->kind() == c10::TypeKind::GeneratorType;
}

bool draws_as_it_says(c10::OperatorHandle const& handle) {
    std::vector<c10::Argument> const& arguments = handle.schema().arguments();
    return handle.hasTag(at::Tag::nondeterministic_seeded) ||
           std::any_of(arguments.begin(), arguments.end(), is_generator);
}

Error not_allowed(std::string const& name, std::string const& why) {
    return {Errc::bad_argument, name + " cannot be run again: " + why, ""};
}

}  // namespace

std::optional<c10::OperatorHandle> OperatorFacts::to_run() const {
    if (!allowed) {
        return handle;
    }
    auto found = c10::Dispatcher::singleton().findSchema(allowed->operator_name());
    return found && found->schema() == *allowed ? found : std::nullopt;
}

OperatorFacts const* facts_of(at::RecordFunction const& function) {
    char const* const name = function.name();
    static thread_local std::unordered_map<char const*, OperatorFacts const*> seen_here;
    if (auto const at = seen_here.find(name); at != seen_here.end()) {
        return at->second;
    }
    if (!std::string_view(name).starts_with(kOfPyTorch)) {
        return allowed_facts_of(function);
    }
    std::optional<c10::OperatorName> const full = function.operator_name();
    auto const handle = full ? c10::Dispatcher::singleton().findSchema(*full) : std::nullopt;
    if (!handle) {
        return nullptr;
    }
    MutexLock const lock(known().mutex);
    std::unique_ptr<OperatorFacts const>& facts = known().facts[name];
    if (facts == nullptr) {
        facts = std::make_unique<OperatorFacts const>(made(*handle));
    }
    seen_here.emplace(name, facts.get());
    return facts.get();
}

Result<void> allow_recompute_of(std::string const& name) {
    if (name.starts_with(kOfPyTorch)) {
        return not_allowed(name, "it is one of PyTorch's, of which Spillway has a list");
    }
    if (name.find("c10d") != std::string::npos) {
        return not_allowed(name, "it communicates");
    }
    bool is_there = false;
    std::vector<OperatorFacts> found;
    for (c10::OperatorName const& each : c10::Dispatcher::singleton().getAllOpNames()) {
        auto const handle =
            each.name == name ? c10::Dispatcher::singleton().findSchema(each) : std::nullopt;
        if (!handle) {
            continue;
        }
        is_there = true;
        OperatorFacts facts = of_schema(*handle);
        if (draws_as_it_says(*handle)) {
            return not_allowed(name, "it draws random numbers");
        }
        if (facts.written.empty()) {
            facts.replay = Replay::costly;
            facts.allowed = handle->schema();
            found.push_back(std::move(facts));
        }
    }
    if (found.empty()) {
        return not_allowed(
            name,
            is_there
                ? "it writes to its arguments"
                : "there is no such operator; a name is \"library::operator\", without overload"
        );
    }
    MutexLock const lock(allowed().mutex);
    for (OperatorFacts& facts : found) {
        auto& known = allowed().facts[facts.allowed->operator_name()];
        allowed().replaced.push_back(std::move(known));
        known = std::make_unique<OperatorFacts const>(std::move(facts));
    }
    allowed().is_any.store(true, std::memory_order_relaxed);
    return {};
}

}  // namespace spillway
