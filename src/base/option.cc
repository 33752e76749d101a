// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/option.h"

#include "base/option_table.h"

namespace spillway {

namespace {

/// As one writes it to set it.
std::string set_at(std::string_view cpp_name, Face face) {
    std::string const name(option_name(cpp_name, face));
    if (face == Face::program) {
        return name;
    }
    Option const* const option = find_option(cpp_name);
    bool const is_toggle = option != nullptr && option->type == OptionType::toggle;
    if (face == Face::cpp) {
        return is_toggle ? name + " = true" : name;
    }
    return name + (is_toggle ? "=True" : "=");
}

}  // namespace

std::string_view option_name(std::string_view cpp_name, Face face) {
    for (Option const& option : option_table()) {
        if (option.name == cpp_name) {
            std::string_view const name = face == Face::python    ? option.python
                                          : face == Face::program ? option.flag
                                                                  : option.name;
            return name.empty() ? cpp_name : name;
        }
    }
    return cpp_name;
}

std::string with_option_names(std::string_view words, Face face) {
    return with_option_names(words, [face](std::string_view name) { return set_at(name, face); });
}

std::string with_option_names(
    std::string_view words, std::function<std::string(std::string_view)> const& write
) {
    std::string shown;
    while (!words.empty()) {
        std::size_t const begin = words.find('`');
        std::size_t const end = begin == words.npos ? words.npos : words.find('`', begin + 1);
        if (end == words.npos) {
            break;
        }
        shown += words.substr(0, begin);
        shown += write(words.substr(begin + 1, end - begin - 1));
        words.remove_prefix(end + 1);
    }
    return shown += words;
}

}  // namespace spillway
