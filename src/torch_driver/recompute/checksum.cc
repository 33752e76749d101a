// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recompute/checksum.h"

#include "base/hash.h"
#include "torch_driver/autograd/geometry.h"
#include "torch_driver/recorder/call_time.h"
#include "torch_driver/recorder/own_work.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace spillway {

namespace {

constexpr std::int64_t kMostColumns = 1024;
constexpr std::int64_t kMostRows = 8192;  ///< at once

/// `rows` times `columns` elements of `storage` from its byte `first` on.
at::Tensor table_of(
    c10::Storage const& storage,
    c10::ScalarType dtype,
    std::int64_t first,
    std::int64_t rows,
    std::int64_t columns
) {
    return view_of(
        storage,
        {{rows, columns},
         {columns, 1},
         first / static_cast<std::int64_t>(c10::elementSize(dtype)),
         c10::DispatchKeySet(c10::computeDispatchKey(dtype, c10::kStrided, storage.device())),
         c10::scalarTypeToTypeMeta(dtype)}
    );
}

void add_bytes(Hash& hash, at::Tensor const& tensor) {
    at::Tensor const here = tensor.cpu();
    hash.add({static_cast<std::byte const*>(here.const_data_ptr()), here.nbytes()});
}

}  // namespace

bool has_same_bytes(c10::Storage const& one, c10::Storage const& other) {
    auto const bytes = static_cast<std::int64_t>(one.nbytes());
    if (one.nbytes() != other.nbytes() || bytes == 0) {
        return one.nbytes() == other.nbytes();
    }
    if (one.device().is_cpu()) {
        return std::memcmp(one.data(), other.data(), one.nbytes()) == 0;
    }
    OwnWork const ours;
    return at::equal(
        table_of(one, at::kByte, 0, 1, bytes), table_of(other, at::kByte, 0, 1, bytes)
    );
}

Checksums::Table::Table(std::int64_t size_bytes) {
    std::int64_t const words = size_bytes / 4;
    while (columns < kMostColumns && columns * columns < words) {
        columns *= 2;
    }
    rows = words / columns;
    rows_at_once = std::min(rows, kMostRows);
}

std::int64_t Checksums::Table::most_sums() const {
    return std::max(columns, rows_at_once);
}

void Checksums::prepare(c10::Device device, std::int64_t size_bytes) {
    if (device.is_cpu()) {
        return;
    }
    Table const table(size_bytes);
    {
        MutexLock const lock(mutex_);
        if (sums_.defined() && sums_.numel() >= table.most_sums()) {
            return;
        }
    }
    OwnWork const ours;
    at::Tensor larger =
        at::empty({table.most_sums()}, at::TensorOptions().device(device).dtype(at::kLong));
    MutexLock const lock(mutex_);
    std::swap(sums_, larger);
}

bool Checksums::let_go() {
    at::Tensor going;  // freed after the lock
    MutexLock const lock(mutex_);
    std::swap(going, sums_);
    return going.defined();
}

std::uint64_t Checksums::of(c10::Storage const& storage) {
    if (storage.device().is_cpu()) {
        Hash hash;
        hash.add({static_cast<std::byte const*>(storage.data()), storage.nbytes()});
        return hash.value();
    }
    auto const bytes = static_cast<std::int64_t>(storage.nbytes());
    Table const table(bytes);
    for (;;) {
        prepare(storage.device(), bytes);  // without the lock: it may make room
        MutexLock const lock(mutex_);
        if (sums_.defined() && sums_.numel() >= table.most_sums()) {
            return of_device(storage, table);
        }
    }
}

void Checksums::measure(c10::Storage const& storage) {
    auto const bytes = static_cast<std::int64_t>(storage.nbytes());
    if (bytes == 0 || bytes < 2 * measured_bytes_) {
        return;
    }
    prepare(storage.device(), bytes);
    if (!storage.device().is_cpu()) {
        (void)of(storage);  // the first one loads the kernel
    }
    CallTimer timer;
    timer.begins(storage.device());
    (void)of(storage);
    CallTime const time = timer.ends();
    time.wait();
    ns_per_byte_ = static_cast<double>(time.ns()) / static_cast<double>(bytes);
    measured_bytes_ = bytes;
}

std::int64_t Checksums::ns_of(std::int64_t size_bytes) const {
    return static_cast<std::int64_t>(ns_per_byte_ * static_cast<double>(size_bytes));
}

std::uint64_t Checksums::of_device(c10::Storage const& storage, Table const& table) {
    OwnWork const ours;
    Hash hash;
    for (std::int64_t row = 0; row < table.rows; row += table.rows_at_once) {
        std::int64_t const rows = std::min(table.rows_at_once, table.rows - row);
        at::Tensor const words =
            table_of(storage, at::kInt, 4 * row * table.columns, rows, table.columns);
        for (std::int64_t const over : {0, 1}) {
            at::Tensor sums = sums_.narrow(0, 0, over == 0 ? table.columns : rows);
            at::sum_out(sums, words, {over}, false, at::kLong);
            add_bytes(hash, sums);
        }
    }
    auto const bytes = static_cast<std::int64_t>(storage.nbytes());
    std::int64_t const in_table = 4 * table.rows * table.columns;
    if (bytes > in_table) {
        add_bytes(hash, table_of(storage, at::kByte, in_table, 1, bytes - in_table));
    }
    return hash.value();
}

}  // namespace spillway
