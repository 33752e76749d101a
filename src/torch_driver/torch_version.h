// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A build works with the torch that it was built for: there is no stable interface at the seams
// that we use, so another torch is refused before it can do harm.
#pragma once

#include <optional>
#include <string>

namespace spillway {

/// "2.15.0", the torch of this build.
[[nodiscard]] std::string built_torch_version();

/// The version of the torch that is loaded, read from the file version.py beside it; nothing where
/// there is no such file.
[[nodiscard]] std::optional<std::string> loaded_torch_version();

/// The release in a text like "__version__ = '2.15.0+cu130'"; nothing where there is none.
[[nodiscard]] std::optional<std::string> release_in(std::string const& text);

/// Throws  std::runtime_error that names both versions, where the loaded one is known and is not
///         `built`
void refuse_another_torch(std::string const& built);

}  // namespace spillway
