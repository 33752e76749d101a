// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "machine/data_sheets.h"

#include "machine/data_sheet_texts.h"

#include <algorithm>

namespace spillway {

std::vector<std::string> data_sheet_names() {
    std::vector<std::string> names;
    for (DataSheetText const& sheet : data_sheet_texts()) {
        names.emplace_back(sheet.name);
    }
    return names;
}

Result<Machine> find_data_sheet(std::string_view name) {
    std::string wanted(name);
    std::replace(wanted.begin(), wanted.end(), '-', '_');
    std::string known;
    for (DataSheetText const& sheet : data_sheet_texts()) {
        if (sheet.name == wanted) {
            return parse_machine(sheet.text);
        }
        known += (known.empty() ? "" : ", ") + std::string(sheet.name);
    }
    return Error{
        Errc::bad_argument,
        "no data sheet '" + std::string(name) + "'; there are " + known,
        "machine"};
}

}  // namespace spillway
