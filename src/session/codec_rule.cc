// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/codec_rule.h"

#include "base/assert.h"
#include "base/log.h"
#include "plan/planned_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace spillway {

namespace {

constexpr std::array<TensorClass, 4> kMayBeLossy{
    TensorClass::linear_input,
    TensorClass::convolution_input,
    TensorClass::norm_input,
    TensorClass::activation_input};

constexpr std::string_view kAll = "all";

std::size_t at(TensorClass tensor_class) {
    return static_cast<std::size_t>(tensor_class);
}

Error unknown(std::string_view item, std::string what) {
    return {Errc::bad_argument, std::move(what), "'" + std::string(item) + "'"};
}

/// One item of a codec list: "affine4:group=64", with or without the class it is for.
struct Item {
    std::string_view text;
    std::string_view name;  ///< of a class, or "all"; empty: none is named
    std::string_view codec;
};

/// Where a class is named: "group=64" is a codec's own.
std::size_t end_of_name(std::string_view item) {
    std::size_t const equals = item.find('=');
    bool const is_codecs = equals == std::string_view::npos || item.substr(0, equals) == "group" ||
                           item.substr(0, equals).find(':') != std::string_view::npos;
    return is_codecs ? 0 : equals;
}

/// Commas separate items, and words of one codec: a new item begins where a class is named.
std::vector<Item> items_of(std::string_view text) {
    std::vector<Item> items;
    std::size_t begin = 0;
    while (begin <= text.size()) {
        std::size_t end = text.find(',', begin);
        while (end != std::string_view::npos &&
               end_of_name(text.substr(end + 1, text.find(',', end + 1) - end - 1)) == 0) {
            end = text.find(',', end + 1);
        }
        std::string_view const item =
            text.substr(begin, end == std::string_view::npos ? end : end - begin);
        std::size_t const name = end_of_name(item);
        items.push_back({item, item.substr(0, name), item.substr(name == 0 ? 0 : name + 1)});
        begin = end == std::string_view::npos ? text.size() + 1 : end + 1;
    }
    return items;
}

Result<void> lay_over(CodecTable& table, Item const& item) {
    Result<Codec> const codec = parse_codec(item.codec);
    if (!codec.ok()) {
        return codec.error();
    }
    if (codec->kind == CodecKind::sign && item.name != name_of(TensorClass::relu_output)) {
        return unknown(
            item.text, "'sign' stores signs only; use it for relu_output, as relu_output=sign"
        );
    }
    if (codec->kind == CodecKind::mask && item.name.empty()) {
        return unknown(
            item.text, "'mask' stores two distinct values only; name the class, as mask=mask"
        );
    }
    if (item.name.empty()) {
        for (TensorClass const each : kMayBeLossy) {
            table[at(each)] = *codec;
        }
        return {};
    }
    if (item.name == kAll) {
        if (is_lossy(*codec)) {
            return unknown(item.text, "'all' takes an exact codec; name the classes that may lose");
        }
        table.fill(*codec);
        return {};
    }
    Result<TensorClass> const named = parse_tensor_class(item.name);
    if (!named.ok()) {
        return named.error();
    }
    if (*named == TensorClass::index && is_lossy(*codec)) {
        return unknown(item.text, "integers take an exact codec");
    }
    table[at(*named)] = *codec;
    return {};
}

/// Blocks that a lossless codec is judged by, and the most that they may take of their raw bytes.
constexpr std::int64_t kTrialBlocks = 4;
constexpr double kMostOfRaw = 0.9;
constexpr std::int64_t kTrialPhases = 64;

double rate(std::int64_t bytes, std::int64_t ns) {
    return ns > 0 ? 1e9 * static_cast<double>(bytes) / static_cast<double>(ns) : 0;
}

/// Of two parts of a pipeline; 0: not known.
double slower(double one, double other) {
    return one > 0 && other > 0 ? std::min(one, other) : std::max(one, other);
}

}  // namespace

