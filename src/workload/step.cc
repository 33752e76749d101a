// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/step.h"

#include "workload/recipes.h"
#include "workload/step_times.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// Bytes that are live at each operator, from intervals.
class LiveBytes {
  public:
    explicit LiveBytes(std::size_t operators) : changes_(operators + 1) {}
    /// Half-open.
    void add(std::size_t from, std::size_t until, std::int64_t size_bytes) {
        if (from < until) {
            changes_[from] += size_bytes;
            changes_[until] -= size_bytes;
        }
    }
    /// At each operator.
    [[nodiscard]] std::vector<std::int64_t> sums() const {
        std::vector<std::int64_t> sums;
        std::int64_t live_bytes = 0;
        for (std::size_t i = 0; i + 1 < changes_.size(); ++i) {
            live_bytes += changes_[i];
            sums.push_back(live_bytes);
        }
        return sums;
    }

  private:
    std::vector<std::int64_t> changes_;
};

/// What happens to a storage, by operators' places.
struct Life {
    std::size_t last_read = 0;  ///< its maker's place if nothing reads it
    bool last_read_takes_it = false;
    bool shares_gradient = false;
    bool is_saved = false;
    std::size_t first_saver = 0;
    std::size_t last_saver = 0;
    SaverClasses classes;
    ValueId value;
};

class StepMaker {
  public:
    StepMaker(Tape const& tape, StepRates const& rates)
        : tape_(tape), rates_(rates), lives_(tape.tensors().size()) {}

    Trace make(std::string const& name) {
        trace_.name = name;
        for (std::size_t i = 0; i < tape_.operators().size(); ++i) {
            live(i);
        }
        number_values();
        add_forward();
        add_backward();
        add_update();
        add_recipes();
        return std::move(trace_);
    }

  private:
    void live(std::size_t at) {
        TapeOperator const& what = tape_.operators()[at];
        for (std::size_t i = 0; i < what.inputs.size(); ++i) {
            Life& life = lives_[what.inputs[i].number];
            life.last_read = at;
            life.last_read_takes_it = what.is_in_place && i == 0;
            life.shares_gradient = life.shares_gradient || (what.shares_gradient && i == 1);
        }
        for (TapeSave const& save : what.saves) {
            save_at(at, save);
        }
        for (std::size_t i = 0; i < what.outputs.size(); ++i) {
            TapeTensor const made = tape_.outputs(at)[i];
            lives_[made.number].last_read = at;
            if (what.outputs[i].saved) {
                save_at(at, {made, *what.outputs[i].saved});
            }
        }
    }

    void save_at(std::size_t at, TapeSave const& save) {
        Life& life = lives_[save.tensor.number];
        life.classes.add(save.tensor_class);
        life.first_saver = life.is_saved ? life.first_saver : at;
        life.last_saver = at;
        life.is_saved = true;
    }

    /// Every tensor that operator `at` has saved, once.
    [[nodiscard]] std::vector<TapeTensor> saves_of(std::size_t at) const {
        TapeOperator const& what = tape_.operators()[at];
        std::vector<TapeTensor> all;
        auto const put = [&all](TapeTensor tensor) {
            if (std::none_of(all.begin(), all.end(), [&](TapeTensor other) {
                    return other.number == tensor.number;
                })) {
                all.push_back(tensor);
            }
        };
        for (TapeSave const& save : what.saves) {
            put(save.tensor);
        }
        for (std::size_t i = 0; i < what.outputs.size(); ++i) {
            if (what.outputs[i].saved) {
                put(tape_.outputs(at)[i]);
            }
        }
        return all;
    }

    void number_values() {
        std::map<std::pair<std::string, std::int32_t>, std::int32_t> occurrences;
        for (std::size_t i = 0; i < tape_.operators().size(); ++i) {
            for (TapeTensor const tensor : saves_of(i)) {
                Life& life = lives_[tensor.number];
                if (life.value.valid()) {
                    continue;
                }
                life.value = ValueId{std::ssize(trace_.values)};
                TapeTensorInfo const& info = tape_.tensors()[tensor.number];
                std::string const producer =
                    info.maker ? tape_.operators()[*info.maker].node : "input";
                trace_.values.push_back(
                    {.slot = {producer, info.output, occurrences[{producer, info.output}]++},
                     .size_bytes = info.size_bytes,
                     .dtype = std::string(info.dtype.name),
                     .module = tape_.operators()[i].module,
                     .tensor_class = life.classes.all(),
                     .classes = life.classes.differing()}
                );
            }
        }
    }

    [[nodiscard]] std::int64_t states_bytes() const {
        return tape_.parameters() * (rates_.parameter_bytes + rates_.optimizer_bytes);
    }

