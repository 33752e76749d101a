// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/peak_watch.h"

#include <algorithm>

namespace spillway {

namespace {

/// Of the bytes at a look: so much more is another peak, so much less is the same one.
constexpr std::int64_t kPartsOfStep = 100;
/// The second has the optimizer's state, the third what a second step allocates anew.
constexpr int kPassesToLook = 3;

std::vector<ModuleBytes> by_module(DeviceNow const& now, PeakWatch::Modules const& modules) {
    std::vector<ModuleBytes> all;
    for (auto const& [value, size_bytes] : now.saved) {
        auto const at = modules.find(value);
        all.push_back({at == modules.end() ? std::string() : at->second, size_bytes});
    }
    return largest_modules(all);
}

}  // namespace

void PeakWatch::look(std::int64_t used_bytes, DeviceNow now) {
    MutexLock const lock(mutex_);
    if (!wants(used_bytes)) {
        return;  // another thread has looked meanwhile
    }
    bool const has_risen = used_bytes > highest_bytes_ + highest_bytes_ / kPartsOfStep;
    passes_to_look_ = has_risen ? kPassesToLook : passes_to_look_;
    highest_bytes_ = std::max(highest_bytes_, used_bytes);
    next_bytes_ = highest_bytes_ + highest_bytes_ / kPartsOfStep;
    at_peak_ = std::move(now);
    is_new_ = true;
}

bool PeakWatch::has_new_look() const {
    MutexLock const lock(mutex_);
    return is_new_;
}

void PeakWatch::name_modules(Modules const& modules) {
    MutexLock const lock(mutex_);
    saved_ = by_module(at_peak_, modules);
    at_peak_.saved.clear();
    is_new_ = false;
}

void PeakWatch::begin_pass(std::function<Modules()> const& modules) {
    if (has_new_look()) {
        name_modules(modules());
    }
    MutexLock const lock(mutex_);
    std::int64_t const step_bytes = highest_bytes_ / kPartsOfStep;
    bool const looks_again = passes_to_look_ > 0;
    passes_to_look_ -= looks_again ? 1 : 0;
    next_bytes_ = highest_bytes_ + (looks_again ? -step_bytes : step_bytes);
}

PeakSplit PeakWatch::split(std::int64_t peak_bytes, std::function<Modules()> const& modules) const {
    Modules const known = has_new_look() ? modules() : Modules();
    MutexLock const lock(mutex_);
    auto const owned = [this](OwnedKind kind) SPILLWAY_REQUIRES(mutex_) {
        return at_peak_.owned[static_cast<std::size_t>(kind)];
    };
    PeakSplit split{
        .parameter_bytes = owned(OwnedKind::parameter),
        .buffer_bytes = owned(OwnedKind::buffer),
        .gradient_bytes = owned(OwnedKind::gradient),
        .optimizer_state_bytes = owned(OwnedKind::optimizer_state),
        .saved = is_new_ ? by_module(at_peak_, known) : saved_,
        .read_ahead_bytes = at_peak_.read_ahead_bytes};
    fit_to_peak(split, peak_bytes);
    return split;
}

}  // namespace spillway
