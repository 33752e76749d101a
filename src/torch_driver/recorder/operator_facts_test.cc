// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/operator_facts.h"

#include "torch_driver/recorder/call_recorder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cstdint>
#include <memory>
#include <string>

namespace spillway {
namespace operator_facts_test {
namespace {

using at::Tensor;

/// As a kernel does that is no operator.
Tensor doubled(Tensor const& x) {
    Tensor result = at::empty_like(x);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
        result.mutable_data_ptr<float>()[i] = 2 * x.const_data_ptr<float>()[i];
    }
    return result;
}

void write_it(Tensor x) {
    x.add_(1);
}

TORCH_LIBRARY(spillway_facts_test, library) {
    library.def("doubled(Tensor x) -> Tensor");
    library.def("doubled.into(Tensor x, Tensor(a!) out) -> ()");
    library.def("write_it(Tensor(a!) x) -> ()");
    library.def("draw(Tensor x) -> Tensor", {at::Tag::nondeterministic_seeded});
    library.def("draw_from(Tensor x, Generator? rng) -> Tensor");
}

TORCH_LIBRARY_IMPL(spillway_facts_test, CompositeExplicitAutograd, library) {
    library.impl("doubled", &doubled);
    library.impl("write_it", &write_it);
}

Tensor call_doubled(Tensor const& x) {
    static auto const handle =
        c10::Dispatcher::singleton().findSchemaOrThrow("spillway_facts_test::doubled", "");
    return handle.typed<Tensor(Tensor const&)>().call(x);
}

std::string why_not(std::string const& name) {
    Result<void> const allowed = allow_recompute_of(name);
    return allowed.ok() ? "" : allowed.error().what;
}

TEST(AllowedOperators, one_of_another_library_makes_nothing_until_it_is_allowed) {
    auto recorder = std::make_shared<CallRecorder>(true);
    CallRecording const recording(recorder);
    Tensor const x = at::ones({4});
    Tensor const before = call_doubled(x);
    auto const content = [&](Tensor const& tensor) {
        return recorder->content_of(tensor.storage().unsafeGetStorageImpl());
    };
    EXPECT_FALSE(content(before)->maker);
    EXPECT_EQ(content(before)->why, NoMaker::external) << "empty made it";
    EXPECT_EQ(why_not("spillway_facts_test::doubled"), "");
    EXPECT_EQ(why_not("spillway_facts_test::doubled"), "") << "a second time is as well";
    Tensor const after = call_doubled(x);
    ASSERT_TRUE(content(after)->maker);
    EXPECT_EQ(content(after)->maker->facts.replay, Replay::costly);
    ASSERT_EQ(content(after)->maker->tensors.size(), 1u);
    EXPECT_EQ(content(after)->maker->tensors[0].content, content(x));
    EXPECT_FALSE(content(x)->is_written) << "what is allowed does not write";
}

TEST(AllowedOperators, what_writes_or_draws_or_is_not_there_is_refused_with_the_reason) {
    EXPECT_EQ(
        why_not("spillway_facts_test::write_it"),
        "spillway_facts_test::write_it cannot be run again: it writes to its arguments"
    );
    EXPECT_EQ(
        why_not("spillway_facts_test::draw"),
        "spillway_facts_test::draw cannot be run again: it draws random numbers"
    );
    EXPECT_NE(why_not("spillway_facts_test::draw_from").find("draws"), std::string::npos);
    EXPECT_NE(why_not("c10d::allreduce_").find("communicates"), std::string::npos);
    EXPECT_NE(why_not("aten::mm").find("PyTorch's"), std::string::npos);
    for (char const* const name : {"", "mm", "no_library::nothing", "spillway_facts_test::"}) {
        EXPECT_NE(why_not(name).find("there is no such operator"), std::string::npos) << name;
    }
}

}  // namespace
}  // namespace operator_facts_test
}  // namespace spillway
