// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/outermost_scope.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace spillway {
namespace {

/// Counts itself while it is open.
class Counted {
  public:
    explicit Counted(int& open, bool fails = false) : open_(open) {
        if (fails) {
            throw std::runtime_error("as asked");
        }
        ++open_;
    }
    ~Counted() { --open_; }
    Counted(Counted const&) = delete;
    Counted& operator=(Counted const&) = delete;

  private:
    int& open_;
};

TEST(OutermostScopeTest, the_first_to_begin_is_open_until_it_ends) {
    int open = 0;
    OutermostScope<Counted> scope;
    scope.begin(open);
    scope.begin(open);
    EXPECT_EQ(open, 1);
    scope.end();
    EXPECT_EQ(open, 1);
    scope.end();
    EXPECT_EQ(open, 0);
    scope.end();  // of none
    scope.begin(open);
    EXPECT_EQ(open, 1);
}

TEST(OutermostScopeTest, one_that_fails_has_not_begun) {
    int open = 0;
    OutermostScope<Counted> scope;
    EXPECT_THROW(scope.begin(open, true), std::runtime_error);
    scope.begin(open);
    EXPECT_EQ(open, 1) << "it is the first";
    scope.end();
    EXPECT_EQ(open, 0);
}

TEST(OutermostScopeTest, all_end_at_once_and_ends_that_come_later_are_none) {
    int open = 0;
    OutermostScope<Counted> scope;
    scope.begin(open);
    scope.begin(open);
    scope.end_all();
    EXPECT_EQ(open, 0);
    scope.begin(open);
    EXPECT_EQ(open, 1);
}

}  // namespace
}  // namespace spillway
