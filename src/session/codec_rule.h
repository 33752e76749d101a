// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Rules that give every class of tensors one codec: what the user names, and QPO's.
#pragma once

#include "base/result.h"
#include "policy/qpo.h"
#include "report/report.h"
#include "session/save_rule.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

/// A codec for each class; identity: those go as they are.
using CodecTable = std::array<Codec, kTensorClasses>;

[[nodiscard]] CodecTable qpo_table();

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

/// What leaves when asked, by a table. A lossless codec is on trial: a class whose first blocks did
/// not shrink by a tenth, or that was encoded slower than the link takes bytes, leaves as it is
/// from the next phase on, which is said.
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

/// QPO: a forward's tensors leave at once, but for the tail that backward needs too soon, which
/// stays while it can; what a backward saves leaves when asked.
class QpoRule final : public CodecRule {
  public:
    using CodecRule::CodecRule;

    [[nodiscard]] SavedAs of(SavedTensor const& tensor) override;
    void phase_begins(Phase phase) override;
    void backward_needs() override;

    [[nodiscard]] Qpo const& qpo() const { return qpo_; }

  private:
    Qpo qpo_;
};

/// What is said against a lossless codec whose blocks so far were those of `row`, on a link that
/// takes `link` bytes a second (0: not known); empty where nothing is.
[[nodiscard]] std::string against_lossless(CodecReport const& row, double link);

/// What QPO's hiding test reads of what was done so far.
[[nodiscard]] QpoRates rates_of(Report const& report);

}  // namespace spillway
