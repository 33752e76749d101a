// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Makes libtorch load and build what it keeps for good: threads, kernels, libraries' own buffers.
#pragma once

#include "train/model_shape.h"

#include <c10/core/Device.h>

#include <string>

namespace spillway::train {

/// Trains a model of a few kilobytes for one step and multiplies matrices on all threads; all its
/// tensors are freed again. What is resident after it is not the model's, and what the device's
/// allocator counts starts after it.
void warm_up(Style style, std::string const& precision, c10::Device device);

}  // namespace spillway::train
