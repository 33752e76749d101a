// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/checkpoint.h"

#include "train/bad_value.h"
#include "train/checkpoint_folder.h"
#include "train/files.h"
#include "train/optimizer.h"
#include "train/safetensors.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace spillway::train {

using Json = nlohmann::json;

namespace {

struct NamedTensor {
    std::string name;
    at::Tensor tensor;
};

std::vector<NamedTensor> weights_of(LanguageModel const& model) {
    std::vector<NamedTensor> tensors;
    for (auto const& parameter : model.named_parameters()) {
        tensors.push_back({parameter.key(), parameter.value()});
    }
    return tensors;
}

std::vector<NamedTensor> states_of(LanguageModel const& model, torch::optim::AdamW& optimizer) {
    std::vector<NamedTensor> tensors;
    for (Moments const& moments : moments_of(model, optimizer)) {
        tensors.push_back({"exp_avg." + moments.name, moments.average});
        tensors.push_back({"exp_avg_sq." + moments.name, moments.average_of_squares});
    }
    return tensors;
}

std::span<std::byte> bytes_of(at::Tensor const& tensor) {
    TORCH_CHECK(
        tensor.is_cpu() && tensor.is_contiguous() && tensor.scalar_type() == at::kFloat,
        "states are fp32, contiguous"
    );
    return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

// State that may be away, one tensor at a time.
class OneState {
  public:
    explicit OneState(Budget& budget) : budget_(budget) {}
    ~OneState() { let_leave(); }
    OneState(OneState const&) = delete;
    OneState& operator=(OneState const&) = delete;

    // It has its bytes until the next one has.
    void bring_back(at::Tensor const& state) {
        let_leave();
        budget_.bring_back({state});
        state_ = state;
    }

    void let_leave() {
        if (state_.defined()) {
            budget_.let_leave({std::exchange(state_, at::Tensor())});
        }
    }

  private:
    Budget& budget_;
    at::Tensor state_;
};

// A device's tensors come to the host one at a time. `states`: they may be away; null: they are
// here.
std::string write_all(
    std::string const& path, std::vector<NamedTensor> const& tensors, OneState* states
) {
    at::Tensor here;
    std::vector<TensorToWrite> lines;
    for (NamedTensor const& from : tensors) {
        auto const bytes = [&here, states, tensor = from.tensor] {
            here.reset();
            if (states != nullptr) {
                states->bring_back(tensor);
            }
            here = tensor.detach().cpu();
            return bytes_of(here);
        };
        lines.push_back({from.name, "F32", from.tensor.sizes().vec(), bytes});
    }
    return write_tensors(path, lines);
}

void read_into(at::Tensor const& tensor, InputFile const& file, std::int64_t offset) {
    if (tensor.is_cpu()) {
        file.read(offset, bytes_of(tensor));
        return;
    }
    at::Tensor const here = at::empty(tensor.sizes(), tensor.scalar_type());
    file.read(offset, bytes_of(here));
    tensor.copy_(here);
}

// Reads every tensor of the file into the one of its name; both sides must have the same names.
void read_all(
    InputFile const& file,
    TensorIndex const& index,
    std::vector<NamedTensor> tensors,
    OneState* states
) {
    at::NoGradGuard const no_grad;
    if (index.entries.size() != tensors.size()) {
        throw FileError(file.path() + ": holds another number of tensors than this model has");
    }
    for (TensorEntry const& entry : index.entries) {
        auto const found = std::find_if(tensors.begin(), tensors.end(), [&](NamedTensor const& t) {
            return t.name == entry.name;
        });
        if (found == tensors.end() || found->tensor.sizes() != at::IntArrayRef(entry.shape) ||
            entry.dtype != "F32") {
            throw FileError(file.path() + ": tensor '" + entry.name + "' is not this model's");
        }
        if (states != nullptr) {
            states->bring_back(found->tensor);
        }
        read_into(found->tensor, file, index.data_begin + entry.begin);
        std::swap(*found, tensors.back());
        tensors.pop_back();
    }
}

constexpr char const* kFormat = "spillway-checkpoint-1";

}  // namespace

void save_checkpoint(
    std::string const& path,
    std::int64_t steps_done,
    Json const& settings,
    LanguageModel const& model,
    torch::optim::AdamW& optimizer,
    Budget& budget
) {
    FreshFolder folder(path);
    OneState states(budget);
    Json hashes;
    hashes[kModelFile] = write_all(folder.file(kModelFile), weights_of(model), nullptr);
    hashes[kOptimizerFile] =
        write_all(folder.file(kOptimizerFile), states_of(model, optimizer), &states);
    Json const state{
        {"format", kFormat},
        {"steps_done", steps_done},
        {"settings", settings},
        {"xxh3", std::move(hashes)}};
    Json const whole{{"state", state}, {"xxh3", hash_of(state.dump())}};
    OutputFile file(folder.file(kStateFile));
    file.write(whole.dump(2) + "\n");
    file.finish();
    folder.put_in_place();
}

struct SavedRun::State {
    Json state;
    std::unique_ptr<InputFile> model;
    std::unique_ptr<InputFile> optimizer;
    TensorIndex model_index;
    TensorIndex optimizer_index;
};

namespace {

Json read_state(std::string const& path) {
    InputFile const file(path);
    constexpr std::int64_t kMost = std::int64_t{1} << 20;
    if (file.size_bytes() > kMost) {
        throw FileError(path + ": too long");
    }
    Json whole = Json::parse(file.read_all(), nullptr, /*allow_exceptions=*/false);
    if (!whole.is_object() || !whole.contains("state") || !whole.contains("xxh3") ||
        !whole["state"].is_object()) {
        throw FileError(path + ": cut short or damaged");
    }
    Json state = std::move(whole["state"]);
    std::string const text = state.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (whole["xxh3"] != hash_of(text)) {
        throw FileError(path + ": damaged, its own checksum does not match");
    }
    if (state.value("format", "") != kFormat || !state["steps_done"].is_number_unsigned() ||
        !state["settings"].is_object() || !state["xxh3"].is_object()) {
        throw FileError(path + ": not of this version");
    }
    return state;
}

TensorIndex checked_index(InputFile const& file, Json const& hashes, char const* name) {
    TensorIndex index = read_index(file);
    if (!hashes.contains(name) || hashes[name] != file.hash()) {
        throw FileError(file.path() + ": damaged, its checksum does not match");
    }
    return index;
}

}  // namespace

SavedRun::SavedRun(std::string path) : path_(std::move(path)), state_(std::make_unique<State>()) {
    try {
        state_->state = read_state(path_ + "/" + kStateFile);
        Json const& hashes = state_->state["xxh3"];
        state_->model = std::make_unique<InputFile>(path_ + "/" + kModelFile);
        state_->model_index = checked_index(*state_->model, hashes, kModelFile);
        state_->optimizer = std::make_unique<InputFile>(path_ + "/" + kOptimizerFile);
        state_->optimizer_index = checked_index(*state_->optimizer, hashes, kOptimizerFile);
    } catch (FileError const& failure) {
        refuse("--resume", path_, std::string{"not a whole checkpoint: "} + failure.what());
    }
}

SavedRun::~SavedRun() = default;

std::int64_t SavedRun::steps_done() const {
    return state_->state["steps_done"].get<std::int64_t>();
}

Json const& SavedRun::settings() const {
    return state_->state["settings"];
}

void SavedRun::load(LanguageModel& model, torch::optim::AdamW& optimizer, Budget& budget) const {
    make_moments(model, optimizer, steps_done(), budget);
    OneState states(budget);
    try {
        read_all(*state_->model, state_->model_index, weights_of(model), nullptr);
        read_all(*state_->optimizer, state_->optimizer_index, states_of(model, optimizer), &states);
    } catch (FileError const& failure) {
        refuse("--resume", path_, failure.what());
    }
}

}  // namespace spillway::train
