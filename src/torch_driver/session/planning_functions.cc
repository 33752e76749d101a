// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Planning without a run, as functions of torch's, for Python: python/spillway/planning.py.

#include "machine/machine.h"
#include "session/planning.h"
#include "spillway/planning.h"
#include "spillway/units.h"
#include "torch_driver/device/session_device.h"
#include "torch_driver/session/python_options.h"

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

namespace {

/// The machine that a session with these options would run on, as JSON; see read_options.
std::string probe_here(std::string const& options, std::int64_t device_bytes) {
    try {
        SessionOptions const asked = read_options(options, device_bytes);
        SessionDevice const device = open_session_device(asked);
        std::unique_ptr<Tier> const host = open_host(asked, device);
        std::unique_ptr<Tier> const nvme = open_nvme(asked);
        return to_json_text(
            value_or_throw(probed_machine(*device.device, host.get(), nvme.get()), "device")
        );
    } catch (BadOption const& bad) {
        refuse(bad.fault());
        throw;  // which `refuse` has done
    }
}

/// Table and JSON.
std::vector<std::string> texts_of(Result<Comparison> const& comparison) {
    TORCH_CHECK_VALUE(comparison.ok(), comparison.error().message());
    return {comparison->to_table(), comparison->to_json()};
}

std::vector<std::string> compare_here(
    std::string const& trace,
    std::string const& machine,
    std::vector<std::string> const& policies,
    std::vector<std::string> const& budgets
) {
    std::vector<std::int64_t> bytes;
    for (std::string const& budget : budgets) {
        Result<std::int64_t> const size = parse_size(budget, 0);
        TORCH_CHECK_VALUE(size.ok(), "budgets: ", size.error().message());
        bytes.push_back(*size);
    }
    return texts_of(compare_files({trace, machine}, policies, bytes, {}));
}

std::vector<std::string> fit_here(
    std::string const& trace, std::string const& machine, std::string const& policy
) {
    return texts_of(fit_files({trace, machine}, policy, {}));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(spillway, library) {
    library.def("probe", &probe_here);
    library.def("compare", &compare_here);
    library.def("fit", &fit_here);
}

}  // namespace spillway
