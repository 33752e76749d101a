// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/torch_version.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(TorchVersion, the_torch_of_the_build_is_the_one_that_is_loaded) {
    EXPECT_EQ(loaded_torch_version(), built_torch_version());
    EXPECT_NO_THROW(refuse_another_torch());
}

TEST(TorchVersion, a_release_is_read_from_what_torch_writes) {
    EXPECT_EQ(release_in("import x\n__version__ = '2.15.0+cu130'\ndebug = False"), "2.15.0");
    EXPECT_EQ(release_in("__version__ = '2.11.0'"), "2.11.0");
    EXPECT_EQ(release_in("__version__ = 'unknown'"), std::nullopt);
    EXPECT_EQ(release_in(""), std::nullopt);
}

}  // namespace
}  // namespace spillway
