// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The folder of a checkpoint: where it may be, how it is put in place, what is swept away. Free of
// torch.
#pragma once

#include <array>
#include <string>

namespace spillway::train {

inline constexpr char const* kModelFile = "model.safetensors";
inline constexpr char const* kOptimizerFile = "optimizer.safetensors";
inline constexpr char const* kStateFile = "state.json";
inline constexpr std::array<char const*, 3> kCheckpointFiles{
    kModelFile, kOptimizerFile, kStateFile};

/// Refuses a place where a checkpoint cannot go: its parent absent or closed to us, a file, a
/// folder with anything in it that is not a checkpoint's. Makes nothing.
///
/// Fails   BadValue naming --checkpoint and the path as typed
void check_checkpoint_place(std::string const& path);

/// A new empty folder beside `path`; its destructor sweeps away what is left of it.
///
/// Fails   FileError
class FreshFolder {
  public:
    explicit FreshFolder(std::string const& path);
    ~FreshFolder();
    FreshFolder(FreshFolder const&) = delete;
    FreshFolder& operator=(FreshFolder const&) = delete;

    /// Puts it in the place of `path`, durably, in one step.
    void put_in_place();
    [[nodiscard]] std::string file(char const* name) const { return fresh_ + "/" + name; }

  private:
    std::string place_;
    std::string fresh_;
};

}  // namespace spillway::train
