// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the tests of this folder share: a folder that goes away, a tiny model, a text.
#pragma once

#include "spillway/train.h"
#include "train/data.h"
#include "train/model_shape.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace spillway::train {

/// A new folder under the temporary one, removed with all in it.
class ScratchFolder {
  public:
    ScratchFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "spillway-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~ScratchFolder() { std::filesystem::remove_all(path_); }
    ScratchFolder(ScratchFolder const&) = delete;
    ScratchFolder& operator=(ScratchFolder const&) = delete;

    [[nodiscard]] std::string file(std::string const& name) const { return path_ + "/" + name; }
    [[nodiscard]] std::string const& path() const { return path_; }

  private:
    std::string path_;
};

inline std::string read_text(std::string const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(std::string const& path, std::string const& text) {
    std::ofstream(path, std::ios::binary) << text;
}

inline TrainOptions tiny_options() {
    TrainOptions options;
    options.layers = 2;
    options.heads = 2;
    options.width = 16;
    options.sequence = 8;
    options.batch = 2;
    options.steps = 6;
    options.warmup_steps = 2;
    options.seed = 7;
    return options;
}

inline Corpus small_corpus() {
    Corpus corpus;
    for (int at = 0; at < 4096; ++at) {
        corpus.bytes.push_back(static_cast<std::uint8_t>('a' + at * at % 23));
    }
    corpus.source = "test";
    return corpus;
}

}  // namespace spillway::train
