// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for the vector kernels where Highway is not installed: the same bits, several times
// slower.
#include "codec/fast.h"
#include "codec/reference.h"

namespace spillway {

Kernels const& fast_kernels() {
    return reference_kernels();
}

}  // namespace spillway
