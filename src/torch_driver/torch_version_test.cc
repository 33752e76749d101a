// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/torch_version.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace spillway {
namespace {

TEST(TorchVersion, the_torch_of_the_build_is_the_one_that_is_loaded) {
    EXPECT_EQ(loaded_torch_version(), built_torch_version());
    EXPECT_NO_THROW(refuse_another_torch(built_torch_version()));
}

TEST(TorchVersion, another_torch_is_refused_with_both_versions) {
    try {
        refuse_another_torch("2.0.1");
        FAIL() << "any torch would do";
    } catch (std::runtime_error const& error) {
        std::string const words = error.what();
        EXPECT_NE(
            words.find("is for torch 2.0.1, and torch " + built_torch_version()), std::string::npos
        ) << words;
    }
}

TEST(TorchVersion, a_release_is_read_from_what_torch_writes) {
    EXPECT_EQ(release_in("import x\n__version__ = '2.15.0+cu130'\ndebug = False"), "2.15.0");
    EXPECT_EQ(release_in("__version__ = '2.11.0'"), "2.11.0");
    EXPECT_EQ(release_in("__version__ = 'unknown'"), std::nullopt);
    EXPECT_EQ(release_in(""), std::nullopt);
}

}  // namespace
}  // namespace spillway
