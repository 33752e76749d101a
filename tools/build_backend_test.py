# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What pip is told that the package requires; scikit-build-core, which only pip's environment has, is left out."""

import re
import sys
import types
import unittest
from unittest import mock

import sources

HOOKS = ("prepare_metadata_for_build_wheel", "get_requires_for_build_sdist", "build_sdist")
with mock.patch.dict(sys.modules, {"scikit_build_core": mock.Mock(build=types.SimpleNamespace(**dict.fromkeys(HOOKS)))}), \
        mock.patch.object(sys, "path", [str(sources.ROOT / "python"), *sys.path]):
    import build_backend


class Required(unittest.TestCase):
    def required(self, state: str, torch: str = "2.15.0") -> list[str]:
        requirement = build_backend.TorchRequirement()
        requirement.build_state(state)
        with mock.patch.object(build_backend, "torch_version", return_value=torch):
            return requirement.dynamic_metadata({}, {})["dependencies"]

    def test_a_wheel_requires_the_torch_that_is_there(self) -> None:
        for state in ("wheel", "metadata_wheel"):
            self.assertEqual(self.required(state, "2.13.1"), ["torch==2.13.1"])

    def test_sources_require_one_that_set_up_supports(self) -> None:
        script = (sources.ROOT / "tools/setup.sh").read_text()
        oldest, newest = (int(re.search(rf"k{which}Minor=(\d+)", script).group(1)) for which in ("Oldest", "Newest"))
        self.assertEqual(self.required("sdist"), [f"torch>=2.{oldest},<2.{newest + 1}"])

    def test_a_pre_release_stops_the_build_before_pip_would_replace_it(self) -> None:
        told = mock.Mock(returncode=1, stdout="", stderr="torch 2.13.0a0 is a pre-release, and a release is needed\n")
        with mock.patch.object(build_backend.subprocess, "run", return_value=told), \
                mock.patch.object(build_backend, "stop", side_effect=SystemExit) as stop, self.assertRaises(SystemExit):
            build_backend.torch_version()
        stop.assert_called_once_with("torch 2.13.0a0 is a pre-release, and a release is needed")


if __name__ == "__main__":
    unittest.main()
