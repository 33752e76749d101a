// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The session as a class of torch's, torch.classes.spillway.Session, for Python: no Python in it,
// so one binary serves every Python that this torch supports. python/spillway wraps it.

#include "base/json_view.h"
#include "report/report_text.h"
#include "session/given_plan.h"
#include "spillway/option.h"
#include "spillway/policy.h"
#include "spillway/session.h"
#include "torch_driver/autograd/steal_guard.h"
#include "torch_driver/python/python_state.h"
#include "torch_driver/recorder/operator_facts.h"
#include "torch_driver/session/forks.h"
#include "torch_driver/session/optimizer_steps.h"
#include "torch_driver/session/outermost_scope.h"
#include "torch_driver/session/python_options.h"
#include "torch_driver/torch_version.h"

#include <ATen/core/Dict.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>
#include <torch/custom_class.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// The steps of optimizers that are under way, one inside another (SAM's, Lookahead's).
using Updates = OutermostScope<Update>;

std::vector<OwnedKind> kinds_of(std::vector<std::string> const& names) {
    std::vector<OwnedKind> kinds;
    for (std::string const& name : names) {
        auto const at = std::find(kOwnedKindNames.begin(), kOwnedKindNames.end(), name);
        TORCH_CHECK_VALUE(at != kOwnedKindNames.end(), "no kind of owned tensors: '", name, "'");
        kinds.push_back(static_cast<OwnedKind>(at - kOwnedKindNames.begin()));
    }
    return kinds;
}

/// Python's mapping: the members' names. A pool that was not asked is "open" where it has a budget.
std::string json_of(Refusal const& refusal, Places const& places) {
    auto const of_pool = [&](PoolRefusal const& pool, bool is_there) {
        bool const is_open = refusal.why != NoRoom::pools_full && is_there;
        return OrderedJson{
            {"state", is_open ? "open" : name_of(pool.state)}, {"error", pool.error}};
    };
    OrderedJson const fields{
        {"why", name_of(refusal.why)},
        {"step", refusal.step},
        {"phase", name_of(refusal.phase)},
        {"asked_bytes", refusal.asked_bytes},
        {"used_bytes", refusal.used_bytes},
        {"limit_bytes", refusal.limit_bytes},
        {"freed_bytes", refusal.freed_bytes},
        {"needed_bytes", refusal.needed_bytes},
        {"held_bytes", refusal.held_bytes},
        {"with_gradients_bytes", refusal.with_gradients_bytes},
        {"with_optimizer_bytes", refusal.with_optimizer_bytes},
        {"host", of_pool(refusal.host, places.host)},
        {"nvme", of_pool(refusal.nvme, places.nvme)},
        {"opened_at", refusal.opened_at}};
    return json_line(fields);
}

/// Thread  any; stopped on the thread that started it
class SessionClass final : public torch::CustomClassHolder {
  public:
    /// See read_options, and SessionOptions::opened_at.
    SessionClass(
        std::string const& options, std::int64_t device_bytes, std::string const& opened_at
    ) {
        SessionOptions asked = read_options(options, device_bytes);
        asked.opened_at = opened_at;
        places_ = {.host = asked.host_budget_bytes > 0, .nvme = !asked.nvme.empty()};
        watch_optimizer_steps();
        try {
            session_ = Session::open(asked);
        } catch (BadOption const& bad) {
            refuse(bad.fault());
        }
    }

    /// Whether saved tensors have somewhere to move to.
    [[nodiscard]] bool has_tiers() const { return places_.host || places_.nvme; }

    /// `kinds` as kOwnedKindNames has them.
    void own(
        std::vector<at::Tensor> const& tensors,
        std::vector<std::string> const& names,
        std::vector<std::string> const& kinds
    ) {
        try {
            opened()->own(tensors, names, kinds_of(kinds));
        } catch (BadOption const& bad) {
            refuse(bad.fault());
        }
    }

    /// By the names of kinds.
    std::unordered_map<std::string, std::int64_t> owned_bytes() {
        OwnedBytes const bytes = opened()->owned_bytes();
        std::unordered_map<std::string, std::int64_t> by_name;
        for (std::size_t kind = 0; kind < bytes.size(); ++kind) {
            by_name.emplace(kOwnedKindNames[kind], bytes[kind]);
        }
        return by_name;
    }

    /// `parameters`: of the model, as they are now.
    void start(std::vector<at::Tensor> const& parameters) {
        std::lock_guard const lock(mutex_);
        check_state(
            !recording_,
            "this session is entered already; leave it before it is entered again, or open another"
        );
        std::shared_ptr<Session> const session = opened();
        step_ += steps_are_reported_ ? 0 : 1;
        session->phase(Phase::forward, step_);
        recording_.emplace(*session, parameters);
        entry_ = std::make_shared<int>();
        entered_here().push_back(entry_);
    }

