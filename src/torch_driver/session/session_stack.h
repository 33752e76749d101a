// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The sessions that a thread, or a device, allocates from: the one that was entered last, then
// those around it.
#pragma once

#include "torch_driver/session/torch_session.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace spillway {

/// Thread  not thread-safe
class SessionStack {
  public:
    /// `session` is the innermost from now on, and inside the one that caps before it. Others that
    /// nobody uses lapse: the thread is another one's.
    void enter(std::shared_ptr<TorchSession> const& session) {
        remove(session.get());
        for (auto const& weak : sessions_) {
            if (std::shared_ptr<TorchSession> const other = weak.lock();
                other != nullptr && !other->use().is_in_use()) {
                other->use().lapse();
            }
        }
        if (std::shared_ptr<TorchSession> const outer = innermost()) {
            NestedBudget::nest(
                TorchSession::budget_of(session->shared_from_this()), TorchSession::budget_of(outer)
            );
        }
        sessions_.push_back(session);
    }

    /// `session` is the innermost for a use of its own, such as an optimizer's step: inside none,
    /// and no other one lapses.
    void put_innermost(std::shared_ptr<TorchSession> const& session) {
        remove(session.get());
        sessions_.push_back(session);
    }

    /// As it was entered, while what was passed then lives; else null.
    [[nodiscard]] std::shared_ptr<TorchSession> find(TorchSession const& session) const {
        for (auto const& weak : sessions_) {
            std::shared_ptr<TorchSession> known = weak.lock();
            if (known.get() == &session) {
                return known;
            }
        }
        return nullptr;
    }

    /// The last entered one of those that cap now; null: none does.
    [[nodiscard]] std::shared_ptr<TorchSession> innermost() const {
        for (auto weak = sessions_.rbegin(); weak != sessions_.rend(); ++weak) {
            std::shared_ptr<TorchSession> session = weak->lock();
            if (session != nullptr && session->caps()) {
                return session;
            }
        }
        return nullptr;
    }

  private:
    /// Removes `session`, and those that have ended.
    void remove(TorchSession const* session) {
        std::erase_if(sessions_, [session](auto const& weak) {
            std::shared_ptr<TorchSession> const other = weak.lock();
            return other == nullptr || other.get() == session;
        });
    }

    std::vector<std::weak_ptr<TorchSession>> sessions_;
};

}  // namespace spillway
