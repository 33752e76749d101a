# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""check_locks on made-up sources: planted violations are found, and what is right has no fault."""

import pathlib
import shutil
import tempfile
import unittest

import check_locks
import sources

GOOD = """
#include "memory/account.h"
void Account::add(int count) {
    spillway::MutexLock const lock(mutex_);
    changed_.wait(mutex_, [this]() SPILLWAY_REQUIRES(mutex_) { return sum_ >= 0; });
    add_more(count);
    { spillway::MutexUnlock const unlocked(mutex_); look(); }
    sum_ += count;
}
void Account::add_more(int count) { sum_ += count; }
void Account::look() { spillway::MutexLock const lock(mutex_); }
"""
HEADER = """
#pragma once
#include "base/mutex.h"
class Account {
  public:
    void add(int count) SPILLWAY_EXCLUDES(mutex_);
    void look() SPILLWAY_EXCLUDES(mutex_);
    void add_more(int count) SPILLWAY_REQUIRES(mutex_);
  private:
    spillway::Mutex mutex_;
    spillway::ConditionVariable changed_;
    int sum_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};
"""


class Locks(unittest.TestCase):
    def setUp(self) -> None:
        if shutil.which(check_locks.CLANG) is None:
            self.skipTest(f"{check_locks.CLANG} is not here")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/base/mutex.h", (sources.ROOT / "src/base/mutex.h").read_text())
        self.write("src/memory/account.h", HEADER)
        self.write("src/memory/account.cc", GOOD)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def faults_with(self, old: str, new: str) -> str:
        self.assertIn(old, GOOD)
        self.write("src/memory/account.cc", GOOD.replace(old, new, 1))
        return "\n".join(check_locks.check(self.root))

    def test_what_keeps_its_contracts_has_no_fault(self) -> None:
        self.assertEqual(check_locks.check(self.root), [])

    def test_a_guarded_member_without_its_lock_is_found(self) -> None:
        faults = self.faults_with("    spillway::MutexLock const lock(mutex_);\n    changed_", "    changed_")
        self.assertIn("account.cc", faults)
        self.assertIn("requires holding mutex 'mutex_'", faults)
        unlocked = self.faults_with("look(); }\n    sum_ += count;", "look(); sum_ += count; }")
        self.assertIn("'sum_' requires holding mutex 'mutex_'", unlocked)

    def test_a_function_that_locks_is_not_called_with_the_lock(self) -> None:
        self.assertIn("cannot call function 'look'", self.faults_with("    add_more(count);", "    look();"))

    def test_a_predicate_says_that_it_needs_the_lock(self) -> None:
        self.assertIn("'sum_' requires holding mutex", self.faults_with("SPILLWAY_REQUIRES(mutex_) {", "{"))

    def test_a_source_that_does_not_compile_is_a_fault(self) -> None:
        self.assertIn("error:", self.faults_with("sum_ += count;", "sums_ += count;"))

    def test_a_mutex_of_std_is_a_fault_and_its_mention_is_none(self) -> None:
        self.write("src/tier/own.h", "// no std::mutex\nstatic std::mutex guard;\n")
        self.assertEqual(check_locks.check(self.root),
                         ["src/tier/own.h:2: `std::mutex` is not checked; use base/mutex.h"])
        self.write("src/tier/own.h", "using Turn = std::unique_lock<std::recursive_timed_mutex>;\n")
        self.write("src/torch_driver/own.h", "static std::mutex guard;\n")
        self.write("src/tier/own_test.cc", "static std::mutex guard;\n")
        self.assertEqual(check_locks.check(self.root), [])

    def test_only_what_has_a_mutex_is_compiled(self) -> None:
        self.write("src/memory/other.h", '#include "memory/account.h"\n')
        self.write("src/tier/apart.cc", '#include "memory/other.h"\n')
        self.write("src/tier/own.cc", '#include "base/mutex.h"\n')
        self.write("src/tier/alone.h", '#pragma once\n' + HEADER.replace("Account", "Alone"))
        self.assertEqual(check_locks.units(self.root),
                         ["src/memory/account.cc", "src/tier/alone.h", "src/tier/own.cc"])
        self.assertEqual(check_locks.check(self.root), [])


if __name__ == "__main__":
    unittest.main()
