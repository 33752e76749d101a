// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace spillway::train {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kHeaderLimitBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kMostDimensions = 64;

[[noreturn]] void fail(InputFile const& file, std::string const& what) {
    throw FileError(file.path() + ": " + what);
}

std::int64_t header_bytes(InputFile const& file) {
    if (file.size_bytes() < kLengthBytes) {
        fail(file, "cut short, no header");
    }
    std::array<std::byte, kLengthBytes> raw{};
    file.read(0, raw);
    std::uint64_t length = 0;
    for (std::size_t at = raw.size(); at-- > 0;) {
        length = (length << 8U) | std::to_integer<std::uint64_t>(raw[at]);
    }
    auto const most = std::min(kHeaderLimitBytes, file.size_bytes() - kLengthBytes);
    if (length > static_cast<std::uint64_t>(most)) {
        fail(file, "cut short or damaged, header length " + std::to_string(length));
    }
    return static_cast<std::int64_t>(length);
}

// JSON whose object has every name once; nlohmann would silently keep the last.
Json parse_header(InputFile const& file, std::string const& text) {
    std::set<std::string> names;
    bool repeated = false;
    auto const watch = [&](int depth, Json::parse_event_t event, Json& value) {
        if (event == Json::parse_event_t::key && depth == 1) {
            repeated |= !names.insert(value.get<std::string>()).second;
        }
        return true;
    };
    Json header = Json::parse(text, watch, /*allow_exceptions=*/false);
    if (header.is_discarded() || !header.is_object() || text.front() != '{') {
        fail(file, "header is no JSON object");
    }
    if (repeated) {
        fail(file, "header names a tensor twice");
    }
    return header;
}

std::int64_t whole_number(InputFile const& file, Json const& value) {
    constexpr auto kMost = static_cast<std::uint64_t>(INT64_MAX);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost) {
        fail(
            file,
            "header holds '" + value.dump(-1, ' ', true, Json::error_handler_t::replace) +
                "' where a size belongs"
        );
    }
    return value.get<std::int64_t>();
}

// The entry's fields, each of the right kind; sums are checked by `check_bytes`.
TensorEntry parse_entry(InputFile const& file, std::string const& name, Json const& value) {
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
        !value.contains("shape") || !value.contains("data_offsets") ||
        !value["dtype"].is_string() || !value["shape"].is_array() ||
        value["shape"].size() > kMostDimensions || !value["data_offsets"].is_array() ||
        value["data_offsets"].size() != 2) {
        fail(file, "header entry '" + name + "' is not a tensor's");
    }
    TensorEntry entry;
    entry.name = name;
    entry.dtype = value["dtype"].get<std::string>();
    for (Json const& extent : value["shape"]) {
        entry.shape.push_back(whole_number(file, extent));
    }
    entry.begin = whole_number(file, value["data_offsets"][0]);
    entry.end = whole_number(file, value["data_offsets"][1]);
    return entry;
}

void check_bytes(InputFile const& file, TensorEntry const& entry) {
    std::int64_t bytes = element_bytes(entry.dtype);
    if (bytes == 0) {
        fail(file, "tensor '" + entry.name + "' has an unknown dtype");
    }
    for (std::int64_t const extent : entry.shape) {
        if (__builtin_mul_overflow(bytes, extent, &bytes)) {
            fail(file, "tensor '" + entry.name + "' has an impossible shape");
        }
    }
    if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
        fail(file, "tensor '" + entry.name + "' has a place that is not its size");
    }
}

void check_cover(InputFile const& file, TensorIndex const& index) {
    std::int64_t at = 0;
    for (TensorEntry const& entry : index.entries) {
        if (entry.begin != at) {
            fail(file, "tensor '" + entry.name + "' overlaps another or leaves a gap");
        }
        at = entry.end;
    }
    if (at != file.size_bytes() - index.data_begin) {
        fail(file, "cut short or too long for its header");
    }
}

}  // namespace

std::int64_t element_bytes(std::string_view dtype) {
    constexpr std::array<std::pair<std::string_view, std::int64_t>, 12> kDtypes{{
        {"F64", 8},
        {"I64", 8},
        {"U64", 8},
        {"F32", 4},
        {"I32", 4},
        {"U32", 4},
        {"F16", 2},
        {"BF16", 2},
        {"I16", 2},
        {"I8", 1},
        {"U8", 1},
        {"BOOL", 1},
    }};
    for (auto const& [name, bytes] : kDtypes) {
        if (name == dtype) {
            return bytes;
        }
    }
    return 0;
}

TensorIndex read_index(InputFile const& file) {
    std::int64_t const length = header_bytes(file);
    std::string text(static_cast<std::size_t>(length), '\0');
    file.read(kLengthBytes, std::as_writable_bytes(std::span{text}));
    Json const header = parse_header(file, text);
    TensorIndex index;
    index.data_begin = kLengthBytes + length;
    for (auto const& [name, value] : header.items()) {
        if (name != "__metadata__") {
            index.entries.push_back(parse_entry(file, name, value));
            check_bytes(file, index.entries.back());
        }
    }
    std::stable_sort(
        index.entries.begin(),
        index.entries.end(),
        [](TensorEntry const& a, TensorEntry const& b) {
            return std::pair{a.begin, a.end} < std::pair{b.begin, b.end};
        }
    );
    check_cover(file, index);
    return index;
}

namespace {

std::int64_t declared_bytes(TensorToWrite const& tensor) {
    std::int64_t bytes = element_bytes(tensor.dtype);
    for (std::int64_t const extent : tensor.shape) {
        bytes *= extent;
    }
    return bytes;
}

void write_data(OutputFile& file, std::string const& path, TensorToWrite const& tensor) {
    auto const bytes = tensor.bytes();
    if (static_cast<std::int64_t>(bytes.size()) != declared_bytes(tensor)) {
        throw FileError(path + ": tensor '" + tensor.name + "' has not the bytes of its shape");
    }
    file.write(bytes);
}

}  // namespace

std::string write_tensors(std::string const& path, std::vector<TensorToWrite> const& tensors) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    header["__metadata__"] = {{"format", "pt"}};
    std::int64_t at = 0;
    for (TensorToWrite const& tensor : tensors) {
        auto const end = at + declared_bytes(tensor);
        header[tensor.name] = {
            {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
        at = end;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::array<std::byte, kLengthBytes> length{};
    for (std::size_t byte = 0; byte < length.size(); ++byte) {
        length[byte] = static_cast<std::byte>((text.size() >> (8 * byte)) & 0xffU);
    }
    OutputFile file(path);
    file.write(length);
    file.write(text);
    for (TensorToWrite const& tensor : tensors) {
        write_data(file, path, tensor);
    }
    return file.finish();
}

}  // namespace spillway::train