    /// Of forward: what is no value yet, between its maker and its last reader.
    [[nodiscard]] std::vector<std::int64_t> forward_temporaries() const {
        LiveBytes live(tape_.operators().size());
        for (std::size_t i = 0; i < lives_.size(); ++i) {
            TapeTensorInfo const& info = tape_.tensors()[i];
            Life const& life = lives_[i];
            std::size_t const over = life.last_read + (life.last_read_takes_it ? 0 : 1);
            std::size_t const until = life.is_saved ? life.first_saver : over;
            live.add(info.maker.value_or(0), until, info.size_bytes);
        }
        return live.sums();
    }

    /// Of backward: a gradient lives from the last reader of its tensor to the maker, both
    /// included.
    [[nodiscard]] std::vector<std::int64_t> gradients() const {
        LiveBytes live(tape_.operators().size());
        for (std::size_t i = 0; i < lives_.size(); ++i) {
            TapeTensorInfo const& info = tape_.tensors()[i];
            if (info.maker && info.output == 0 && info.dtype.has_gradient &&
                !lives_[i].shares_gradient) {
                live.add(*info.maker, lives_[i].last_read + 1, info.size_bytes);
            }
        }
        return live.sums();
    }

    void add_forward() {
        std::vector<std::vector<ValueId>> unshared(tape_.operators().size());
        for (std::size_t i = 0; i < lives_.size(); ++i) {
            if (lives_[i].is_saved && tape_.tensors()[i].maker) {
                unshared[std::max(lives_[i].last_read, lives_[i].first_saver)].push_back(
                    lives_[i].value
                );
            }
        }
        std::vector<std::int64_t> const temporaries = forward_temporaries();
        for (std::size_t i = 0; i < tape_.operators().size(); ++i) {
            TracePoint point{
                .phase = Phase::forward,
                .duration_ns = forward_ns(tape_, i, rates_),
                .floor_bytes = states_bytes() + temporaries[i]};
            for (TapeTensor const tensor : saves_of(i)) {
                if (lives_[tensor.number].first_saver == i) {
                    point.saved.push_back(lives_[tensor.number].value);
                }
            }
            point.unshared = std::move(unshared[i]);
            trace_.points.push_back(std::move(point));
        }
    }

    void add_backward() {
        std::vector<std::int64_t> const live = gradients();
        std::int64_t made_bytes = 0;
        for (std::size_t i = tape_.operators().size(); i-- > 0;) {
            TapeOperator const& what = tape_.operators()[i];
            made_bytes += what.parameters * rates_.gradient_bytes;
            TracePoint point{
                .phase = Phase::backward,
                .duration_ns = backward_ns(tape_, i, rates_),
                .floor_bytes =
                    states_bytes() + made_bytes + live[i] + what.backward_temporary_bytes};
            for (TapeTensor const tensor : saves_of(i)) {
                Life const& life = lives_[tensor.number];
                point.needed.push_back(life.value);
                if (life.first_saver == i) {
                    point.dropped.push_back(life.value);
                }
            }
            trace_.points.push_back(std::move(point));
        }
    }

    /// Reads parameters, gradients and state, and writes parameters and state.
    void add_update() {
        std::int64_t const moved_bytes =
            tape_.parameters() *
            (2 * rates_.parameter_bytes + rates_.gradient_bytes + 2 * rates_.optimizer_bytes);
        trace_.points.push_back(
            {.phase = Phase::update,
             .duration_ns = time_ns(0, static_cast<double>(moved_bytes), rates_),
             .floor_bytes = states_bytes() + tape_.parameters() * rates_.gradient_bytes}
        );
    }

    void add_recipes() {
        std::vector<ValueId> ids;
        for (Life const& life : lives_) {
            ids.push_back(life.value);
        }
        RecipeFinder finder(tape_, ids, rates_);
        for (std::size_t i = 0; i < lives_.size(); ++i) {
            if (lives_[i].is_saved) {
                TraceValue& value = trace_.values[lives_[i].value.index()];
                value.recipe = finder.find({i}, value.why_no_recipe);
            }
        }
    }

    Tape const& tape_;
    StepRates const& rates_;
    std::vector<Life> lives_;
    Trace trace_;
};

}  // namespace

Result<Trace> make_step(std::string const& name, Tape const& tape, StepRates const& rates) {
    Trace trace = StepMaker(tape, rates).make(name);
    if (Result<void> const valid = validate(trace); !valid) {
        return Error{Errc::bad_argument, "the step is too large: " + valid.error().what, "trace"};
    }
    return trace;
}

}  // namespace spillway
