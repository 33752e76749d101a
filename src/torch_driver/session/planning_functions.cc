// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Planning without a run, as functions of torch's, for Python: python/spillway/planning.py.

#include "base/clock.h"
#include "machine/machine.h"
#include "probe/link_probe.h"
#include "session/planning.h"
#include "spillway/planning.h"
#include "spillway/units.h"
#include "torch_driver/device/session_device.h"
#include "torch_driver/session/python_options.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace spillway {

namespace {

constexpr std::int64_t kMeasureNs = 100'000'000;
constexpr std::int64_t kHostSquare = 1024;    ///< rows and columns of what is multiplied
constexpr std::int64_t kDeviceSquare = 4096;  ///< as many that it fills the device
constexpr std::int64_t kCopiedElements = 64 << 20;

template <typename Work>
void run_to_the_end(c10::Device device, Work const& work) {
    work();
    if (!device.is_cpu()) {
        c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
    }
}

/// The shortest of some runs of `work`, after one that is not measured.
template <typename Work>
double shortest_ns(c10::Device device, Work const& work) {
    run_to_the_end(device, work);
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    std::int64_t const begin_ns = steady_now_ns();
    for (std::int64_t now_ns = begin_ns; now_ns - begin_ns <= kMeasureNs;) {
        run_to_the_end(device, work);
        std::int64_t const end_ns = steady_now_ns();
        shortest = std::min(shortest, std::max<std::int64_t>(1, end_ns - now_ns));
        now_ns = end_ns;
    }
    return static_cast<double>(shortest);
}

/// A product of two squares, as torch is set now; no random number is drawn.
class Product {
  public:
    Product(c10::Device device, c10::ScalarType type)
        : factor_(at::full(
              {rows_of(device), rows_of(device)}, 0.5, at::TensorOptions(device).dtype(type)
          )),
          product_(at::empty_like(factor_)) {}

    void operator()() const {
        at::Tensor result = product_;
        at::mm_out(result, factor_, factor_);
    }
    [[nodiscard]] double flop_per_s() const {
        auto const side = static_cast<double>(factor_.size(0));
        return 2 * side * side * side * 1e9 / shortest_ns(factor_.device(), *this);
    }

  private:
    static std::int64_t rows_of(c10::Device device) {
        return device.is_cpu() ? kHostSquare : kDeviceSquare;
    }

    at::Tensor factor_, product_;
};

/// What torch can say of the CPU or a GPU, beside what `machine` has.
void add_speed(Machine& machine, c10::Device device) {
    machine.device.float32_flop_per_s = Product(device, at::kFloat).flop_per_s();
    if (device.is_cpu()) {
        return;  // many multiply halves by a slow fallback
    }
    machine.device.half_flop_per_s = Product(device, at::kBFloat16).flop_per_s();
    at::Tensor const from = at::zeros({kCopiedElements}, at::TensorOptions(device));
    at::Tensor const to = at::empty_like(from);
    double const time_ns = shortest_ns(device, [&] { to.copy_(from); });
    machine.device.memory_bytes_per_s = 2.0 * 4 * kCopiedElements * 1e9 / time_ns;
}

/// The largest one of the places, since a machine has one.
void add_interference(Machine& machine, SessionDevice const& here, Tier* host, Tier* nvme) {
    c10::Device const device = here.place.device;
    Product const product(device, at::kFloat);
    for (Tier* const tier : {host, nvme}) {
        // Other devices reach the disk through pinned memory, which is measured.
        if (tier == nullptr || (tier == nvme && !here.device->is_host())) {
            continue;
        }
        double const share = value_or_throw(
            measure_interference(*here.device, *tier, [&] { run_to_the_end(device, product); }),
            "device"
        );
        machine.device.interference = std::max(machine.device.interference, share);
    }
}

void measure_compute(Machine& machine, SessionDevice const& here, Tier* host, Tier* nvme) {
    if (!here.place.device.is_cpu() && !here.place.device.is_cuda()) {
        return;  // a device in software
    }
    at::NoGradGuard const no_graph;
    add_speed(machine, here.place.device);
    add_interference(machine, here, host, nvme);
}

/// The machine that a session with these options would run on, as JSON; see read_options.
std::string probe_here(std::string const& options, std::int64_t device_bytes) {
    try {
        SessionOptions const asked = read_options(options, device_bytes);
        SessionDevice const device = open_session_device(asked);
        std::unique_ptr<Tier> const host = open_host(asked, device);
        std::unique_ptr<Tier> const nvme = open_nvme(asked);
        Machine machine =
            value_or_throw(probed_machine(*device.device, host.get(), nvme.get()), "device");
        try {
            measure_compute(machine, device, host.get(), nvme.get());
        } catch (c10::OutOfMemoryError const&) {  // a full device: its speed stays unknown
        }
        return to_json_text(machine);
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