CodecTable table_of(Policy const& policy) {
    CodecTable table;
    for (std::size_t i = 0; policy.codec_of != nullptr && i < kTensorClasses; ++i) {
        Result<Codec> const codec = parse_codec(policy.codec_of(static_cast<TensorClass>(i)));
        SPILLWAY_ASSERT(codec.ok(), "a policy's codecs exist");
        table[i] = *codec;
    }
    return table;
}

Result<CodecTable> with_codecs(CodecTable table, std::string_view text) {
    std::vector<std::string_view> names;
    for (Item const& item : items_of(text)) {
        if (std::find(names.begin(), names.end(), item.name) != names.end()) {
            return unknown(text, std::string(item.name) + " is there twice; name it once");
        }
        names.push_back(item.name);
        Result<void> const laid = lay_over(table, item);
        if (!laid.ok()) {
            return laid.error();
        }
    }
    return table;
}

std::optional<TensorClass> first_lossy(CodecTable const& table) {
    auto const found = std::find_if(table.begin(), table.end(), [](Codec const& codec) {
        return is_lossy(codec);
    });
    return found == table.end()
               ? std::nullopt
               : std::optional(static_cast<TensorClass>(std::distance(table.begin(), found)));
}

namespace {

SavedAs leaves_as(Codec const& codec, SavedTensor const& tensor) {
    SavedAs as{.tensor_class = tensor.tensor_class};
    if (codec.kind != CodecKind::identity && tensor.dtype && tensor.count > 0) {
        Encoding const encoding{codec, *tensor.dtype, tensor.count};
        bool const is_unasked =
            std::find(kMayBeLossy.begin(), kMayBeLossy.end(), tensor.tensor_class) !=
            kMayBeLossy.end();
        // What nobody saved would be in the groups of what somebody did.
        bool const shares_groups = !tensor.is_whole && codec.group > 0 && is_unasked;
        if (!shares_groups &&
            encoded_bytes(encoding).ok()) {  // or it is of a type that the codec does not take
            as.encoding = encoding;
        }
    }
    return as;
}

}  // namespace

SavedAs leaves_by(CodecTable const& table, SavedTensor const& tensor) {
    return leaves_as(table[at(tensor.tensor_class)], tensor);
}

CodecRule::CodecRule(CodecTable const& table, Measures measures)
    : measures_(std::move(measures)), table_(table) {
    for (std::size_t i = 0; i < kTensorClasses; ++i) {
        if (table_[i].kind == CodecKind::lossless) {
            on_trial_.push_back(static_cast<TensorClass>(i));
        }
    }
}

void CodecRule::phase_begins(Phase) {
    // After a while what is still on trial may be of no tensor of this model: looked at less often.
    bool const is_looked_at = ++phases_ <= kTrialPhases || phases_ % kTrialPhases == 0;
    if (is_looked_at && !on_trial_.empty()) {
        end_trials();
    }
}

void CodecRule::end_trials() {
    Report const report = measures_.report();
    double const link = rates_of(report).out;
    for (CodecReport const& row : report.codecs) {
        auto const on_trial =
            std::find_if(on_trial_.begin(), on_trial_.end(), [&](TensorClass each) {
                return row.tensor_class == name_of(each) && row.codec == to_text(table_[at(each)]);
            });
        if (on_trial == on_trial_.end() || row.values < kTrialBlocks) {
            continue;
        }
        std::string const against = against_lossless(row, link);
        if (!against.empty()) {
            log_once("lossless is not used any more for " + row.tensor_class + ": " + against);
            table_[at(*on_trial)] = Codec{};
        }
        if (!against.empty() || link > 0) {
            on_trial_.erase(on_trial);
        }
    }
}

