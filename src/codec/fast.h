// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The kernels with the widest vectors that this machine has, chosen as the program runs.
#pragma once

#include "codec/job.h"

namespace spillway {

[[nodiscard]] Kernels const& fast_kernels();

}  // namespace spillway
