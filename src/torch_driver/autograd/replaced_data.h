// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Saved tensors that the program gave other data to (`x.data = y`). Plain autograd keeps a saved
// tensor itself, so its backward sees the new data even when the program has let go of the tensor.
// A hook keeps an alias of the bytes that were saved; so at such an assignment the living hooks of
// that tensor are looked for, and keep an alias of the new data, too. Nothing is kept but by hooks.
#pragma once

namespace spillway {

class SavedTensors;

/// While it lives, `of` is notified of each `set_data` of the process on a tensor that a hook may
/// have saved (SavedTensors::data_was_replaced).
///
/// Thread  any
class ReplacedDataWatch {
  public:
    /// From the first one on, torch calls us at each `set_data`.
    explicit ReplacedDataWatch(SavedTensors& of);
    ~ReplacedDataWatch();
    ReplacedDataWatch(ReplacedDataWatch const&) = delete;
    ReplacedDataWatch& operator=(ReplacedDataWatch const&) = delete;

  private:
    SavedTensors& of_;
};

}  // namespace spillway
