# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""FSDP2, a budget in each process:

    torchrun --standalone --nproc-per-node 2 examples/fsdp2.py --device-budget 22MiB --nvme build
    torchrun --standalone --nproc-per-node 2 examples/fsdp2.py --device cuda --device-budget 1GiB --nvme /scratch
"""

import argparse
import contextlib
import os

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import spillway


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def sharded(layers: int, width: int, device: str) -> nn.Module:
    torch.manual_seed(1)
    model = nn.Sequential(*[Block(width) for _ in range(layers)]).to(device)
    mesh = init_device_mesh(device, (distributed.get_world_size(),))
    for block in model:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device-budget", help="bytes of device memory of a process; absent: train plainly")
    parser.add_argument("--nvme", help="a folder on a disk, for what does not fit")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: %(default)s")
    for name, default in (("steps", 10), ("layers", 6), ("width", 128), ("batch", 1024)):
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    return parser.parse_args()


def train(chosen: argparse.Namespace) -> None:
    if chosen.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = sharded(chosen.layers, chosen.width, chosen.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    session = None
    if chosen.device_budget:
        session = spillway.session(model, device_budget=chosen.device_budget,
                                   nvme=chosen.nvme)
    rank = distributed.get_rank()
    torch.manual_seed(100 + rank)
    for step in range(1, chosen.steps + 1):
        x = torch.randn(chosen.batch, chosen.width).to(chosen.device)
        with session or contextlib.nullcontext():
            loss = (model(x) - x.roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank}, step {step}: loss {loss.item():.9f}", flush=True)
    if session:
        print(f"rank {rank}\n{session.report()}", flush=True)
        session.close()


def main() -> None:
    chosen = options()
    distributed.init_process_group("nccl" if chosen.device == "cuda" else "gloo")
    try:
        train(chosen)
    finally:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
