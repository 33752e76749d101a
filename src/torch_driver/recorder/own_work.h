// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Operators that the runtime runs itself, in the middle of the user's.
#pragma once

#include "torch_driver/recorder/call_recorder.h"
#include "torch_driver/recorder/recipe_rules.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace spillway {

/// While it lives, this thread's operators run below autograd, autocast and all modes and
/// transforms that whoever calls may be in, and are not recorded.
class OwnWork {
  public:
    OwnWork() = default;
    OwnWork(OwnWork const&) = delete;
    OwnWork& operator=(OwnWork const&) = delete;

  private:
    static constexpr c10::DispatchKeySet kModes{
        c10::DispatchKey::Python,
        c10::DispatchKey::PythonTLSSnapshot,
        c10::DispatchKey::PythonDispatcher,
        c10::DispatchKey::PreDispatch,
        c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
        c10::DispatchKey::FuncTorchDynamicLayerBackMode};

    UnrecordedCalls const unrecorded_;
    c10::InferenceMode const normal_{false};
    c10::NoGradGuard const no_grad_;
    c10::impl::ExcludeDispatchKeyGuard const keys_{
        c10::autograd_dispatch_keyset_with_ADInplaceOrView | kModes |
        (keeps(RecipeRule::autocast_is_over) ? c10::autocast_dispatch_keyset : c10::DispatchKeySet()
        )};
};

}  // namespace spillway
