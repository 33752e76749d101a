# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import pathlib
import unittest

import check_readme

README = """
```sh
$ make demo   # the main job
make test TORCH=2.11.0
build/bin/spillway train \\
  --steps 2
ls
```
```text
make nothing
```
"""


class CheckReadme(unittest.TestCase):
    def test_commands_of_shell_blocks(self) -> None:
        self.assertEqual(check_readme.commands(README), [
            "make demo   # the main job", "make test TORCH=2.11.0",
            "build/bin/spillway train    --steps 2"])

    def test_targets(self) -> None:
        known = check_readme.targets(".PHONY: demo\ndemo: build ## x\n.PHONY: test other\n")
        self.assertEqual(check_readme.unknown_targets("make demo   # the main job", known), [])
        self.assertEqual(check_readme.unknown_targets("make test nope TORCH=1 -j2", known), ["nope"])

    def test_links(self) -> None:
        text = "[a](there.md) [b](gone.md#x) [c](https://example.org) [d](#here)"
        root = pathlib.Path(__file__).parent
        self.assertEqual(check_readme.broken_links("p.md", text.replace("there.md", "check.py"), root),
                         ["p.md: link to gone.md leads nowhere"])


if __name__ == "__main__":
    unittest.main()
