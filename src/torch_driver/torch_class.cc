// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The session as a class of torch's, torch.classes.spillway.Session, for Python: no Python in it,
// so one binary serves every Python that this torch supports. python/spillway wraps it.

#include "base/units.h"
#include "spillway/session.h"
#include "tier/host_memory.h"
#include "timeline/report_text.h"
#include "torch_driver/torch_version.h"

#include <c10/util/Exception.h>
#include <torch/custom_class.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace spillway {

namespace {

/// What this process may have of the machine's memory.
std::int64_t memory_bytes() {
    HostLimits const limits = read_host_limits();
    bool const has_cgroup = limits.cgroup_limit_bytes != HostLimits::kUnlimited;
    return has_cgroup ? std::min(limits.machine_bytes, limits.cgroup_limit_bytes)
                      : limits.machine_bytes;
}

/// An option's name, or "state", and the reason, in a form that Python takes apart again.
void refuse(std::string const& option, std::string const& why) {
    TORCH_CHECK_VALUE(false, option, ": ", why);
}

void check_state(bool holds, char const* otherwise) {
    if (!holds) {
        refuse("state", otherwise);
    }
}

std::int64_t size_of(std::string const& option, std::string const& text, std::int64_t whole_bytes) {
    if (text.empty()) {
        return 0;
    }
    Result<std::int64_t> const size = parse_size(text, whole_bytes);
    if (!size.ok()) {
        refuse(option, size.error().message());
    }
    if (*size == 0) {
        refuse(option, "'" + text + "' is no limit; leave it out where there is to be none");
    }
    return *size;
}

/// Thread  started and stopped on the thread that opened it
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
        std::string const& trace_file
    ) {
        SessionOptions options;
        options.device = device;
        options.device_budget_bytes = size_of(
            "device_budget", device_budget, device == "cpu" ? memory_bytes() : device_bytes
        );
        options.host_budget_bytes = size_of("host_budget", host_budget, memory_bytes());
        options.nvme = nvme;
        options.nvme_budget_bytes = size_of("nvme_budget", nvme_budget, 0);
        options.policy = policy;
        options.trace_file = trace_file;
        try {
            session_ = Session::open(options);
        } catch (BadOption const& bad) {
            refuse(bad.option(), bad.what());
        }
    }

    ~SessionClass() override { std::erase(entered_here(), this); }

    void own(std::vector<at::Tensor> const& tensors) {
        try {
            opened().own(tensors);
        } catch (BadOption const& bad) {
            refuse(bad.option(), bad.what());
        }
    }

    void start() {
        check_state(
            !recording_,
            "this session is entered already; leave it before it is entered again, or open another"
        );
        check_here();
        opened().phase(Phase::forward, step_);
        recording_.emplace(opened());
        entered_here().push_back(this);
    }

    void stop() {
        check_state(recording_.has_value(), "this session was not started");
        check_here();
        check_state(
            entered_here().back() == this, "a session that was entered inside it is left first"
        );
        entered_here().pop_back();
        recording_.reset();
        opened().phase(Phase::backward, step_);
    }

    void step() { ++step_; }

    std::string table() { return to_table(opened().report()); }
    std::string json() { return to_json(opened().report()); }

    void close() {
        check_state(!recording_, "this session is entered; leave it before it is closed");
        opened().end_cap();  // torch may keep a graph whose backward failed
        session_.reset();
    }

  private:
    Session& opened() {
        check_state(session_ != nullptr, "this session is closed");
        check_state(
            ::getpid() == owner_,
            "this session belongs to the process that opened it, not to a fork of that; open one "
            "here"
        );
        return *session_;
    }

    void check_here() const {
        check_state(
            std::this_thread::get_id() == thread_,
            "a session is started and stopped on the thread that opened it"
        );
    }

    /// The sessions that this thread is in, innermost last.
    static std::vector<SessionClass const*>& entered_here() {
        static thread_local std::vector<SessionClass const*> entered;
        return entered;
    }

    pid_t const owner_ = ::getpid();
    std::thread::id const thread_ = std::this_thread::get_id();
    std::unique_ptr<Session> session_;
    std::optional<Recording> recording_;
    std::int64_t step_ = 1;
};

}  // namespace

TORCH_LIBRARY(spillway, library) {
    library.class_<SessionClass>("Session")
        .def(torch::init<
             std::string const&,
             std::int64_t,
             std::string const&,
             std::string const&,
             std::string const&,
             std::string const&,
             std::string const&,
             std::string const&>())
        .def("own", &SessionClass::own)
        .def("start", &SessionClass::start)
        .def("stop", &SessionClass::stop)
        .def("step", &SessionClass::step)
        .def("table", &SessionClass::table)
        .def("json", &SessionClass::json)
        .def("close", &SessionClass::close);
}

}  // namespace spillway
