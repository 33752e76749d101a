// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Everything that a user typed, checked before anything is made: flags, then paths, then data.
#pragma once

#include "spillway/train.h"
#include "train/data.h"
#include "train/model_shape.h"

#include <c10/core/Device.h>

#include <memory>

namespace spillway::train {

class SavedRun;

/// What a run starts from.
struct Prepared {
    c10::Device device = c10::kCPU;
    ModelShape shape;
    Corpus corpus;
    std::unique_ptr<SavedRun> resumed;  ///< null: starts afresh

    Prepared();
    ~Prepared();
    Prepared(Prepared&&) noexcept;
    Prepared& operator=(Prepared&&) noexcept;
};

/// Fails   BadValue, nothing made or overwritten
[[nodiscard]] Prepared prepare(TrainOptions const& options);

}  // namespace spillway::train