std::string against_lossless(CodecReport const& row, double link) {
    double const share = static_cast<double>(row.encoded_bytes) /
                         static_cast<double>(std::max<std::int64_t>(row.raw_bytes, 1));
    if (share > kMostOfRaw) {
        return fmt::format("its blocks take {:.0f} % of their raw bytes", 100 * share);
    }
    double const encode = rate(row.raw_bytes, row.encode_ns);
    if (encode > 0 && encode < link) {
        return fmt::format(
            "it is encoded at {:.2f} GB/s, and the link takes {:.2f}", encode / 1e9, link / 1e9
        );
    }
    return "";
}

Result<std::vector<Codec>> codecs_of(Plan const& plan) {
    std::vector<Codec> codecs;
    for (auto const& [slot, fate] : plan.fates) {
        if (fate.codec.empty()) {
            continue;
        }
        Result<Codec> const codec = parse_planned_codec(fate.codec);
        if (!codec.ok()) {
            return codec.error();
        }
        if (std::find(codecs.begin(), codecs.end(), *codec) == codecs.end()) {
            codecs.push_back(*codec);
        }
    }
    return codecs;
}

PlannedRule::PlannedRule(CodecTable const& table, Measures measures, Plan const& plan)
    : CodecRule(table, std::move(measures)) {
    for (auto const& [slot, fate] : plan.fates) {
        codecs_[slot] = fate.codec.empty() ? Codec{} : parse_planned_codec(fate.codec).value();
    }
}

SavedAs PlannedRule::of(SavedTensor const& tensor) {
    auto const known = tensor.slot == nullptr ? codecs_.end() : codecs_.find(*tensor.slot);
    if (known == codecs_.end()) {
        return CodecRule::of(tensor);
    }
    bool const is_no_sign =
        known->second.kind == CodecKind::sign && tensor.tensor_class != TensorClass::relu_output;
    return leaves_as(is_no_sign ? Codec{} : known->second, tensor);
}

SavedAs PolicyRule::of(SavedTensor const& tensor) {
    SavedAs as = leaves_by(table_, tensor);
    if (tensor.phase == Phase::backward) {
        return as;
    }
    Result<std::int64_t> const coded =
        as.encoding ? encoded_bytes(*as.encoding) : Result<std::int64_t>(tensor.size_bytes);
    std::int64_t const away_bytes =
        std::min(coded.ok() ? *coded : tensor.size_bytes, tensor.size_bytes);
    bool const keeps = rule_->keeps(tensor.size_bytes, away_bytes, measures_.compute_ns());
    as.advice = keeps ? Advice::last_resort : Advice::at_once;
    return as;
}

void PolicyRule::phase_begins(Phase phase) {
    CodecRule::phase_begins(phase);
    if (phase == Phase::backward) {
        rule_->backward_begins(measures_.compute_ns());
        return;
    }
    if (phase == Phase::forward) {
        if (rule_->is_measuring()) {
            rule_->set_rates(rates_of(measures_.report()));
        }
        rule_->forward_begins(measures_.compute_ns());
    }
}

void PolicyRule::backward_needs() {
    if (rule_->is_measuring()) {
        rule_->needs(measures_.compute_ns());
    }
}

MoveRates rates_of(Report const& report) {
    MoveRates rates{
        .out = slower(
            rate(report.stored_bytes, report.store_busy_ns),
            rate(report.copy_out_bytes, report.copy_out_ns)
        ),
        .in = slower(
            rate(report.loaded_bytes, report.load_busy_ns),
            rate(report.copy_in_bytes, report.copy_in_ns)
        )};
    std::int64_t encode_ns = 0;
    std::int64_t decode_ns = 0;
    std::int64_t encoded = 0;
    std::int64_t decoded = 0;
    for (CodecReport const& row : report.codecs) {
        encode_ns += row.encode_ns;
        decode_ns += row.decode_ns;
        encoded += row.raw_bytes;
        decoded += row.decoded_bytes;
    }
    rates.encode = rate(encoded, encode_ns);
    rates.decode = rate(decoded, decode_ns);
    return rates;
}

}  // namespace spillway
