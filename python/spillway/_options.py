# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What is given as a session's options, checked for its type and written as the runtime reads it. Which options there are,
what they take and what they mean is the library's table (src/base/option_table.cc)."""

import contextlib
import difflib
import functools
import inspect
import json
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypedDict, TypeVar

import torch

from .errors import OptionError

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class _Required(TypedDict):
    device_budget: int | str


class Options(_Required, total=False):
    """Those of `spillway.session`, for who takes them as keywords and passes them on."""

    host_budget: int | str | None
    nvme: str | os.PathLike[str] | None
    nvme_budget: int | str | None
    nvme_allow_tmpfs: bool
    nvme_rate: int | str | None
    policy: str
    plan: str | os.PathLike[str] | None
    recompute: str
    states: str
    min_tensor_bytes: int | str | None
    lossy: bool
    codec: str | Mapping[str, str] | None
    nonfinite: str
    rounding_seed: int | None
    record_events: str | os.PathLike[str] | None
    flight_record: str | os.PathLike[str] | None
    timeline: str | os.PathLike[str] | None


class Option(NamedTuple):
    """One row of the table: `type` is a key of _READERS, `default` in words."""

    name: str
    type: str
    default: str
    help: str
    choices: list[str]


def options() -> list[Option]:
    """Those of `spillway.session`, in the order of its signature."""
    return [Option(*row) for row in torch.ops.spillway.options()]


def utf8(text: str) -> str:
    """A name or path may have bytes that are not UTF-8, which the runtime would not take."""
    return text.encode("utf-8", "backslashreplace").decode()


def _size(option: str, size: Any, examples: str = "'16GiB'") -> str | None:
    may_be_share = "%" in examples
    if isinstance(size, float) and may_be_share and 0 < size <= 1:
        raise OptionError(option, f"{size!r} is neither bytes nor a share; write '{size:.0%}' for a share")
    if isinstance(size, float):
        if not size.is_integer() or size == 1:
            whole = f"{size:.0f}, or " if math.isfinite(size) and size > 1 else ""
            raise OptionError(option, f"{size!r} is not a number of bytes; write {whole}a text like {examples}")
        size = int(size)  # 1e9
    if not isinstance(size, (bool, str, type(None))):
        with contextlib.suppress(TypeError):
            size = operator.index(size)  # numpy's integers, too
    if isinstance(size, bool) or not isinstance(size, (int, str, type(None))):
        raise OptionError(option, f"expected bytes, as an int or as a text like {examples}, got {size!r}")
    if isinstance(size, int) and size.bit_length() > 1000:
        raise OptionError(option, "the number is too large; a size is at most 9 EB")
    return None if size in (None, "") else utf8(str(size))


def _size_or_share(option: str, size: Any) -> str | None:
    return _size(option, size, "'16GiB' or '80%'")


def _integer(option: str, number: Any) -> int | None:
    if number is None:
        return None
    with contextlib.suppress(TypeError):
        if not isinstance(number, bool):
            whole = operator.index(number)
            if whole >= 2**63:
                raise OptionError(option, "the number is too large; the most is 2**63 - 1")  # which may have too many digits to show
            return whole
    raise OptionError(option, f"expected an integer, got {number!r}")


def _toggle(option: str, is_on: Any) -> bool:
    if not isinstance(is_on, bool):
        raise OptionError(option, f"expected True or False, got {is_on!r}")
    return is_on


def as_name(option: str, name: Any) -> str:
    if not isinstance(name, str):
        raise OptionError(option, f"expected a name, got {name!r}")
    return utf8(name)


def _path(what: str) -> Callable[[str, Any], str | None]:
    def read(option: str, path: Any) -> str | None:
        if path is None:
            return None
        if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
            raise OptionError(option, f"expected the path of a {what}, got {path!r}")
        if not os.fspath(path):
            raise OptionError(option, f"the path of the {what} is empty; leave the option out for no {what}")
        return os.path.expanduser(utf8_path(option, os.fspath(path)))

    return read


def utf8_path(option: str, path: str | bytes) -> str:
    path = os.fsdecode(path)
    if "\0" in path:
        raise OptionError(option, f"the path {path!r} has a null byte")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise OptionError(option, f"the path {path!r} has bytes that are not UTF-8, which is not supported; rename it") from None
    return path


def _codecs(option: str, codecs: Any) -> str | dict[str, str] | None:
    if codecs is None:
        return None
    if isinstance(codecs, str):
        return utf8(codecs)
    if not isinstance(codecs, Mapping):
        raise OptionError(option, f"expected a name or a mapping such as {{'attention': 'affine8'}}, got {codecs!r}")
    for tensor_class, codec in codecs.items():
        if not isinstance(tensor_class, str):
            raise OptionError(option, f"expected the name of a class of tensors, got {tensor_class!r}")
        if not isinstance(codec, str):
            raise OptionError(option, f"'{tensor_class}': expected the name of a codec, got {codec!r}")
    return {utf8(tensor_class): utf8(codec) for tensor_class, codec in codecs.items()}


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "bytes": _size, "share": _size_or_share, "rate": _size, "integer": _integer, "toggle": _toggle, "choice": as_name, "policy": as_name,
    "plan": _path("plan"), "codecs": _codecs, "folder": _path("folder"), "file": _path("file")}


def refuse_unknown(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Names the nearest option of the first that is none."""
    names = [name for name in known if name != "self"]
    for name in given:
        if name not in names:
            nearest = ([each for each in names if name in each] or difflib.get_close_matches(name, names)
                       or [each for each in names if each not in ("model", "step")])
            raise TypeError(f"{what} has no option {name!r}; it has {', '.join(nearest)}")


def refusing_unknown(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """As a decorator: what is given by a name that is no option is refused."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*given: _Given.args, **named: _Given.kwargs) -> _Result:
        refuse_unknown(f"{function.__name__}()", named, known)
        return function(*given, **named)

    return call


def refuse_unnamed(what: str, given: Sequence[Any]) -> None:
    """Where all but the first is given by name."""
    if len(given) > 1:
        budget = repr(given[1]) if isinstance(given[1], (int, str)) else "'16GiB'"
        raise TypeError(f"{what} takes all but the model by name, such as device_budget={budget}")


def read(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options in `given`, which may hold other names, too, as JSON can hold them; None: not given."""
    read_so_far = {option.name: _READERS[option.type](option.name, given[option.name]) for option in options()}
    if read_so_far["device_budget"] is None:
        raise OptionError("device_budget", f"expected bytes, such as '16GiB' or '80%', got {given['device_budget']!r}; to only "
                                           "measure what training takes, give more than it can take ('1TiB')")
    return read_so_far


def to_json(read_options: Mapping[str, Any], device: torch.device, rank: int) -> str:
    return json.dumps({**read_options, "device": str(device), "rank": rank})
