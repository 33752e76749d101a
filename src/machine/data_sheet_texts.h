// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The files of data_sheets/, as the build puts them into the library.
#pragma once

#include <span>
#include <string_view>

namespace spillway {

struct DataSheetText {
    std::string_view name;  ///< the file's, without ".json"
    std::string_view text;  ///< a machine
};

/// In the order of their names.
[[nodiscard]] std::span<DataSheetText const> data_sheet_texts();

}  // namespace spillway
