// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/json_view.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace spillway {

namespace {

using OrderedJson = nlohmann::ordered_json;

void put_lines(OrderedJson const& json, int depth, std::size_t indent, std::string& out) {
    if (depth == 0 || !json.is_structured() || json.empty()) {
        out += json_line(json);
        return;
    }
    out += json.is_object() ? "{\n" : "[\n";
    bool first = true;
    for (auto const& [key, value] : json.items()) {
        out += first ? "" : ",\n";
        first = false;
        out.append(indent + 2, ' ');
        if (json.is_object()) {
            out += json_line(OrderedJson(key)) + ": ";
        }
        put_lines(value, depth - 1, indent + 2, out);
    }
    out += '\n';
    out.append(indent, ' ');
    out += json.is_object() ? '}' : ']';
}

bool is_whole_number(nlohmann::json const& json) {
    if (!json.is_number_integer()) {
        return false;
    }
    return !json.is_number_unsigned() ||
           json.get<std::uint64_t>() <=
               static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

JsonDocument::JsonDocument(std::string_view text, std::string name) : name_(std::move(name)) {
    json_ = std::make_unique<nlohmann::json>(
        nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false)
    );
    if (json_->is_discarded()) {
        problem_ = Error{Errc::bad_format, "is not JSON", name_};
    }
}

JsonDocument::~JsonDocument() = default;

JsonView JsonDocument::root() {
    return {problem_.ok() ? json_.get() : nullptr, this, ""};
}

Result<void> JsonDocument::result() const {
    return problem_;
}

void JsonView::fail(std::string const& what) const {
    if (document_->problem_.ok()) {
        document_->problem_ = Error{
            Errc::bad_format, (path_.empty() ? "the text" : path_) + " " + what, document_->name_};
    }
}

JsonView JsonView::at(std::string_view key) const {
    std::string path = path_.empty() ? std::string(key) : path_ + "." + std::string(key);
    if (json_ == nullptr) {
        return {nullptr, document_, std::move(path)};
    }
    if (!json_->is_object()) {
        fail("must be an object");
        return {nullptr, document_, std::move(path)};
    }
    auto const found = json_->find(std::string(key));
    JsonView view{found == json_->end() ? nullptr : &*found, document_, std::move(path)};
    if (view.json_ == nullptr) {
        view.fail("is missing");
    }
    return view;
}

bool JsonView::has(std::string_view key) const {
    return json_ != nullptr && json_->is_object() && json_->contains(std::string(key));
}

std::vector<JsonView> JsonView::items() const {
    std::vector<JsonView> views;
    if (json_ == nullptr) {
        return views;
    }
    if (!json_->is_array()) {
        fail("must be a list");
        return views;
    }
    views.reserve(json_->size());
    for (auto const& item : *json_) {
        views.push_back(JsonView{&item, document_, path_ + "[" + std::to_string(views.size()) + "]"}
        );
    }
    return views;
}

void JsonView::only(std::initializer_list<std::string_view> keys) const {
    if (json_ == nullptr) {
        return;
    }
    if (!json_->is_object()) {
        fail("must be an object");
        return;
    }
    for (auto const& [key, value] : json_->items()) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
            fail("has an unknown field '" + key + "'");
        }
    }
}

void JsonView::version(std::string_view key, std::int64_t known) const {
    if (json_ != nullptr && json_->is_object() && !has(key)) {
        for (auto const& [other, value] : json_->items()) {
            if (other.starts_with("spillway_")) {
                fail("is a " + other + ", and no " + std::string(key));
                return;
            }
        }
    }
    std::int64_t const found = at(key).integer();
    if (found != known) {
        fail(
            "is of format version " + std::to_string(found) + "; this Spillway reads version " +
            std::to_string(known) + " only"
        );
    }
}

std::int64_t JsonView::integer(std::int64_t least, std::int64_t most) const {
    if (json_ == nullptr) {
        return least;
    }
    std::int64_t const read = is_whole_number(*json_) ? json_->get<std::int64_t>() : least;
    if (!is_whole_number(*json_) || read < least || read > most) {
        std::string const top = most == std::numeric_limits<std::int64_t>::max()
                                    ? " on"
                                    : " to " + std::to_string(most);
        fail("must be a whole number from " + std::to_string(least) + top);
        return least;
    }
    return read;
}

double JsonView::number(double least, double most) const {
    if (json_ == nullptr) {
        return least;
    }
    double const read = json_->is_number() ? json_->get<double>() : std::nan("");
    if (!(read >= least && read <= most)) {
        fail("must be a number from " + std::to_string(least) + " to " + std::to_string(most));
        return least;
    }
    return read;
}

std::string JsonView::text() const {
    if (json_ != nullptr && !json_->is_string()) {
        fail("must be a text");
        return {};
    }
    return json_ == nullptr ? std::string() : json_->get<std::string>();
}

bool JsonView::boolean() const {
    if (json_ != nullptr && !json_->is_boolean()) {
        fail("must be true or false");
        return false;
    }
    return json_ != nullptr && json_->get<bool>();
}

std::size_t JsonView::one_of(std::span<std::string_view const> names) const {
    std::string const read = text();
    auto const found = std::find(names.begin(), names.end(), read);
    if (found != names.end()) {
        return static_cast<std::size_t>(found - names.begin());
    }
    std::string known;
    for (std::string_view const name : names) {
        known += (known.empty() ? "" : ", ") + std::string(name);
    }
    fail("must be one of " + known);
    return 0;
}

std::string json_line(OrderedJson const& json) {
    return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string json_lines(OrderedJson const& json, int depth) {
    std::string out;
    put_lines(json, depth, 0, out);
    return out + "\n";
}

}  // namespace spillway
