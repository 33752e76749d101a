// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/budget.h"

namespace spillway::train {

void Budget::own(
    std::vector<at::Tensor> const& /*tensors*/,
    std::vector<std::string> const& /*names*/,
    std::vector<OwnedKind> const& /*kinds*/
) {}

void Budget::let_leave(std::vector<at::Tensor> const& /*states*/) {}

void Budget::bring_back(std::vector<at::Tensor> const& /*states*/) {}

void Budget::phase(Phase /*phase*/, std::int64_t /*step*/) {}

void Budget::exact(bool /*on*/) {}

void Budget::trace(std::string const& /*file*/) {}

}  // namespace spillway::train
