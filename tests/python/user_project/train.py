# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Every public name of the package, as a script uses it that is checked by `mypy --strict`; never run."""

from pathlib import Path
from typing import Any

import spillway
import torch
from lightning.pytorch import Trainer as LightningTrainer
from spillway import BudgetError, Error, LibraryError, OptionError, Policy, Report, SpillwayWarning, StateError, TorchVersionError
from spillway.lightning import SpillwayCallback as LightningCallback
from spillway.transformers import SpillwayCallback as TrainerCallback
from transformers import Trainer


def train(model: torch.nn.Module, batches: list[torch.Tensor], scratch: Path) -> Report:
    optimizer = torch.optim.AdamW(model.parameters())
    session = spillway.session(
        model, device_budget="16GiB", host_budget=8 << 30, nvme=scratch, nvme_budget="50%", optimizer=optimizer,
        policy="qpo", lossy=True, codec="attention=affine8", nonfinite="refuse", min_tensor_bytes=4096,
    )
    for batch in batches:
        with session:
            loss: torch.Tensor = model(batch).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no types for it
        optimizer.step()
        session.step()
    why: str = session.explain("layers.0")
    session.timeline(scratch / "run.json")
    print(why)
    refusal: dict[str, Any] | None = session.last_refusal
    print(refusal["needed_bytes"] if refusal else "it fitted")
    report = session.report()
    session.close()
    return report


def typed(session: spillway.Session) -> None:
    session.start()
    session.stop()
    again: spillway.Session
    with session as again:
        print(again)


def read(report: Report) -> tuple[int, str, str]:
    fields: dict[str, Any] = dict(report)
    names: list[str] = [name for name in report if name in report]
    peak: int = report["device_peak_bytes"]
    print(len(report), names, fields, report.get("no_such_field"), list(report.items()))
    return peak, report.to_json(), report._repr_html_()


def choose() -> Policy:
    lossless: list[Policy] = [policy for policy in spillway.policies() if not policy.lossy and policy.moves]
    name: str = lossless[0].name
    print(name, lossless[0].what, lossless[0].paper, spillway.__version__)
    return lossless[0]


def careful(model: torch.nn.Module) -> str | None:
    try:
        spillway.session(model, device_budget=1 << 30)
    except BudgetError as error:
        option: str = error.option
        return option
    except OptionError as error:
        return error.option
    except (StateError, LibraryError, TorchVersionError, Error) as error:
        return str(error)
    except SpillwayWarning:
        return None
    return None


def callbacks(model: Any) -> None:
    lightning = LightningCallback(device_budget="16GiB", nvme="/scratch")
    LightningTrainer(callbacks=[lightning])
    trainer = TrainerCallback(device_budget="80%", host_budget="8GiB")
    Trainer(model, callbacks=[trainer])
    session: spillway.Session | None = lightning.session
    report: Report | None = trainer.report()
    print(session, report)
