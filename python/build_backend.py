# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What `pip install .` calls: scikit-build-core, against the torch of the environment that is installed into.

pip builds in an environment of its own, in which there is no torch; Python's isolated mode does not see that
one, but the environment around it. So torch is not downloaded a second time.

Libraries that are not installed come from PyPI, where it has them: headers in a wheel that the build asks for,
and the C sources that Python bindings of xxhash and zstd bundle. CMake leaves the others out
(cmake/SpillwayDependencies.cmake). `-C cmake.define.SPILLWAY_SYSTEM_LIBRARIES=OFF` uses no installed one."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from scikit_build_core import build

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "build" / "sources"
SUPPORTED = range(11, 16)  # of torch 2
SYSTEM_LIBRARIES = "cmake.define.SPILLWAY_SYSTEM_LIBRARIES"

Config = dict[str, Any] | None


class Source(NamedTuple):
    """A C library whose sources the source distribution of a Python package bundles."""
    header: str
    package: str
    folder: str  # of the sources, in it
    debian: str


BUNDLED = {"xxhash": Source("xxhash.h", "xxhash==4.1.0", "deps/xxhash", "libxxhash-dev"),
           "zstd": Source("zstd.h", "zstandard==0.25.0", "zstd", "libzstd-dev")}


def stop(why: str) -> NoReturn:
    sys.stdout.flush()
    print(f"spillway: {why}", file=sys.stderr, flush=True)
    os._exit(1)  # no stack trace after the line


def torch_version() -> str:
    found = subprocess.run([sys.executable, "-I", str(ROOT / "tools" / "find_torch.py")],
                           capture_output=True, text=True, check=False)
    if found.returncode:
        if found.stderr:
            stop(found.stderr.strip())
        stop("there is no torch in this environment; install torch 2.11 to 2.15 into it first")
    version = found.stdout.split(";")[0]
    parts = re.match(r"2\.(\d+)\.", version)
    if parts is None or int(parts.group(1)) not in SUPPORTED:
        stop(f"torch {version} is installed, and torch 2.11 to 2.15 is needed")
    return version


class TorchRequirement:
    """The `dependencies` of pyproject.toml. `import spillway` refuses any torch but the one that it was built for, so a
    wheel requires that release (`==2.15.0` is satisfied by 2.15.0+cu130, too); the sources build for several."""

    def build_state(self, state: str) -> None:
        self.of_sources = state == "sdist"

    def dynamic_metadata(self, settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
        wanted = f">=2.{SUPPORTED.start},<2.{SUPPORTED.stop}" if self.of_sources else f"=={torch_version()}"
        return {"dependencies": [f"torch{wanted}"]}

    def dynamic_wheel(self, settings: Mapping[str, Any]) -> dict[str, bool]:
        """Which fields of a wheel may differ from those of its source distribution."""
        return {"dependencies": True}


def compiler() -> str:
    named = os.environ.get("CXX", "c++")
    if shutil.which(named) is None:
        stop(f"there is no C++ compiler ({named}); on Debian: apt-get install g++")
    return named


def is_installed(settings: dict[str, Any], header: str, library: str | None = None) -> bool:
    """Whether a program that includes it, and links it if it is more than headers, can be built."""
    if settings.get(SYSTEM_LIBRARIES) == "OFF":
        return False
    command = [compiler(), "-x", "c++", "-std=c++20", "-shared", "-fPIC", "-o", os.devnull, "-"]
    done = subprocess.run([*command, *([f"-l{library}"] if library else [])], input=f"#include <{header}>\n",
                          capture_output=True, text=True, check=False)
    return done.returncode == 0


def bring(name: str, source: Source) -> None:
    """Leaves the sources in SOURCES/name, by the pip of the environment that is installed into."""
    if (SOURCES / name / source.header).exists():
        return
    # A pip inside a pip's build: without the variables that the outer one sets for its child.
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PEP517", "_PYPROJECT"))}
    with tempfile.TemporaryDirectory() as scratch:
        package = source.package.partition("==")[0]
        done = subprocess.run([sys.executable, "-I", "-m", "pip", "download", "--disable-pip-version-check", "-q",
                               "--no-deps", "--no-binary", package, "-d", scratch, source.package],
                              capture_output=True, text=True, check=False, env=ours)
        archives = list(pathlib.Path(scratch).glob("*.tar.gz"))
        if done.returncode or not archives:
            print(done.stdout + done.stderr)  # `pip install -v` shows it
            stop(f"{name} is not installed, and pip does not bring its sources ({source.package}); "
                 f"on Debian: apt-get install {source.debian}")
        part = SOURCES / f"{name}.part"  # becomes `name` when all is there
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        with tarfile.open(archives[0]) as archive:
            for member in archive:
                if member.isfile() and pathlib.PurePath(member.name).parent.match(f"*/{source.folder}"):
                    member.name = pathlib.PurePath(member.name).name
                    archive.extract(member, part)
        shutil.rmtree(SOURCES / name, ignore_errors=True)
        part.rename(SOURCES / name)


def get_requires_for_build_wheel(config_settings: Config = None) -> list[str]:
    torch_version()
    compiler()
    required = build.get_requires_for_build_wheel(config_settings)
    if not is_installed(config_settings or {}, "nlohmann/json.hpp"):
        required.append("nlohmann-json>=3.11")
    return required


def build_wheel(folder: str, config_settings: Config = None, metadata: str | None = None) -> str:
    settings = dict(config_settings or {})
    print(f"spillway: compiling for torch {torch_version()}; this takes minutes", flush=True)  # `pip install -v` shows it
    settings["cmake.define.SPILLWAY_PYTHON"] = sys.executable
    settings["cmake.define.SPILLWAY_SOURCES"] = str(SOURCES)
    for name, source in BUNDLED.items():
        if not is_installed(settings, source.header, name):
            bring(name, source)
    headers = importlib.util.find_spec("nlohmann_json")
    if headers is not None and headers.submodule_search_locations:
        kept = SOURCES / "json"  # pip's own folder has another name each time, and ninja would start afresh
        shutil.copytree(pathlib.Path(headers.submodule_search_locations[0]) / "include", kept, dirs_exist_ok=True)
        settings["cmake.define.SPILLWAY_json_INCLUDE"] = str(kept)
    return build.build_wheel(folder, settings, metadata)


prepare_metadata_for_build_wheel = build.prepare_metadata_for_build_wheel
get_requires_for_build_sdist = build.get_requires_for_build_sdist
build_sdist = build.build_sdist
