// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/chooser.h"

#include <array>
#include <string>

namespace spillway {

namespace {

class Online final : public Chooser {
  public:
    Choice choose(Saved const& saved) const override { return {saved.advice, Pool::host}; }
};

class KeepAll final : public Chooser {
  public:
    Choice choose(Saved const&) const override { return {Advice::never, Pool::host}; }
};

class Planned final : public Chooser {
  public:
    Choice choose(Saved const& saved) const override {
        auto const fate = plan_.fates.find(saved.slot);
        if (fate == plan_.fates.end()) {
            return {saved.advice, Pool::host};  // unknown to the plan: as online would
        }
        if (fate->second.kind == FateKind::keep) {
            return {Advice::last_resort, Pool::host};
        }
        if (fate->second.kind == FateKind::recompute) {
            return {Advice::when_asked, Pool::host, true};
        }
        return {Advice::at_once, fate->second.pool};
    }
    void take_plan(Plan const& plan) override { plan_ = plan; }

  private:
    Plan plan_;
};

}  // namespace

std::string_view name_of(Advice advice) {
    constexpr std::array<std::string_view, 4> kAdviceNames{
        "never", "last_resort", "when_asked", "at_once"};
    return kAdviceNames[static_cast<std::size_t>(advice)];
}

std::string_view name_of(ChooserKind kind) {
    return kChooserNames[static_cast<std::size_t>(kind)];
}

std::unique_ptr<Chooser> make_chooser(ChooserKind kind) {
    switch (kind) {
        case ChooserKind::online:
            return std::make_unique<Online>();
        case ChooserKind::keep_all:
            return std::make_unique<KeepAll>();
        case ChooserKind::planned:
            return std::make_unique<Planned>();
    }
    return std::make_unique<KeepAll>();
}

}  // namespace spillway
