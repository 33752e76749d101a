// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Reading and writing the JSON text of the nouns. Reads are checked: whatever the text holds, the
// outcome is an object or one error that names the field, never an exception.
#pragma once

#include "base/result.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

class JsonDocument;

/// One place of a document. After the document's first error every read gives a default, so that
/// readers need no checks of their own; they end with `JsonDocument::result`.
class JsonView {
  public:
    /// The field `key` of this object; missing: an error.
    [[nodiscard]] JsonView at(std::string_view key) const;
    [[nodiscard]] bool has(std::string_view key) const;
    /// The elements of this array.
    [[nodiscard]] std::vector<JsonView> items() const;
    /// Refuses fields with other names: a mistyped name is no silent default.
    void only(std::initializer_list<std::string_view> keys) const;

    /// The field `key` of this object is the format's version: refuses all but `known`.
    void version(std::string_view key, std::int64_t known) const;

    [[nodiscard]] std::int64_t integer(std::int64_t least = 0, std::int64_t most = INT64_MAX) const;
    [[nodiscard]] double number(double least, double most) const;
    [[nodiscard]] std::string text() const;
    [[nodiscard]] bool boolean() const;
    /// One of `names`, by its place in the list.
    [[nodiscard]] std::size_t one_of(std::span<std::string_view const> names) const;
    [[nodiscard]] std::size_t one_of(std::initializer_list<std::string_view> names) const {
        return one_of(std::span(names.begin(), names.size()));
    }

    /// Makes "<path> <what>" the document's error, unless it has one.
    void fail(std::string const& what) const;

  private:
    friend class JsonDocument;
    JsonView(nlohmann::json const* json, JsonDocument* document, std::string path)
        : json_(json), document_(document), path_(std::move(path)) {}

    nlohmann::json const* json_;  ///< null after an error
    JsonDocument* document_;
    std::string path_;
};

/// A parsed text and the first thing found wrong with it.
///
/// Fails   Errc::bad_format, by `result`, with `name` as the place
class JsonDocument {
  public:
    JsonDocument(std::string_view text, std::string name);
    ~JsonDocument();
    JsonDocument(JsonDocument const&) = delete;
    JsonDocument& operator=(JsonDocument const&) = delete;

    [[nodiscard]] JsonView root();
    [[nodiscard]] Result<void> result() const;
    /// `value` unless something was wrong.
    template <typename T>
    [[nodiscard]] Result<T> result(T value) const {
        Result<void> const verdict = result();
        if (!verdict) {
            return verdict.error();
        }
        return value;
    }

  private:
    friend class JsonView;
    std::string name_;
    std::unique_ptr<nlohmann::json> json_;
    Result<void> problem_;
};

/// One line. Text that is not UTF-8 is replaced, so that this never fails.
[[nodiscard]] std::string json_line(nlohmann::ordered_json const& json);

/// For people: the outer `depth` levels have a line for each element, deeper ones share a line.
[[nodiscard]] std::string json_lines(nlohmann::ordered_json const& json, int depth);

}  // namespace spillway
