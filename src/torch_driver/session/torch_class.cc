// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The session as a class of torch's, torch.classes.spillway.Session, for Python: no Python in it,
// so one binary serves every Python that this torch supports. python/spillway wraps it.

#include "base/json_view.h"
#include "base/units.h"
#include "memory/host_memory.h"
#include "report/report_text.h"
#include "spillway/limits.h"
#include "spillway/policy.h"
#include "spillway/session.h"
#include "torch_driver/autograd/python_state.h"
#include "torch_driver/session/forks.h"
#include "torch_driver/session/optimizer_steps.h"
#include "torch_driver/torch_version.h"

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
#include <vector>

namespace spillway {

namespace {

/// What Python makes an error of its own of: one line of JSON. `code`: `option`, which cannot be;
/// `text`, an option's that is no size; `state`, of the session.
void refuse(char const* code, std::string_view option, std::string const& why) {
    nlohmann::ordered_json const error{{"code", code}, {"option", option}, {"why", why}};
    TORCH_CHECK_VALUE(false, json_line(error));
}

void refuse(std::string_view option, std::string const& why) {
    refuse("option", option, why);
}

void refuse(BadOption const& bad) {
    refuse(option_name(bad.option(), Face::python), bad.words(Face::python));
}

void check_state(bool holds, char const* otherwise) {
    if (!holds) {
        refuse("state", "", otherwise);
    }
}

std::int64_t size_of(std::string const& option, std::string const& text, std::int64_t whole_bytes) {
    if (text.empty()) {
        return 0;
    }
    Result<std::int64_t> const size = parse_size(text, whole_bytes);
    if (!size.ok()) {
        refuse("text", option, size.error().message());
    }
    return *size;
}

bool moves(std::string const& policy) {
    Policy const* const known = find_policy(policy);
    return known == nullptr || known->moves;  // what is unknown is refused later
}

/// The steps of optimizers that are under way, one inside another (SAM's, Lookahead's): from the
/// first one's beginning to its end.
///
/// Thread  any
class Updates {
  public:
    void begin(Session& session, std::int64_t step, std::int64_t state_bytes) {
        std::lock_guard const lock(mutex_);
        if (++depth_ == 1) {
            open_.emplace(session, step, state_bytes);
        }
    }
    void end() {
        std::lock_guard const lock(mutex_);
        if (depth_ > 0 && --depth_ == 0) {
            open_.reset();
        }
    }
    void end_all() {
        std::lock_guard const lock(mutex_);
        depth_ = 0;
        open_.reset();
    }

  private:
    std::mutex mutex_;
    int depth_ = 0;
    std::optional<Update> open_;
};

std::vector<OwnedKind> kinds_of(std::vector<std::string> const& names) {
    std::vector<OwnedKind> kinds;
    for (std::string const& name : names) {
        auto const at = std::find(kOwnedKindNames.begin(), kOwnedKindNames.end(), name);
        TORCH_CHECK_VALUE(at != kOwnedKindNames.end(), "no kind of owned tensors: '", name, "'");
        kinds.push_back(static_cast<OwnedKind>(at - kOwnedKindNames.begin()));
    }
    return kinds;
}

/// Thread  any; stopped on the thread that started it
class SessionClass final : public torch::CustomClassHolder {
  public:
    /// Budgets as typed, "16GiB" or "80%"; empty: none. A share of device memory is
    /// `device_bytes`'.
    SessionClass(
        std::string const& device,
        std::int64_t device_bytes,
        std::string const& device_budget,
        std::string const& host_budget,
        std::string const& nvme,
        std::string const& nvme_budget,
        std::string const& policy,
        bool lossy,
        std::string const& codec,
        std::string const& nonfinite,
        std::string const& min_tensor_bytes,
        std::int64_t rank
    ) {
        HostLimits const limits = read_host_limits();
        SessionOptions options;
        options.device = device;
        options.device_budget_bytes = size_of(
            "device_budget", device_budget, device == "cpu" ? limits.most_bytes() : device_bytes
        );
        if (options.device_budget_bytes == 0) {
            refuse(
                "text",
                "device_budget",
                "'" + device_budget +
                    "' is no room for anything; write bytes, such as '16GiB' or '80%'"
            );
        }
        bool const takes_half = host_budget.empty() && device != "cpu" && moves(policy);
        options.host_budget_bytes = takes_half
                                        ? limits.left_bytes() / 2
                                        : size_of("host_budget", host_budget, limits.most_bytes());
        bool const has_host = options.host_budget_bytes > 0 || host_budget.empty();
        if (!has_host && nvme.empty() && device != "cpu") {
            refuse(
                "host_budget", "'" + host_budget + "', and no nvme: nothing could leave " + device
            );
        }
        options.nvme = nvme;
        options.nvme_budget_bytes = size_of("nvme_budget", nvme_budget, free_bytes_of(nvme));
        if (!nvme_budget.empty() && nvme.empty()) {
            refuse(
                "nvme_budget",
                "it is of the folder `nvme`, which is not given; give one, or leave it out"
            );
        }
        if (!nvme_budget.empty() && options.nvme_budget_bytes == 0) {
            refuse(
                "nvme_budget",
                "'" + nvme_budget + "' is no room; leave `nvme` out where there is to be none"
            );
        }
        options.policy = policy;
        options.lossy = lossy;
        options.codecs = codec;
        options.nonfinite = nonfinite;
        options.min_value_bytes =
            min_tensor_bytes.empty() ? -1 : size_of("min_tensor_bytes", min_tensor_bytes, 0);
        options.rank = rank;
        options.face = Face::python;
        options.keep_timeline = true;
        options.cap_from_open = false;
        watch_optimizer_steps();
        try {
            session_ = Session::open(options);
        } catch (BadOption const& bad) {
            refuse(bad);
        }
    }

