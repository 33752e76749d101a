// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace spillway {

namespace {

struct Known {
    std::string_view name;
    Codec codec;
};

constexpr Codec affine(std::int32_t bits) {
    return {.kind = CodecKind::affine, .bits = bits, .group = 128};
}

constexpr std::array<Known, 13> kKnown{{
    {"affine2", affine(2)},
    {"affine3", affine(3)},
    {"affine4", affine(4)},
    {"affine5", affine(5)},
    {"affine6", affine(6)},
    {"affine8", affine(8)},
    {"fp8_e4m3", {.kind = CodecKind::fp8_e4m3, .group = 128}},
    {"fp8_e5m2", {.kind = CodecKind::fp8_e5m2, .group = 128}},
    {"nf4", {.kind = CodecKind::nf4, .group = 64}},
    {"mask", {.kind = CodecKind::mask}},
    {"sign", {.kind = CodecKind::sign}},
    {"lossless", {.kind = CodecKind::lossless}},
    {"identity", {.kind = CodecKind::identity}},
}};

Error unknown(std::string_view text, std::string_view what) {
    return {Errc::bad_argument, std::string(what), std::string(text)};
}

std::string known_names() {
    std::string names;
    for (Known const& known : kKnown) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
    }
    return names;
}

/// One word after the colon; false: there is no such word for this codec.
bool apply(std::string_view word, Codec& codec) {
    constexpr std::string_view kGroup = "group=";
    if (word.starts_with(kGroup) && codec.group > 0) {
        word.remove_prefix(kGroup.size());
        auto const [end, error] = std::from_chars(word.begin(), word.end(), codec.group);
        return error == std::errc{} && end == word.end();
    }
    bool const affine = codec.kind == CodecKind::affine;
    if (affine && word == "absmax" && !codec.absmax) {
        codec.absmax = true;
        return true;
    }
    if (affine && word == "stochastic" && !codec.stochastic) {
        codec.stochastic = true;
        return true;
    }
    return false;
}

}  // namespace

std::string to_text(Codec const& codec) {
    auto const* const known =
        std::find_if(kKnown.begin(), kKnown.end(), [&codec](Known const& candidate) {
            return candidate.codec.kind == codec.kind && candidate.codec.bits == codec.bits;
        });
    bool const named = known != kKnown.end();
    std::string text = named ? std::string(known->name)
                             : fmt::format("affine{}", codec.bits);  // of a width that is refused
    char mark = ':';
    auto const add = [&text, &mark](std::string_view word) {
        text += mark;
        text += word;
        mark = ',';
    };
    if (codec.group != (named ? known->codec.group : 128)) {
        add(fmt::format("group={}", codec.group));
    }
    if (codec.absmax) {
        add("absmax");
    }
    if (codec.stochastic) {
        add("stochastic");
    }
    return text;
}

Result<Codec> parse_codec(std::string_view text) {
    std::string_view const name = text.substr(0, text.find(':'));
    auto const* const known =
        std::find_if(kKnown.begin(), kKnown.end(), [name](Known const& candidate) {
            return candidate.name == name;
        });
    if (known == kKnown.end()) {
        return unknown(text, fmt::format("no such codec; there are {}", known_names()));
    }
    Codec codec = known->codec;
    std::string_view rest = text.substr(name.size());
    while (!rest.empty()) {
        rest.remove_prefix(1);  // the colon or a comma
        std::string_view const word = rest.substr(0, rest.find(','));
        if (!apply(word, codec)) {
            return unknown(
                text,
                fmt::format(
                    "no '{}' here; affine codecs take group=N, absmax and stochastic, fp8 and nf4 "
                    "group=N, all others nothing",
                    word
                )
            );
        }
        rest.remove_prefix(word.size());
    }
    Result<std::int64_t> const possible = encoded_bytes({codec, Dtype::f32, 0});
    if (!possible.ok()) {
        return unknown(text, possible.error().what);
    }
    return codec;
}

}  // namespace spillway
