// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Random programs, and all that can be made again of what they hold: it has the bits that it has,
// whichever of the others may be started from.
#include "torch_driver/recompute/recipe.h"
#include "torch_driver/recorder/call_recorder.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <variant>
#include <vector>

namespace spillway {
namespace {

using at::Tensor;

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kColumns = 8;
constexpr int kPrograms = 400;
constexpr int kOperators = 40;

/// What a random program holds, all of one shape.
class Program {
  public:
    explicit Program(std::uint64_t seed) : random_(seed) {
        at::manual_seed(seed);
        for (int i = 0; i < 3; ++i) {
            outside_.push_back(at::randn({kRows, kColumns}));
            outside_.back().requires_grad_(i == 0);
        }
        held_ = outside_;
    }
    ~Program() {
        for (c10::weak_intrusive_ptr<c10::TensorImpl> const& written : written_) {
            Tensor tensor(written.lock());
            if (tensor.defined() && tensor.is_view()) {
                tensor = tensor._base();
            }
            if (tensor.defined()) {
                tensor.detach_();
            }
        }
    }
    Program(Program const&) = delete;
    Program& operator=(Program const&) = delete;

    void run(CallRecorder& recorder) {
        CallRecording const recording(recorder);
        for (int i = 0; i < kOperators; ++i) {
            c10::AutoGradMode const mode(chance(70));
            try {
                step();
            } catch (c10::Error const&) {
                continue;  // torch refuses: overlapping arguments, a written leaf
            }
            if (chance(30) && held_.size() > 6) {
                held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(below(held_.size())));
            }
        }
    }

    [[nodiscard]] std::vector<Tensor> const& held() const { return held_; }
    [[nodiscard]] bool chance(int percent) {
        return below(100) < static_cast<std::size_t>(percent);
    }

  private:
    [[nodiscard]] std::size_t below(std::size_t end) { return random_() % end; }
    [[nodiscard]] Tensor any() { return held_[below(held_.size())]; }
    /// One that may be written in place here.
    [[nodiscard]] Tensor writable() {
        Tensor const one = any();
        bool const is_leaf = one.requires_grad() && one.is_leaf();
        Tensor written = is_leaf && at::GradMode::is_enabled() ? at::mul(one, 2) : one;
        written_.emplace_back(written.getIntrusivePtr());
        return written;
    }
    void hold(Tensor const& made) { held_.push_back(made); }

    void step() {
        switch (below(7)) {
            case 0:
                return hold(one_of_one(any()));
            case 1:
                return hold(one_of_two(any(), any()));
            case 2:
                return write(writable());
            case 3:
                return write_part(writable());
            case 4:
                return draw(any());
            case 5:
                return special(any());
            default:
                return hold(one_of_one(one_of_two(any(), any())));
        }
    }

