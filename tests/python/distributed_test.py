# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes on gloo: DDP and FSDP2 under a budget give the gradients that they give without."""

import contextlib
import datetime
import os
import pathlib
import tempfile
import unittest

import torch
import torch.multiprocessing
from same_bits import Case, bits, noise, seeded
from torch import distributed
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import spillway

WIDTH, ROWS, BATCHES, SECONDS = 128, 1024, 4, 900


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def net():
    return seeded(lambda: torch.nn.Sequential(*[Block() for _ in range(4)]))


def replicated():
    return DistributedDataParallel(net(), bucket_cap_mb=1)


def replicated_with_views():
    return DistributedDataParallel(net(), gradient_as_bucket_view=True, static_graph=True)


class Recomputed(torch.nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


def replicated_and_recomputed():
    return DistributedDataParallel(torch.nn.Sequential(*map(Recomputed, net())), static_graph=True)


def sharded(**options):
    model = net()
    for block in model:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def sharded_bf16():
    return sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))


def kept_sharded():
    return sharded(reshard_after_forward=False)


KINDS = (replicated, replicated_with_views, replicated_and_recomputed, sharded, sharded_bf16, kept_sharded)
STEPS_WITH_A_PLAN = 4  # the third runs under it
MADE_AGAIN = (replicated, sharded, sharded_bf16)


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def train(model, around, rank, steps=2):
    """Some steps of two batches each; losses, gradients and parameters of this process."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen = []
    for step in range(steps):
        for batch in range(2):
            with around:
                loss = model(noise(ROWS, WIDTH, step=100 * rank + 10 * step + batch)).float().square().mean()
            loss.backward()
            seen += bits([loss])
        seen += bits(local(parameter.grad) for parameter in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
    return seen + bits(local(parameter) for parameter in model.parameters())


def under(kind, rank, budget, steps=2, **options):
    """The same in a session with this budget, and its report."""
    model = kind()
    session = spillway.session(model, device_budget=budget, **options)
    seen = train(model, session, rank, steps)
    report = session.report()
    session.close()
    return seen, report


def compare(kind, rank, folder):
    """What differs, as text; None when nothing does."""
    plain = train(kind(), contextlib.nullcontext(), rank)
    roomy, report = under(kind, rank, "1GiB", nvme=folder)
    budget = report["device_peak_bytes"] - report["saved_bytes"] // BATCHES // 4
    moved, report = under(kind, rank, budget, nvme=folder)
    if roomy != plain or moved != plain:
        return f"{sum(a != b for a, b in zip(plain, moved, strict=True))} of {len(plain)} tensors differ"
    if report["freed_bytes"] == 0 or report["loaded_bytes"] + report["recomputed_bytes"] == 0:
        return "nothing was moved"
    if report["device_peak_bytes"] > budget:
        return "over its budget"
    return made_again_differs(kind, rank, budget, plain) if kind in MADE_AGAIN else None


def made_again_differs(kind, rank, budget, plain):
    """The same where there is no place to move to."""
    made_again, report = under(kind, rank, budget)
    if made_again != plain:
        return f"{sum(a != b for a, b in zip(plain, made_again, strict=True))} of {len(plain)} tensors differ, made again"
    if report["recomputed_values"] == 0:
        return "nothing was made again"
    plain = train(kind(), contextlib.nullcontext(), rank, STEPS_WITH_A_PLAN)
    planned, report = under(kind, rank, "1GiB", STEPS_WITH_A_PLAN, policy="recompute_all")
    if planned != plain:
        return f"{sum(a != b for a, b in zip(plain, planned, strict=True))} of {len(plain)} tensors differ, under a plan"
    return None if report["recomputed_values"] > 0 else "nothing was made again under a plan"


def process(rank, folder):
    limit = datetime.timedelta(seconds=SECONDS)
    distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2, timeout=limit)
    for kind in KINDS:
        try:
            difference = compare(kind, rank, folder)
        except RuntimeError as error:
            difference = f"{type(error).__name__}: {error}"
        (pathlib.Path(folder) / f"{kind.__name__}.{rank}").write_text(difference or "same")
        if difference:
            break  # the other process may wait for this one
    distributed.destroy_process_group()


class Distributed(Case):
    def test_replicas_and_shards(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            both = torch.multiprocessing.spawn(process, (folder,), nprocs=2, join=False)
            try:
                if not both.join(timeout=SECONDS) and not both.join(timeout=10):  # one of them, the other
                    self.fail(f"not done in {SECONDS} s: {sorted(os.listdir(folder))}")
            finally:
                for each in both.processes:
                    each.kill()
            for kind in KINDS:
                for rank in range(2):
                    with self.subTest(kind=kind.__name__, rank=rank):
                        result = pathlib.Path(folder) / f"{kind.__name__}.{rank}"
                        self.assertEqual(result.read_text() if result.exists() else "not reached", "same")


if __name__ == "__main__":
    unittest.main()