    /// `by_error`: an exception passes through the `with`.
    void stop(bool by_error) {
        std::lock_guard const lock(mutex_);
        check_state(recording_.has_value(), "this session was not started");
        std::shared_ptr<Session> const session = opened();
        check_state(is_entered_here(), "leave a session on the thread that entered it");
        check_state(
            entered_here().back().lock() == entry_,
            "leave the session that was entered inside this one first"
        );
        entry_.reset();
        if (by_error) {
            recording_->by_error();
        }
        see_step();
        recording_.reset();
        session->phase(Phase::backward, step_);
    }

    /// Until it is called first, each start begins a step, and so does an optimizer's step in a
    /// session that is entered, with the forward after it. From then on, the next step begins at
    /// once where the session is entered.
    void step() {
        std::lock_guard const lock(mutex_);
        std::shared_ptr<Session> const session = opened();
        steps_are_reported_ = true;
        see_step();
        ++step_;
        if (recording_) {
            session->phase(Phase::forward, step_);
        }
    }

    /// An optimizer's step begins on this thread, which will allocate `state_bytes` of state.
    /// False: the caller has to report its end.
    bool begin_update(std::int64_t state_bytes, std::vector<at::Tensor> const& parameters) {
        std::lock_guard const lock(mutex_);
        see_step();
        bool const ends_step = recording_.has_value() && !steps_are_reported_;
        updates_->begin(*opened(), step_, state_bytes, parameters, ends_step);
        return at_end_of_step([weak = std::weak_ptr<Updates>(updates_)] {
            if (std::shared_ptr<Updates> const updates = weak.lock()) {
                updates->end();
            }
        });
    }
    void end_update() { updates_->end(); }

    /// Of those that are under way on any thread, one inside another or beside it.
    std::int64_t steps_under_way() { return updates_->depth(); }

    /// Session::let_leave and its two ways back. `states`: and one more tensor, which nothing but
    /// Python and this call refers to. What others refer to in the same way as Python (DLPack, a
    /// parameter whose gradient it is) stays: they would find other bytes.
    void let_leave(std::vector<at::Tensor> states) {
        std::size_t const usual = states.back().use_count();
        states.pop_back();
        std::erase_if(states, [usual](at::Tensor const& state) {
            return state.use_count() > usual;
        });
        std::lock_guard const lock(states_mutex_);
        opened()->let_leave(states);
    }
    void bring_back(std::vector<at::Tensor> const& states) {
        std::lock_guard const lock(states_mutex_);
        opened()->bring_back(states);
    }
    void give_back(std::vector<at::Tensor> const& states) {
        std::lock_guard const lock(states_mutex_);
        opened()->give_back(states);
    }

    /// One report as text, as JSON and as HTML.
    std::tuple<std::string, std::string, std::string> report() {
        Report const report = opened()->report();
        return {to_table(report), to_json(report), to_html(report)};
    }
    /// As JSON; empty: none.
    std::string last_refusal() {
        std::optional<Refusal> const refusal = opened()->last_refusal();
        return refusal ? json_of(*refusal, places_) : "";
    }
    std::string explain(std::string const& module) { return opened()->explain(module); }

    void write_timeline(std::string const& file) {
        try {
            opened()->write_timeline(file);
        } catch (BadOption const& bad) {
            refuse(bad.fault());
        }
    }

    void trace(std::string const& file) {
        try {
            opened()->trace(file);
        } catch (BadOption const& bad) {
            refuse(bad.fault());
        }
    }

    /// Also ends what a thread entered that never left it.
    void close() {
        std::lock_guard const lock(mutex_);
        check_state(
            !recording_ || !is_entered_here(),
            "this session is entered; leave it before it is closed"
        );
        opened()->end_cap();  // torch may keep a graph whose backward failed
        updates_->end_all();
        entry_.reset();
        recording_.reset();
        std::lock_guard const closing(opened_mutex_);
        session_.reset();
    }

  private:
    /// For as long as the caller needs it, whoever closes it meanwhile.
    std::shared_ptr<Session> opened() {
        std::lock_guard const lock(opened_mutex_);
        check_state(session_ != nullptr, "this session is closed");
        check_state(
            forks_so_far() == forks_,
            "this session belongs to another process; open a new one in this forked process"
        );
        return session_;
    }

