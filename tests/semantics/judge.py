# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""How a result becomes bits, and how a system's outcome is held against plain autograd's."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import torch
from case import IDLE, LOUD, MEMORY, NONE, OLD, PASS, WRONG, Case, Held, NotApplicable, Outcome, Subject, System


def bits(result: Any) -> list[str]:
    """One word for each value of a result: equal words, equal bits."""
    if isinstance(result, torch.Tensor):
        return [_tensor_bits(result.detach())]
    if isinstance(result, (list, tuple)):
        return [word for item in result for word in bits(item)]
    if isinstance(result, dict):
        return [word for key in sorted(result) for word in bits(result[key])]
    return [repr(result)]


def _tensor_bits(tensor: torch.Tensor) -> str:
    if tensor.is_nested:
        return "nested " + " ".join(_tensor_bits(part) for part in tensor.unbind())
    if tensor.layout == torch.sparse_coo:
        whole = tensor.coalesce()
        return f"sparse {tuple(tensor.shape)} {_tensor_bits(whole.indices())} {_tensor_bits(whole.values())}"
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    plain = tensor.resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    data = plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return f"{tensor.dtype} {tuple(tensor.shape)} {_size(plain)}:{hashlib.sha256(data).hexdigest()[:16]}"


def _size(tensor: torch.Tensor) -> str:
    """The norm and a weighted sum, to three digits: where both agree, two results differ by rounding."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return ""
    wide = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).to(torch.float64).reshape(-1)
    norm = wide.norm().item()
    along = torch.dot(wide, torch.arange(wide.numel(), dtype=torch.float64).square().cos()).item()
    return f"{norm:.3g} {along / norm if norm else 0:.2f}"


def _rounded(words: list[str] | None) -> list[str]:
    return [word.partition(":")[0] for word in words or []]


def first_line(error: BaseException) -> str:
    words = (str(error).strip().splitlines() or [""])[0]
    return re.sub(r"0x[0-9a-f]+", "...", f"{type(error).__name__}: {words}")[:160]


@dataclass(frozen=True)
class Reference:
    """What plain autograd does in a case: a result, or an error; and the result without the write."""
    bits: list[str] | None
    error: str
    unwritten: list[str] | None = None
    missing: str = ""  # why this torch or device cannot pose the case


def _result(case: Case, subject: Subject) -> tuple[list[str] | None, str]:
    try:
        return bits(case.run(subject)), ""
    except (NotApplicable, Held):
        raise
    except Exception as error:  # noqa: BLE001 - the error is the result
        return None, first_line(error) if case.raises not in str(error) else case.raises or first_line(error)


def reference(case: Case, plain: System) -> Reference:
    """Fails  with ValueError where plain autograd does not do what the case says."""
    try:
        got, error = _result(case, Subject(plain))
    except NotApplicable as reason:
        return Reference(None, "", missing=str(reason))
    if case.raises != error:
        raise ValueError(f"{case.name}: plain autograd: {error or 'no error'}")
    unwritten = _result(case, Subject(plain, write=False))[0] if case.raises else None
    return Reference(got, error, unwritten)


def judged(case: Case, system: System, expected: Reference) -> Outcome:
    """Runs a case under a system and holds it against plain autograd."""
    if expected.missing:
        return Outcome(NONE, expected.missing)
    before = system.moved_bytes()
    try:
        got, error = _result(case, Subject(system))
    except NotApplicable as reason:
        return Outcome(NONE, str(reason))
    except Held as held:
        return Outcome(MEMORY, str(held))
    after = system.moved_bytes()
    if error and error != expected.error:
        return Outcome(LOUD, error)
    if expected.error and not error:
        if got == expected.unwritten:
            return Outcome(OLD, "does not raise; uses the value from before the write")
        return Outcome(WRONG, "does not raise; " + ("wrong gradient" if expected.unwritten else "goes on"))
    if got != expected.bits:
        if case.wrong.startswith(MEMORY):
            return Outcome(MEMORY, case.wrong.removeprefix(MEMORY).lstrip(": "))
        rounding = _rounded(got) == _rounded(expected.bits)
        return Outcome(WRONG, "differs by rounding" if rounding else case.wrong)
    if (case.moves or system.skips_idle) and before is not None and after == before:
        return Outcome(NONE if system.skips_idle else IDLE, "nothing left the device")
    return Outcome(PASS)
