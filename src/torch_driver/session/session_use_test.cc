// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/session_use.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace spillway {
namespace {

TEST(SessionUseTest, a_session_that_caps_from_its_opening_does_so_until_it_is_ended) {
    SessionUse use(true);
    EXPECT_TRUE(use.caps());
    use.lapse();
    EXPECT_TRUE(use.caps());
    use.end_cap();
    EXPECT_FALSE(use.caps());
}

TEST(SessionUseTest, what_has_lapsed_caps_only_while_it_is_in_use) {
    SessionUse use(false);
    use.enter(3);
    EXPECT_TRUE(use.is_entered());
    EXPECT_EQ(use.python_hooks(), 3U);
    use.leave();
    EXPECT_FALSE(use.end());
    EXPECT_TRUE(use.caps()) << "its graph may live";
    use.lapse();
    EXPECT_FALSE(use.caps());
    use.begin();
    EXPECT_TRUE(use.caps());
    EXPECT_FALSE(use.is_entered());
    EXPECT_FALSE(use.end());
    EXPECT_FALSE(use.caps());
    use.enter(0);
    use.leave();
    EXPECT_FALSE(use.end());
    EXPECT_TRUE(use.caps()) << "entering it ends the lapse";
}

TEST(SessionUseTest, the_last_use_after_the_owner_is_told_once) {
    SessionUse use(true);
    use.begin();
    use.begin();
    use.owner_gone();
    EXPECT_TRUE(use.caps());
    EXPECT_FALSE(use.end());
    EXPECT_TRUE(use.end());
    EXPECT_FALSE(use.caps());
}

TEST(SessionUseTest, a_fork_neither_caps_nor_records) {
    SessionUse use(true);
    use.enter(0);
    pid_t const child = fork();
    if (child == 0) {
        _exit(use.is_forked() && !use.caps() && !use.is_entered() && !use.end() ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(use.caps());
}

}  // namespace
}  // namespace spillway
