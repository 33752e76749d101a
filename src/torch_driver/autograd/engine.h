// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Where saved tensors enter: an autograd engine that delegates everything to the one before it and
// offers our saved-variable hooks while a session records on the calling thread.
#pragma once

#include "torch_driver/autograd/backward_order.h"

#include <cstddef>
#include <memory>

namespace spillway {

class TorchSession;

/// Puts the delegating engine in front of the present one, once a process. Never taken away again:
/// graphs may outlive sessions.
void install_engine();

/// What the calling thread records into, and with it the backwards that it starts, on whichever
/// threads they run. `python_hooks` is the depth of Python's hook stack when
/// recording began: hooks pushed later are inside ours and win.
struct ThreadRecording {
    std::shared_ptr<TorchSession> session;
    std::size_t python_hooks = 0;
};

/// The calling thread's recording; empty when nothing records.
[[nodiscard]] ThreadRecording& thread_recording();

/// `session` unpacks a value in a backward on the calling thread. Where that is a device's thread
/// and the backward passed our engine by, as those do that Python starts, what it saves is from now
/// on the session's, while a thread is in that.
void adopt_backward(std::shared_ptr<TorchSession> const& session);

/// Keeps `held` until the backward that the calling thread runs a node of is gone, with its final
/// callbacks, and however it ended.
void keep_for_backward(std::shared_ptr<void> held);

/// The backward that the calling thread runs a node of; null where it runs none.
[[nodiscard]] std::shared_ptr<Backward const> backward_here();

/// The same; where that is not known, as of a backward that Python starts, what is below the node
/// that the calling thread runs. Without roots: it runs none.
[[nodiscard]] Backward what_runs_here();

/// How deep Python's stack of saved-tensor hooks is on this thread.
[[nodiscard]] std::size_t python_hook_depth();

}  // namespace spillway
