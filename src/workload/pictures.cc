// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/models.h"
#include "workload/operators.h"

#include <string>

namespace spillway {

namespace {

constexpr std::int64_t kPictureSide = 224;
constexpr std::int64_t kPictureClasses = 1000;

/// A layer's result: [batch, channels, side, side].
struct Map {
    TapeTensor tensor;
    std::int64_t channels = 0;
    std::int64_t side = 0;
};

struct Kernel {
    std::int64_t size = 0;
    std::int64_t stride = 1;
    bool is_biased = false;
};

class ConvolutionTape {
  public:
    explicit ConvolutionTape(ModelInput const& input) : input_(input) {}

    Map pictures() {
        std::int64_t const elements = input_.batch * 3 * kPictureSide * kPictureSide;
        return {tape_.input(elements, input_.dtype), 3, kPictureSide};
    }

    /// Padded so that only its stride makes it smaller.
    Map convolution(std::string const& module, Map const& x, std::int64_t channels, Kernel kernel) {
        Map y{{}, channels, x.side / kernel.stride};
        std::int64_t const weights = x.channels * channels * kernel.size * kernel.size;
        bool const is_first = !tape_.tensors()[x.tensor.number].maker.has_value();
        y.tensor = tape_.add(
            {.module = module,
             .node = "ConvolutionBackward0",
             .inputs = {x.tensor},
             .saves = {{x.tensor, TensorClass::convolution_input}},
             .outputs = {{elements(y), input_.dtype}},
             .flop = 2.0 * static_cast<double>(input_.batch * y.side * y.side) *
                     static_cast<double>(weights),
             .backward_flops = is_first ? 1.0 : 2.0,  // pictures need no gradient
             .parameters = weights + (kernel.is_biased ? channels : 0)}
        );
        return y;
    }

    Map batch_norm(std::string const& module, Map const& x) {
        Map y = x;
        y.tensor = tape_.add(
            {.module = module,
             .node = "CudnnBatchNormBackward0",
             .inputs = {x.tensor},
             .saves = {{x.tensor, TensorClass::norm_input}},
             .outputs =
                 {{elements(x), input_.dtype},
                  {x.channels, kFloat32, TensorClass::statistics},
                  {x.channels, kFloat32, TensorClass::statistics}},
             .parameters = 2 * x.channels}
        );
        return y;
    }

    Map relu(std::string const& module, Map x) {
        x.tensor = add_relu(tape_, module, x.tensor, elements(x), /*is_in_place=*/true);
        return x;
    }

    /// Saves its input and where the largest were.
    Map max_pool(std::string const& module, Map const& x) {
        Map y{{}, x.channels, x.side / 2};
        y.tensor = tape_.add(
            {.module = module,
             .node = "MaxPool2DWithIndicesBackward0",
             .inputs = {x.tensor},
             .saves = {{x.tensor, TensorClass::other}},
             .outputs = {{elements(y), input_.dtype}, {elements(y), kInt64, TensorClass::index}}}
        );
        return y;
    }

    Map mean(std::string const& module, Map const& x) {
        Map y{{}, x.channels, 1};
        y.tensor = tape_.add(
            {.module = module,
             .node = "MeanBackward1",
             .inputs = {x.tensor},
             .outputs = {{elements(y), input_.dtype}}}
        );
        return y;
    }

    Map sum(std::string const& module, Map x, Map const& branch) {
        x.tensor = add_sum(tape_, module, x.tensor, branch.tensor, elements(x));
        return x;
    }

    /// As a picture of one pixel.
    Map linear(std::string const& module, Map const& x, std::int64_t out) {
        std::int64_t const in = x.channels * x.side * x.side;
        return {add_linear(tape_, module, x.tensor, input_.batch, in, out, true), out, 1};
    }
    Map dropout(std::string const& module, Map x) {
        x.tensor = add_dropout(tape_, module, x.tensor, elements(x), input_.dropout);
        return x;
    }
    Tape loss(Map const& x) {
        add_cross_entropy(tape_, x.tensor, input_.batch, kPictureClasses);
        return tape_;
    }

  private:
    [[nodiscard]] std::int64_t elements(Map const& map) const {
        return input_.batch * map.channels * map.side * map.side;
    }

    ModelInput const& input_;
    Tape tape_;
};

}  // namespace

Tape vgg16_tape(ModelInput const& input) {
    struct Stage {
        std::int64_t layers;
        std::int64_t channels;
    };
    ConvolutionTape m(input);
    Map x = m.pictures();
    std::int64_t number = 0;
    auto const next = [&number] { return "features." + std::to_string(number++); };
    for (Stage const stage : {Stage{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
        for (std::int64_t i = 0; i < stage.layers; ++i) {
            x = m.convolution(next(), x, stage.channels, {.size = 3, .is_biased = true});
            x = m.relu(next(), x);
        }
        x = m.max_pool(next(), x);
    }
    for (int i = 0; i < 6; i += 3) {
        x = m.linear("classifier." + std::to_string(i), x, 4096);
        x = m.relu("classifier." + std::to_string(i + 1), x);
        x = m.dropout("classifier." + std::to_string(i + 2), x);
    }
    return m.loss(m.linear("classifier.6", x, kPictureClasses));
}

namespace {

/// 1x1, 3x3 and 1x1 beside what goes past them.
Map add_bottleneck(
    ConvolutionTape& m,
    std::string const& at,
    Map const& x,
    std::int64_t channels,
    std::int64_t stride
) {
    Map y = m.convolution(at + ".conv1", x, channels, {.size = 1});
    y = m.relu(at + ".relu", m.batch_norm(at + ".bn1", y));
    y = m.convolution(at + ".conv2", y, channels, {.size = 3, .stride = stride});
    y = m.relu(at + ".relu", m.batch_norm(at + ".bn2", y));
    y = m.convolution(at + ".conv3", y, 4 * channels, {.size = 1});
    y = m.batch_norm(at + ".bn3", y);
    Map past = x;
    if (x.channels != 4 * channels) {
        past = m.convolution(at + ".downsample.0", x, 4 * channels, {.size = 1, .stride = stride});
        past = m.batch_norm(at + ".downsample.1", past);
    }
    // No module: that ends the block, and without a parameter a session cannot tell whose it is.
    return m.relu("", m.sum(at, past, y));
}

}  // namespace

Tape resnet_tape(std::int64_t const (&blocks)[4], ModelInput const& input) {
    ConvolutionTape m(input);
    Map x = m.convolution("conv1", m.pictures(), 64, {.size = 7, .stride = 2});
    x = m.max_pool("maxpool", m.relu("relu", m.batch_norm("bn1", x)));
    std::int64_t channels = 64;
    for (int stage = 0; stage < 4; ++stage) {
        for (std::int64_t i = 0; i < blocks[stage]; ++i) {
            std::string const at = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
            x = add_bottleneck(m, at, x, channels, stage > 0 && i == 0 ? 2 : 1);
        }
        channels *= 2;
    }
    return m.loss(m.linear("fc", m.mean("avgpool", x), kPictureClasses));
}

}  // namespace spillway
