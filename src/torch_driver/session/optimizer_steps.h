// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// When the step of a torch optimizer ends, normally or by raising. Torch calls no hook after a step
// that raises; but it runs each inside a `record_function` named after it, whose end callback runs
// either way.
#pragma once

#include <functional>

namespace spillway {

/// From now on steps are seen, on all threads; to be called before the first one that is asked for.
void watch_optimizer_steps();

/// Calls `ended` on this thread when the innermost step that it is in has ended. False where it is
/// in none that was seen (torch.compile leaves the name out): it is not called then.
[[nodiscard]] bool at_end_of_step(std::function<void()> ended);

}  // namespace spillway
