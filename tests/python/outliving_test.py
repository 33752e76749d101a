# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What outlives a session, and what a session outlives: workers, hundreds of graphs, other threads."""

import contextlib
import gc
import os
import pathlib
import threading
import unittest
import warnings
import weakref

import same_bits
import spillway
import torch

ROWS = 512


class _Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, row: int) -> torch.Tensor:
        return same_bits.noise(ROWS, step=row)


def bytes_of_deleted_files(process: int, folder: str) -> int:
    """On the disk, of files without a name that the process has open below `folder`."""
    total = 0
    for link in pathlib.Path(f"/proc/{process}/fd").iterdir():
        try:
            if os.readlink(link).startswith(folder):
                total += link.stat().st_blocks * 512
        except FileNotFoundError:
            continue  # closed meanwhile
    return total


class Records(torch.autograd.Function):
    """Doubles, and saves its own output, after it recorded a graph in its forward."""

    @staticmethod
    def forward(context, x):
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            inner.square().sum()
        context.save_for_backward(doubled := x * 2)
        return doubled

    @staticmethod
    def backward(context, gradient):
        return gradient * context.saved_tensors[0]


class Outliving(same_bits.Case):
    def test_workers_that_live_on_keep_no_bytes_of_a_closed_session(self):
        x = same_bits.noise(ROWS, ROWS).requires_grad_()
        session = self.open(torch.nn.Linear(2, 2), "12MiB")
        with session:
            y = x
            for _ in range(24):
                y = y.sin()
        loader = torch.utils.data.DataLoader(_Rows(), num_workers=2, persistent_workers=True)
        batches = iter(loader)  # the workers are forked while blocks are on the disk
        workers = [worker.pid for worker in batches._workers]
        next(batches)
        folder = os.path.realpath(self.folder)
        self.assertGreater(min(bytes_of_deleted_files(worker, folder) for worker in workers), 1 << 20)
        y.sum().backward()
        session.close()
        del y
        self.assertEqual([bytes_of_deleted_files(worker, folder) for worker in workers], [0, 0])
        self.assertEqual(len(list(batches)), 7, "the workers go on")

    def test_tensors_that_are_given_other_data_go_with_their_graphs(self):
        """Also where others refer weakly to them: `retain_grad`, autocast's cache, what a Function saves of its own."""
        def replaced(kind: str) -> list[weakref.ref[torch.Tensor]]:
            model = torch.nn.Linear(ROWS, ROWS)
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
                with recording:
                    hidden = model(same_bits.noise(8, ROWS))
                    if kind == "records":
                        hidden = Records.apply(hidden)
                    else:
                        hidden.retain_grad()
                    loss = hidden.square().sum()
                tensors = [hidden, *model.parameters()]
                views = [tensor.detach() for tensor in tensors]
                for tensor in tensors:
                    tensor.data = tensor.data.clone()
                if kind != "records":
                    loss.backward()
            del views
            return [weakref.ref(tensor) for tensor in tensors]

        session = self.open(torch.nn.Linear(2, 2), "12MiB", min_tensor_bytes=1)
        for recording in (session, contextlib.nullcontext()):
            for kind in ("retained", "autocast", "records"):
                with self.subTest(kind=kind, recording=recording):
                    held = replaced(kind)
                    gc.collect()
                    self.assertEqual([tensor() is None for tensor in held], [True] * len(held))
            session.close()

    def test_a_function_s_output_that_is_given_other_data_counts_as_it_was_saved(self):
        """As in plain autograd, where the output is not saved itself."""
        def gradient(recording: contextlib.AbstractContextManager) -> torch.Tensor:
            x = same_bits.noise(ROWS, ROWS).requires_grad_()
            with recording:
                out = Records.apply(x)
            out.data = torch.zeros_like(out)
            out.sum().backward()
            return x.grad

        session = self.open(torch.nn.Linear(2, 2), "12MiB", min_tensor_bytes=1)
        self.assertTrue(torch.equal(gradient(session), gradient(contextlib.nullcontext())))

    def test_three_hundred_sessions_with_a_graph_of_each(self):
        model = same_bits.seeded(lambda: torch.nn.Linear(ROWS, 8))
        losses = []
        for step in range(300):
            session = spillway.session(model, device_budget="64MiB", host_budget="1MiB", min_tensor_bytes=1)
            with session:
                losses.append(model(same_bits.noise(4, ROWS, step=step)).sin().sum())
            session.close()
        torch.stack(losses).sum().backward()
        seen = same_bits.gradients(model)
        model.zero_grad()
        torch.stack([model(same_bits.noise(4, ROWS, step=step)).sin().sum() for step in range(300)]).sum().backward()
        self.assertEqual(seen, same_bits.gradients(model))

    def test_a_forward_in_another_thread_is_told_of(self):
        model = torch.nn.Linear(ROWS, ROWS)
        session = self.open(model, "64MiB")
        with session:
            other = threading.Thread(target=lambda: model(torch.ones(ROWS, ROWS)).sum().backward())
            other.start()
            other.join()
        with self.assertWarnsRegex(spillway.SpillwayWarning, "on the thread that entered it"):
            session.report()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            session.report()  # once

    def test_what_a_compiled_backward_computes_with_is_not_written_in_vain(self):
        torch._dynamo.reset()

        def wide(x: torch.Tensor) -> torch.Tensor:
            products = [x.sin() * (x > i / 8).float() for i in range(6)]
            return torch.stack(products).sum(0)

        compiled = torch.compile(wide, backend="aot_eager")
        x = same_bits.noise(ROWS, ROWS).requires_grad_()
        session = self.open(torch.nn.Linear(2, 2), "14MiB")
        with session:
            y = x
            for _ in range(5):
                y = compiled(y)
            loss = y.sum()
        loss.backward()
        report = session.report()
        seen = same_bits.bits([x.grad])
        session.close()
        x.grad = None
        y = x
        for _ in range(5):
            y = compiled(y)
        y.sum().backward()
        self.assertEqual(seen, same_bits.bits([x.grad]))
        self.assertGreater(report["freed_bytes"], 1 << 20)
        self.assertEqual(report["kept_by_others_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
