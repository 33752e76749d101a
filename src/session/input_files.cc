// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/input_files.h"

#include "machine/data_sheets.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

namespace spillway {

namespace {

/// " at line 3, column 5": the first byte that no JSON has there; empty: the text is JSON.
std::string place_of_fault(std::string const& text) {
    std::istringstream stream(text);
    if (nlohmann::json::accept(stream)) {
        return "";
    }
    stream.clear();
    std::string const read = text.substr(0, static_cast<std::size_t>(stream.tellg()));
    auto const lines = std::count(read.begin(), read.end(), '\n');
    std::size_t const column = read.size() - (read.rfind('\n') + 1);  // npos + 1 is 0
    return " at line " + std::to_string(lines + 1) + ", column " + std::to_string(column) +
           (read.size() == text.size() ? ", where it ends" : "");
}

template <typename Parse>
auto read_parsed(std::string const& path, Parse&& parse) -> decltype(parse(std::string_view())) {
    Result<std::string> const text = read_text(path);
    if (!text.ok()) {
        return text.error();
    }
    auto parsed = parse(*text);
    if (!parsed.ok()) {
        return Error{parsed.error().code, parsed.error().message() + place_of_fault(*text), path};
    }
    return parsed;
}

}  // namespace

Result<std::string> read_text(std::string const& path) {
    std::error_code none;
    if (std::filesystem::is_directory(path, none)) {
        return Error{Errc::io, "a folder, not a file", path};
    }
    std::ifstream file(path);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file.is_open() || file.bad()) {
        return Error{Errc::io, std::generic_category().message(errno), path};
    }
    return text;
}

Result<Trace> read_trace(std::string const& path) {
    return read_parsed(path, parse_trace);
}

Result<Plan> read_plan(std::string const& path) {
    return read_parsed(path, parse_plan);
}

Result<Machine> read_machine(std::string const& file_or_name) {
    std::error_code none;
    if (std::filesystem::exists(file_or_name, none)) {
        return read_parsed(file_or_name, parse_machine);
    }
    Result<Machine> sheet = find_data_sheet(file_or_name);
    if (!sheet.ok()) {
        return Error{sheet.error().code, "no such file, and " + sheet.error().what, "machine"};
    }
    return sheet;
}

}  // namespace spillway