    /// The sessions that this thread is in, innermost last.
    static std::vector<std::weak_ptr<int>>& entered_here() {
        static thread_local std::vector<std::weak_ptr<int>> entered;
        std::erase_if(entered, [](auto const& entry) { return entry.expired(); });
        return entered;
    }
    [[nodiscard]] bool is_entered_here() const {
        auto const& entered = entered_here();
        return std::any_of(entered.begin(), entered.end(), [this](auto const& entry) {
            return entry.lock() == entry_;
        });
    }

    /// In a session that stays entered steps may have begun by themselves.
    void see_step() {
        if (recording_) {
            step_ = std::max(step_, recording_->step());
        }
    }

    int const forks_ = forks_so_far();
    std::mutex mutex_;         ///< of starts and stops
    std::mutex states_mutex_;  ///< of states that leave and come back, by any thread's step
    std::mutex opened_mutex_;  ///< of the next
    std::shared_ptr<Session> session_;
    std::optional<Recording> recording_;
    std::shared_ptr<Updates> const updates_ = std::make_shared<Updates>();
    std::shared_ptr<int> entry_;  ///< stands for it in the list of the thread that is in it
    std::int64_t step_ = 0;
    Places places_;
    bool steps_are_reported_ = false;
};

using ListedPolicy = std::tuple<
    std::string,
    std::string,
    std::string,
    bool,
    bool,
    bool,
    c10::Dict<std::string, std::string>>;

/// Of each policy: name, what it does, paper, whether it is lossy, whether it is of use only where
/// something can leave the device, whether a session that has it makes a plan, and what its
/// parameters mean.
std::vector<ListedPolicy> list_policies() {
    std::vector<ListedPolicy> all;
    for (Policy const& policy : policies()) {
        c10::Dict<std::string, std::string> parameters;
        for (PolicyParameter const& parameter : policy.parameters) {
            parameters.insert(std::string(parameter.name), std::string(parameter.what));
        }
        all.emplace_back(
            std::string(policy.name),
            std::string(policy.what),
            std::string(policy.paper),
            policy.is_lossy,
            policy.needs_pool(),
            policy.plans_in_session(),
            std::move(parameters)
        );
    }
    return all;
}

using ListedOption =
    std::tuple<std::string, std::string, std::string, std::string, std::vector<std::string>>;

/// Of each option of spillway.session: name, type (of bytes that may be a share: "share"), default,
/// help, what it can be chosen from.
std::vector<ListedOption> list_options() {
    std::vector<ListedOption> all;
    for (Option const& option : option_table()) {
        if (option.python.empty()) {
            continue;
        }
        std::vector<std::string> choices;
        for (std::string_view const choice : choices_of(option)) {
            choices.emplace_back(choice);
        }
        all.emplace_back(
            std::string(option.python),
            std::string(option.share_of == ShareOf::nothing ? name_of(option.type) : "share"),
            describe_default(option, Face::python),
            describe(option, Face::python),
            std::move(choices)
        );
    }
    return all;
}

}  // namespace

TORCH_LIBRARY(spillway, library) {
    // For what Python knows of saved tensors: python/spillway/_python_state.py.
    library.def("set_python_classes", &set_python_classes);
    library.def("python_state_from", &python_state_from);
    library.def("python_state_to", &python_state_to);
    library.def("guards_from_stealing", [] {
        return static_cast<std::int64_t>(guards_from_stealing());
    });
    library.def("python_state_copied", [](at::Tensor const& copy) { python_state_copied(copy); });
    library.def("policies", &list_policies);
    library.def("options", &list_options);
    library.def("allow_recompute", [](std::string const& name) {
        Result<void> const allowed = allow_recompute_of(name);
        return allowed.ok() ? std::string() : allowed.error().what;
    });
    library.class_<SessionClass>("Session")
        .def(torch::init<std::string const&, std::int64_t, std::string const&>())
        .def("has_tiers", &SessionClass::has_tiers)
        .def("own", &SessionClass::own)
        .def("owned_bytes", &SessionClass::owned_bytes)
        .def("start", &SessionClass::start)
        .def("stop", &SessionClass::stop)
        .def("step", &SessionClass::step)
        .def("begin_update", &SessionClass::begin_update)
        .def("end_update", &SessionClass::end_update)
        .def("steps_under_way", &SessionClass::steps_under_way)
        .def("let_leave", &SessionClass::let_leave)
        .def("bring_back", &SessionClass::bring_back)
        .def("give_back", &SessionClass::give_back)
        .def("report", &SessionClass::report)
        .def("last_refusal", &SessionClass::last_refusal)
        .def("explain", &SessionClass::explain)
        .def("write_timeline", &SessionClass::write_timeline)
        .def("trace", &SessionClass::trace)
        .def("close", &SessionClass::close);
}

}  // namespace spillway