    /// `kinds` as kOwnedKindNames has them.
    void own(
        std::vector<at::Tensor> const& tensors,
        std::vector<std::string> const& names,
        std::vector<std::string> const& kinds
    ) {
        try {
            opened()->own(tensors, names, kinds_of(kinds));
        } catch (BadOption const& bad) {
            refuse(bad);
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

    void start() {
        std::lock_guard const lock(mutex_);
        check_state(
            !recording_,
            "this session is entered already; leave it before it is entered again, or open another"
        );
        std::shared_ptr<Session> const session = opened();
        step_ += steps_are_told_ ? 0 : 1;
        session->phase(Phase::forward, step_);
        recording_.emplace(*session);
        entry_ = std::make_shared<int>();
        entered_here().push_back(entry_);
    }

    /// `by_error`: an exception passes through the `with`.
    void stop(bool by_error) {
        std::lock_guard const lock(mutex_);
        check_state(recording_.has_value(), "this session was not started");
        std::shared_ptr<Session> const session = opened();
        check_state(is_entered_here(), "a session is left on the thread that entered it");
        check_state(
            entered_here().back().lock() == entry_,
            "a session that was entered inside it is left first"
        );
        entry_.reset();
        if (by_error) {
            recording_->by_error();
        }
        recording_.reset();
        session->phase(Phase::backward, step_);
    }

    /// Until it is called first, each start begins a step. In a session that is entered, the next
    /// step begins at once.
    void step() {
        std::lock_guard const lock(mutex_);
        std::shared_ptr<Session> const session = opened();
        steps_are_told_ = true;
        ++step_;
        if (recording_) {
            session->phase(Phase::forward, step_);
        }
    }

    /// An optimizer's step begins on this thread, which will allocate `state_bytes` of state.
    /// False: its end has to be told.
    bool begin_update(std::int64_t state_bytes) {
        std::lock_guard const lock(mutex_);
        updates_->begin(*opened(), step_, state_bytes);
        return at_end_of_step([weak = std::weak_ptr<Updates>(updates_)] {
            if (std::shared_ptr<Updates> const updates = weak.lock()) {
                updates->end();
            }
        });
    }
    void end_update() { updates_->end(); }

    /// One report as text, as JSON and as HTML.
    std::tuple<std::string, std::string, std::string> report() {
        Report const report = opened()->report();
        return {to_table(report), to_json(report), to_html(report)};
    }
    std::string explain(std::string const& module) { return opened()->explain(module); }

    void write_timeline(std::string const& file) {
        try {
            opened()->write_timeline(file);
        } catch (BadOption const& bad) {
            refuse(bad);
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
            "this session belongs to the process that opened it, not to a fork of that; open one "
            "here"
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

    int const forks_ = forks_so_far();
    std::mutex mutex_;         ///< of starts and stops
    std::mutex opened_mutex_;  ///< of the next
    std::shared_ptr<Session> session_;
    std::optional<Recording> recording_;
    std::shared_ptr<Updates> const updates_ = std::make_shared<Updates>();
    std::shared_ptr<int> entry_;  ///< stands for it in the list of the thread that is in it
    std::int64_t step_ = 0;
    bool steps_are_told_ = false;
};

/// Of each policy: name, what it does, paper, whether it is lossy, whether it moves anything.
std::vector<std::tuple<std::string, std::string, std::string, bool, bool>> list_policies() {
    std::vector<std::tuple<std::string, std::string, std::string, bool, bool>> all;
    for (Policy const& policy : policies()) {
        all.emplace_back(
            std::string(policy.name),
            std::string(policy.what),
            std::string(policy.paper),
            policy.is_lossy,
            policy.moves
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
    library.def("python_state_copied", [](at::Tensor const& copy) { python_state_copied(copy); });
    library.def("policies", &list_policies);
    library.class_<SessionClass>("Session")
        .def(torch::init<
             std::string const&,
             std::int64_t,
             std::string const&,
             std::string const&,
             std::string const&,
             std::string const&,
             std::string const&,
             bool,
             std::string const&,
             std::string const&,
             std::string const&,
             std::int64_t>())
        .def("own", &SessionClass::own)
        .def("owned_bytes", &SessionClass::owned_bytes)
        .def("start", &SessionClass::start)
        .def("stop", &SessionClass::stop)
        .def("step", &SessionClass::step)
        .def("begin_update", &SessionClass::begin_update)
        .def("end_update", &SessionClass::end_update)
        .def("report", &SessionClass::report)
        .def("explain", &SessionClass::explain)
        .def("write_timeline", &SessionClass::write_timeline)
        .def("close", &SessionClass::close);
}

}  // namespace spillway
