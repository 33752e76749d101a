// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Rules that give every class of tensors one codec: what the user names, or a policy.
#pragma once

#include "base/result.h"
#include "plan/plan.h"
#include "policy/catalog.h"
#include "policy/online_rule.h"
#include "report/report.h"
#include "session/save_rule.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway {

/// A codec for each class; identity: those go as they are.
using CodecTable = std::array<Codec, kTensorClasses>;

/// How the policy's tensors leave.
[[nodiscard]] CodecTable table_of(Policy const& policy);

/// `table` with what `text` names in place of it, items separated by commas:
/// "norm_input=affine8:group=64" is of a class; "all=lossless" of every class, and exact; "nf4"
/// alone of those classes that may lose something without being named: inputs of linear layers,
/// convolutions, norms and activation functions.
///
/// Fails   Errc::bad_argument naming the item: a codec or class that does not exist, `all` or
///         `index` with a codec that loses something, `sign` for what is no ReLU's result
[[nodiscard]] Result<CodecTable> with_codecs(CodecTable table, std::string_view text);

/// The first class that may lose something.
[[nodiscard]] std::optional<TensorClass> first_lossy(CodecTable const& table);

/// How a tensor leaves by such a table.
[[nodiscard]] SavedAs leaves_by(CodecTable const& table, SavedTensor const& tensor);

/// What a rule asks of the session.
struct Measures {
    std::function<std::int64_t()> compute_ns;  ///< a clock less what compute waited
    std::function<Report()> report;
};

/// Values leave when asked, with the codecs of a table. A lossless codec is on trial: a class whose
/// first blocks did not shrink by a tenth, or that was encoded slower than the link takes bytes,
/// leaves as it is from the next phase on, which is logged.
class CodecRule : public SaveRule {
  public:
    CodecRule(CodecTable const& table, Measures measures);
    [[nodiscard]] SavedAs of(SavedTensor const& tensor) override {
        return leaves_by(table_, tensor);
    }

    // What a rule may want to know of a step beside its saves.
    virtual void phase_begins(Phase);
    virtual void backward_needs() {}

  protected:
    Measures const measures_;
    CodecTable table_;

  private:
    void end_trials();

    std::vector<TensorClass> on_trial_;
    std::int64_t phases_ = 0;
};

/// A forward's tensors leave at once, but for those that the policy's rule keeps, which stay while
/// they can; what a backward saves leaves when asked.
class PolicyRule final : public CodecRule {
  public:
    PolicyRule(CodecTable const& table, Measures measures, std::unique_ptr<OnlineRule> rule)
        : CodecRule(table, std::move(measures)), rule_(std::move(rule)) {}

    [[nodiscard]] SavedAs of(SavedTensor const& tensor) override;
    void phase_begins(Phase phase) override;
    void backward_needs() override;

  private:
    std::unique_ptr<OnlineRule> const rule_;
};

/// What a plan moves leaves by the codec that it names, and as it is where it names none or the
/// codec does not take the tensor; what it does not know, by the table.
class PlannedRule final : public CodecRule {
  public:
    /// Of a plan whose codecs exist (`codecs_of`).
    PlannedRule(CodecTable const& table, Measures measures, Plan const& plan);
    [[nodiscard]] SavedAs of(SavedTensor const& tensor) override;

  private:
    std::map<Slot, Codec> codecs_;  ///< of all that the plan knows
};

/// The codecs of a plan, each once.
///
/// Fails   Errc::bad_argument naming one that no plan may have (`parse_planned_codec`)
[[nodiscard]] Result<std::vector<Codec>> codecs_of(Plan const& plan);

/// The reason to stop using a lossless codec whose blocks so far were those of `row`, on a link
/// that takes `link` bytes a second (0: not known); empty: there is none.
[[nodiscard]] std::string against_lossless(CodecReport const& row, double link);

/// What a policy's rule reads of what was done so far.
[[nodiscard]] MoveRates rates_of(Report const& report);

}  // namespace spillway
