// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/data.h"

#include "train/bad_value.h"
#include "train/random.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace spillway::train {

namespace fs = std::filesystem;

namespace {

using Bytes = std::vector<std::uint8_t>;

// Reads up to `room` bytes of a regular file; false where it cannot be opened or read.
bool append_file(fs::path const& path, std::int64_t room, Bytes& to) {
    int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return false;
    }
    std::array<std::uint8_t, 1U << 16U> chunk{};
    bool fine = true;
    while (room > 0) {
        auto const want = std::min<std::int64_t>(room, static_cast<std::int64_t>(chunk.size()));
        ssize_t const got = ::read(file, chunk.data(), static_cast<std::size_t>(want));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            fine = got == 0;
            break;
        }
        to.insert(to.end(), chunk.begin(), chunk.begin() + got);
        room -= got;
    }
    int const failure = errno;
    ::close(file);
    errno = failure;
    return fine;
}

// Text has no zero byte at its head; compiled and packed files nearly always do.
bool looks_like_text(Bytes const& bytes, std::size_t begin) {
    constexpr std::size_t kHead = 4096;
    std::size_t const end = std::min(bytes.size(), begin + kHead);
    auto const head = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    auto const tail = bytes.begin() + static_cast<std::ptrdiff_t>(end);
    return std::find(head, tail, std::uint8_t{0}) == tail;
}

// Regular files below a folder, sorted; links are not followed, folders that refuse are skipped.
std::vector<fs::path> files_below(fs::path const& folder, std::string_view extension) {
    std::vector<fs::path> found;
    std::error_code failure;
    auto const options = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator at(folder, options, failure), end; at != end && !failure;
         at.increment(failure)) {
        std::error_code ignored;
        if (fs::is_regular_file(at->symlink_status(ignored)) &&
            (extension.empty() || at->path().extension() == extension)) {
            found.push_back(at->path());
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

void append_folder(fs::path const& folder, std::string_view extension, Corpus& corpus) {
    for (fs::path const& path : files_below(folder, extension)) {
        std::size_t const begin = corpus.bytes.size();
        std::int64_t const room = kCorpusLimitBytes - static_cast<std::int64_t>(begin);
        if (room <= 0) {
            return;
        }
        bool const fine = append_file(path, room, corpus.bytes);
        if (!fine || !looks_like_text(corpus.bytes, begin)) {
            corpus.bytes.resize(begin);
        } else if (corpus.bytes.size() > begin) {
            ++corpus.files;
        }
    }
}

// "/usr/lib/python3.11" and its like, sorted.
std::vector<fs::path> python_folders() {
    std::vector<fs::path> found;
    for (char const* const parent : {"/usr/lib", "/usr/local/lib"}) {
        std::error_code failure;
        for (fs::directory_iterator at(parent, failure), end; at != end && !failure;
             at.increment(failure)) {
            if (at->path().filename().string().starts_with("python3")) {
                found.push_back(at->path());
            }
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

Corpus text_of_this_machine(std::int64_t needed_bytes) {
    constexpr std::int64_t kEnough = std::int64_t{256} << 10;
    Corpus corpus;
    auto const wanted = static_cast<std::size_t>(std::max(kEnough, needed_bytes));
    for (fs::path const& folder : python_folders()) {
        append_folder(folder, ".py", corpus);
        corpus.source += (corpus.source.empty() ? "" : ":") + folder.string();
    }
    for (char const* const folder : {"/usr/share/common-licenses", "/usr/share/doc"}) {
        if (corpus.bytes.size() < wanted) {
            append_folder(folder, "", corpus);
            corpus.source += (corpus.source.empty() ? "" : ":") + std::string{folder};
        }
    }
    if (static_cast<std::int64_t>(corpus.bytes.size()) < needed_bytes) {
        throw BadValue("--data: this machine has too little text of its own; name a file or folder"
        );
    }
    return corpus;
}

Corpus text_at(std::string const& path) {
    Corpus corpus;
    corpus.source = path;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        refuse("--data", path, std::strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) {
        if (::access(path.c_str(), R_OK | X_OK) != 0) {
            refuse("--data", path, std::strerror(errno));
        }
        append_folder(path, "", corpus);
    } else if (S_ISREG(status.st_mode)) {
        if (!append_file(path, kCorpusLimitBytes, corpus.bytes)) {
            refuse("--data", path, std::strerror(errno));
        }
        corpus.files = 1;
    } else {
        refuse("--data", path, "neither a file nor a folder");
    }
    return corpus;
}

// FNV-1a: enough to distinguish one text from another.
std::uint64_t fingerprint_of(Bytes const& bytes) {
    std::uint64_t state = 0xcbf29ce484222325U;
    for (std::uint8_t const byte : bytes) {
        state = (state ^ byte) * 0x100000001b3U;
    }
    return state;
}

}  // namespace

Corpus read_corpus(std::string const& path, std::int64_t needed_bytes) {
    Corpus corpus = path.empty() ? text_of_this_machine(needed_bytes) : text_at(path);
    auto const size = static_cast<std::int64_t>(corpus.bytes.size());
    if (size == 0) {
        refuse("--data", path, "empty, or holds no text");
    }
    if (size < needed_bytes) {
        refuse(
            "--data",
            path,
            "has " + std::to_string(size) + " bytes of text, one sample takes " +
                std::to_string(needed_bytes)
        );
    }
    corpus.bytes.shrink_to_fit();
    corpus.fingerprint = fingerprint_of(corpus.bytes);
    return corpus;
}

void hold_out_a_tenth(Corpus& corpus, std::int64_t needed_bytes) {
    auto const size = static_cast<std::int64_t>(corpus.bytes.size());
    corpus.held_out_bytes = std::max(size / 10, needed_bytes);
    if (size - corpus.held_out_bytes < needed_bytes) {
        refuse(
            "--validate-every",
            corpus.source,
            "has " + std::to_string(size) + " bytes of text, a sample to train on and one to " +
                "validate with take " + std::to_string(2 * needed_bytes)
        );
    }
}

void draw_batch(
    Corpus const& corpus,
    BatchKey const& key,
    std::int64_t sequence,
    std::span<std::int64_t> inputs,
    std::span<std::int64_t> targets
) {
    auto const samples = static_cast<std::int64_t>(inputs.size()) / sequence;
    std::int64_t const trained = std::ssize(corpus.bytes) - corpus.held_out_bytes;
    std::int64_t const first = key.held_out ? trained : 0;
    std::int64_t const starts = (key.held_out ? corpus.held_out_bytes : trained) - sequence;
    for (std::int64_t sample = 0; sample < samples; ++sample) {
        std::uint64_t const random = mixed({key.seed, key.step, key.micro_batch, sample});
        std::int64_t const begin = first + below(random, starts);
        for (std::int64_t at = 0; at < sequence; ++at) {
            auto const to = static_cast<std::size_t>(sample * sequence + at);
            auto const from = static_cast<std::size_t>(begin + at);
            inputs[to] = corpus.bytes[from];
            targets[to] = corpus.bytes[from + 1];
        }
    }
}

}  // namespace spillway::train