    [[nodiscard]] Tensor one_of_one(Tensor const& x) {
        switch (below(9)) {
            case 0:
                return at::gelu(x);
            case 1:
                return at::softmax(x, -1);
            case 2:
                return x * 0.37;
            case 3:
                return x.to(at::kBFloat16).to(at::kFloat);
            case 4:
                return x.t().contiguous().t();
            case 5:
                return at::relu(x);
            case 6:
                return at::clone(x);
            case 7:
                return x.detach() + 1;
            default:
                return at::tanh(x);
        }
    }
    [[nodiscard]] Tensor one_of_two(Tensor const& x, Tensor const& y) {
        switch (below(5)) {
            case 0:
                return x + y;
            case 1:
                return at::where(x > 0, x, y);
            case 2:
                return at::cat({x, y}, 0).narrow(0, kRows / 2, kRows);
            case 3:
                return at::mm(x, y.t()).mm(y);  // not listed
            default:
                return at::mul(x, y);
        }
    }
    void write(Tensor x) {
        switch (below(6)) {
            case 0:
                x.add_(1);
                return hold(x);
            case 1:
                x.mul_(any());
                return hold(x);
            case 2:
                x.relu_();
                return hold(x);
            case 3:
                x.copy_(any());
                return hold(x);
            case 4:
                x.variable_data().mul_(0.5);  // as `x.data` in Python: no version moves
                return;
            default: {
                c10::NoGradGuard const no_grad;
                Tensor out = x.detach();
                at::sin_out(out, any().detach());
            }
        }
    }
    void write_part(Tensor const& x) {
        Tensor const rows = x.narrow(0, 1, 2);
        switch (below(3)) {
            case 0:
                rows.fill_(3);
                return;
            case 1:
                rows.mul_(any().narrow(0, 0, 2));
                return;
            default:
                rows.zero_();
        }
    }
    void draw(Tensor const& x) {
        switch (below(3)) {
            case 0:
                return hold(at::dropout(x, 0.3, true));
            case 1:
                return hold(at::rand({kRows, kColumns}));
            default:
                return hold(at::bernoulli(x.detach().sigmoid()).to(at::kFloat));
        }
    }
    void special(Tensor const& x) {
        switch (below(3)) {
            case 0:
                return hold(at::layer_norm(x, {kColumns}));
            case 1: {
                Tensor const mean = at::zeros({kColumns});
                Tensor const variance = at::ones({kColumns});
                Tensor const y =
                    at::batch_norm(x, {}, {}, mean, variance, chance(50), 0.1, 1e-5, false);
                return hold(y + mean);
            }
            default: {
                Tensor made = at::empty({kRows, kColumns});
                made.copy_(x.detach());
                return hold(made);
            }
        }
    }

    std::mt19937_64 random_;
    /// One that is multiplied by a view of itself keeps itself: its node saves the view.
    std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> written_;
    std::vector<Tensor> outside_;
    std::vector<Tensor> held_;
};

struct Counts {
    int made = 0;
    int refused = 0;
    int longest = 0;
};

bool has_bytes(c10::Storage const& made, c10::Storage const& wanted) {
    return made.nbytes() == wanted.nbytes() &&
           std::memcmp(made.data(), wanted.data(), wanted.nbytes()) == 0;
}

/// Makes each content that the program holds again, from a random part of the others.
void make_again(Program& program, CallRecorder const& recorder, Counts& counts) {
    for (Tensor const& wanted : program.held()) {
        ContentRef const content = recorder.content_of(wanted.storage().unsafeGetStorageImpl());
        if (!content) {
            continue;
        }
        std::vector<Content const*> kept;
        for (Tensor const& one : program.held()) {
            if (program.chance(30)) {
                kept.push_back(recorder.content_of(one.storage().unsafeGetStorageImpl()).get());
            }
        }
        auto const is_source = [&](Content const& each) {
            bool const is_kept = std::find(kept.begin(), kept.end(), &each) != kept.end();
            return !each.storage.expired() && (is_kept || !each.maker);
        };
        auto const found = Recipe::of(content, is_source, 24);
        if (std::holds_alternative<Recipe::Refused>(found)) {
            ++counts.refused;
            continue;
        }
        Recipe const& recipe = std::get<Recipe>(found);
        std::vector<c10::Storage> sources;
        for (ContentRef const& source : recipe.sources()) {
            sources.emplace_back(source->storage.lock());
        }
        Result<c10::Storage> const made = recipe.run(sources);
        ASSERT_TRUE(made.ok()) << made.error().message();
        ASSERT_TRUE(has_bytes(*made, wanted.storage())) << recipe.calls() << " calls";
        ++counts.made;
        counts.longest = std::max(counts.longest, static_cast<int>(recipe.calls()));
    }
}

TEST(RecipeFuzz, what_is_made_again_has_the_bits_that_it_had) {
    Counts counts;
    for (int seed = 0; seed < kPrograms; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        CallRecorder recorder;
        Program program(static_cast<std::uint64_t>(seed));
        program.run(recorder);
        make_again(program, recorder, counts);
        if (HasFatalFailure()) {
            return;
        }
    }
    printf(
        "%d contents made again, %d refused, at most %d calls\n",
        counts.made,
        counts.refused,
        counts.longest
    );
    EXPECT_GT(counts.made, counts.refused / 2);
    EXPECT_GT(counts.longest, 8);
}

}  // namespace
}  // namespace spillway
