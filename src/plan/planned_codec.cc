// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "plan/planned_codec.h"

#include "codec/codec.h"
#include "machine/machine.h"
#include "trace/trace.h"

#include <algorithm>
#include <string>

namespace spillway {

namespace {

/// As torch prints them; all that no codec knows is bytes.
Dtype dtype_of(std::string_view name) {
    return name == "float32"    ? Dtype::f32
           : name == "bfloat16" ? Dtype::bf16
           : name == "float16"  ? Dtype::f16
                                : Dtype::u8;
}

bool may_lose(CodecKind kind, TensorClass tensor_class) {
    return kind == CodecKind::sign ? tensor_class == TensorClass::relu_output
                                   : tensor_class != TensorClass::index;
}

}  // namespace

Result<Codec> parse_planned_codec(std::string_view text) {
    Result<Codec> codec = parse_codec(text);
    if (codec.ok() && codec->kind == CodecKind::identity) {
        return Error{Errc::bad_argument, "encodes nothing; leave the codec out", std::string(text)};
    }
    if (codec.ok() && codec->kind == CodecKind::lossless) {
        return Error{
            Errc::bad_argument,
            "has no size that is known before, so no plan can have it",
            std::string(text)};
    }
    return codec;
}

Result<std::int64_t> coded_bytes(std::string_view codec, TraceValue const& value) {
    Result<Codec> const known = parse_planned_codec(codec);
    if (!known.ok()) {
        return known.error();
    }
    std::string const name(codec);
    if (is_lossy(*known) && !may_lose(known->kind, value.tensor_class)) {
        return Error{
            Errc::bad_argument,
            "loses what a value of the class " + std::string(name_of(value.tensor_class)) +
                " needs",
            name};
    }
    Dtype const dtype = dtype_of(value.dtype);
    Result<std::int64_t> const bytes =
        encoded_bytes({*known, dtype, value.size_bytes / size_of(dtype)});
    if (!bytes.ok()) {
        return Error{bytes.error().code, bytes.error().what, name};
    }
    if (*bytes >= value.size_bytes) {
        return Error{Errc::unsupported, "makes the value no smaller", name};
    }
    return *bytes;
}

std::int64_t away_bytes(Fate const& fate, TraceValue const& value) {
    if (fate.codec.empty()) {
        return value.size_bytes;
    }
    Result<std::int64_t> const bytes = coded_bytes(fate.codec, value);
    return bytes.ok() ? *bytes : value.size_bytes;
}

bool has_codecs(Plan const& plan) {
    return std::any_of(plan.fates.begin(), plan.fates.end(), [](auto const& entry) {
        return !entry.second.codec.empty();
    });
}

bool is_lossy(Plan const& plan) {
    return std::any_of(plan.fates.begin(), plan.fates.end(), [](auto const& entry) {
        Result<Codec> const codec = parse_codec(entry.second.codec);
        return codec.ok() && is_lossy(*codec);
    });
}

CodecRates codec_rates(Machine const& machine) {
    double const memory = machine.device.memory_bytes_per_s;
    auto const known_or = [](double measured, double derived) {
        return measured > 0 ? measured : derived;
    };
    return {
        known_or(machine.device.encode_bytes_per_s, memory / kEncodePasses),
        known_or(machine.device.decode_bytes_per_s, memory / kDecodePasses)};
}

}  // namespace spillway
