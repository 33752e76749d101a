# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a session tells: reports, the split of the peak, explain, owned bytes, timelines."""

import json
import pathlib
import re
import unittest
import xml.etree.ElementTree

import spillway
import torch
from torch.testing._internal.two_tensor import TwoTensor

from small_training import WIDTH, Train, batch, model


class Reports(Train):
    def test_a_report_is_a_table_and_json(self):
        net = model()
        session = self.open(net)
        with session:
            net(batch(0)).square().mean().backward()
        report = session.report()
        self.assertIn("stored on NVMe", str(report))
        page = report._repr_html_()
        self.assertTrue(page.startswith("<table"), page)
        self.assertIn(">stored on NVMe</td>", page)
        self.assertEqual(xml.etree.ElementTree.fromstring(page).tag, "table")  # every tag is closed, all else escaped
        self.assertGreater(json.loads(report.to_json())["stored_bytes"], 0)
        session.close()
        self.assertGreaterEqual(session.report()["stored_bytes"], report["stored_bytes"])  # what was under way has ended

    def split_of_peak(self, net: torch.nn.Module, batch_of, optimizer: torch.optim.Optimizer,
                      inside: bool = True) -> dict[str, int]:
        session = self.open(net, "1GiB")
        for step in range(3):
            with session:
                loss = net(batch_of(step)).square().mean()
                if inside:
                    loss.backward()
            if not inside:
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        report = session.report()
        session.close()
        split = report["device_peak_split"]
        self.assertEqual(sum(split.values()), report["device_peak_bytes"])
        self.assertEqual(split["parameters"], sum(p.nbytes for p in net.parameters()))
        self.modules = {row["module"]: row["bytes"] for row in report["device_peak_saved_by_module"]}
        self.assertEqual(sum(self.modules.values()), split["saved"])
        self.assertIn("peak     parameters", str(report))
        self.assertEqual(repr(report), str(report))
        with self.assertRaisesRegex(spillway.OptionError, "module: expected a path such as 'layers.0', got a Sequential"):
            session.explain(net)
        return split

    def trace_of(self, net: torch.nn.Module, budget: str, **options) -> tuple[dict, spillway.Report]:
        optimizer = torch.optim.Adam(net.parameters())
        session = self.open(net, budget, **options)
        file = pathlib.Path(self.folder) / "trace.json"
        session.trace(file)
        for step in range(3):
            with session:
                loss = net(batch(step)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        session.close()
        return json.loads(file.read_text()), session.report()

    def test_a_trace_has_the_steps_peak_and_all_that_it_saved(self):
        trace, report = self.trace_of(model(), "1GiB", recompute="on")
        self.assertEqual(trace["name"], "step 2")
        live = peak = 0
        for point in trace["points"]:
            live += sum(trace["values"][value]["size_bytes"] for value in point.get("saved", []))
            peak = max(peak, live + point["floor_bytes"])
            live -= sum(trace["values"][value]["size_bytes"] for value in point.get("dropped", []))
        self.assertEqual(live, 0)
        self.assertEqual(peak, report["device_peak_bytes"])
        self.assertEqual([point["phase"] for point in trace["points"] if point.get("saved")], ["forward"] * len(trace["values"]))
        self.assertEqual({point["phase"] for point in trace["points"]}, {"forward", "backward", "update"})
        needed = [value for point in trace["points"] for value in point.get("needed", [])]
        self.assertEqual(sorted(set(needed)), list(range(len(trace["values"]))))
        self.assertIn("4", {value.get("module") for value in trace["values"]})
        for value in trace["values"]:
            self.assertNotEqual("recipe" in value, "why_no_recipe" in value, value)
        self.assertGreater(sum(point["duration_ns"] for point in trace["points"]), 0)

    def test_a_trace_under_a_budget_names_the_same_tensors(self):
        free, _ = self.trace_of(model(), "1GiB")
        tight, report = self.trace_of(model(), "16MiB")
        self.assertGreater(report["stored_bytes"] + report["recomputed_bytes"], 0)
        for field in ("slot", "size_bytes", "kind"):
            self.assertEqual([value[field] for value in tight["values"]], [value[field] for value in free["values"]])

    def test_a_trace_that_cannot_be_written_is_refused_at_once(self):
        session = self.open(model(), "1GiB")
        with self.assertRaisesRegex(spillway.OptionError, "trace: 'no/such': cannot write the trace"):
            session.trace("no/such")
        session.trace(pathlib.Path(self.folder) / "one")
        with self.assertRaisesRegex(spillway.OptionError, "not done yet"):
            session.trace(pathlib.Path(self.folder) / "two")

    def test_the_peak_of_large_activations_is_split_by_module(self):
        net = model()
        split = self.split_of_peak(net, batch, torch.optim.SGD(net.parameters(), lr=0.1))
        self.assertGreaterEqual(split["saved"], 11 << 20)
        self.assertLess(split["other"], 5 << 20)  # the batch, and what backward begins with
        self.assertGreaterEqual(self.modules["4"], 1 << 20, self.modules)

    def test_the_peak_of_an_optimizers_step_has_gradients_and_state(self):
        torch.manual_seed(1)
        net = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4)))
        small = torch.randn(8, 1024)
        for inside in (True, False):
            split = self.split_of_peak(net, lambda _: small, torch.optim.AdamW(net.parameters(), foreach=True), inside)
            self.assertEqual(split["gradients"], split["parameters"])
            self.assertAlmostEqual(split["optimizer_state"], 2 * split["parameters"], delta=4096)

    def test_gradients_of_a_backward_are_told_apart_and_those_of_other_models_are_not_this_ones(self):
        torch.manual_seed(1)
        net = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4)))
        other = torch.nn.Linear(1024, 1024)
        small = torch.randn(8, 1024)
        other(small).sum().backward()
        sgd = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
        split = self.split_of_peak(net, lambda _: small, sgd)
        self.assertGreater(split["gradients"], split["parameters"] // 2)
        self.assertLessEqual(split["gradients"], split["parameters"])

    def test_explain_names_the_place_and_the_reason(self):
        net = model()
        session = self.open(net)
        with session:
            loss = net(batch(0)).square().mean()
        loss.backward()
        text = session.explain()
        self.assertRegex(text, r"(?m)^2 +2\.weight, saved for the gradient of linear's input +256\.0 KiB +kept: belongs to the model")
        self.assertRegex(text, r"(?m)^2 +input of linear \(output of gelu\), saved for its weight's gradient +1\.0 MiB +(moved to NVMe, came back|dropped, made again: gelu of addmm's result, 1 operator)")
        self.assertRegex(text, r"saved tensors, .* MiB, of which .* MiB left the device$")
        self.assertLess(len(session.explain("2").splitlines()), len(text.splitlines()))
        self.assertIn("no tensor saved in the last forward is known to belong to '1'", session.explain("1"))  # a GELU has no parameters
        with self.assertRaisesRegex(spillway.OptionError, "has no 'layers.3'"):
            session.explain("layers.3")

    def test_owned_bytes_are_told_by_kind(self):
        net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH))
        adam = torch.optim.Adam(net.parameters())
        with spillway.session(net, device_budget="64MiB") as session:
            loss = net(batch(0)).square().mean()
        loss.backward()
        adam.step()
        with session:
            net(batch(1))
        weights = 4 * (WIDTH * WIDTH + 3 * WIDTH)
        self.assertEqual(session._runtime.owned_bytes(), {
            "parameter": weights, "gradient": weights, "buffer": 4 * 2 * WIDTH + 8,
            "optimizer_state": 2 * weights + 4 * 4})
        session.close()

    def roles(self, net: torch.nn.Module, forward) -> str:
        """What `explain` says of a forward that is a loss, without places, bytes and fates."""
        session = self.open(net, "64MiB", min_tensor_bytes=1)
        with session:
            loss = forward()
        loss.backward()
        roles = re.findall(r"(?m)^\S+ +(\S.*?, saved for .*?)  +\d", session.explain())
        session.close()
        return "\n".join(roles)

    def test_explain_names_each_tensors_role(self):
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.norm = torch.nn.Embedding(64, 32), torch.nn.LayerNorm(32)
                self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 64)
                self.drop = torch.nn.Dropout(0.5)

            def forward(self, tokens):
                x = self.embed(tokens)
                x = x + self.embed.weight[0]
                q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
                y = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
                return self.out(self.drop(torch.tanh(y)))

        for _ in range(20):  # which all watch this thread's operators
            self.open(model())
        net, tokens = Block(), torch.zeros(4, 8, dtype=torch.long)
        told = self.roles(net, lambda: torch.nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten()))
        for role in ("indices of embedding, saved for its backward",
                     "input of layer_norm (output of add), saved for its backward",
                     "norm.weight, saved for the backward of layer_norm",
                     "statistics of layer_norm, saved for its backward",
                     "input of linear (output of layer_norm), saved for its weight's gradient",
                     "qkv.weight, saved for the gradient of linear's input",
                     "input of scaled_dot_product_attention (output of linear), saved for its backward",
                     "output of scaled_dot_product_attention, saved for its backward",
                     "statistics of scaled_dot_product_attention, saved for its backward",
                     "output of tanh, saved for its backward",
                     "mask of dropout, saved for its backward",
                     "input of linear (output of dropout), saved for its weight's gradient",
                     "output of log_softmax in cross_entropy_loss, saved for its backward",
                     "indices of nll_loss in cross_entropy_loss, saved for its backward",
                     "statistics of nll_loss in cross_entropy_loss, saved for its backward"):
            self.assertIn(role, told.splitlines(), told)
        self.assertNotIn("Backward0", told)

    def test_explain_knows_casts_and_functions(self):
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return 2 * x

            @staticmethod
            def backward(ctx, gradient):
                return 2 * gradient

        net = torch.nn.Linear(32, 32)

        def forward():
            with torch.autocast("cpu", torch.bfloat16):
                return Doubled.apply(net(torch.ones(4, 32, requires_grad=True)).float()).relu().sum()

        told = self.roles(net, forward)
        for role in ("cast of weight, saved for the gradient of linear's input",
                     "input of Doubled (cast of output of linear), saved for its backward",
                     "output of relu, saved for its backward"):
            self.assertIn(role, told.splitlines(), told)

    def test_explain_names_the_class_of_what_a_function_is_to_get_back(self):
        class Scaled(torch.Tensor):
            pass

        class Keeps(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight):
                ctx.save_for_backward(x, weight)
                return torch.ones(len(x))

            @staticmethod
            def backward(ctx, gradient):
                x, weight = ctx.saved_tensors
                return torch.ones(x.shape), torch.ones(weight.shape)

        net = torch.nn.Linear(32, 32)
        net.weight = torch.nn.Parameter(net.weight.detach().as_subclass(Scaled))
        for kind in (lambda x: x.as_subclass(Scaled), lambda x: TwoTensor(x, x), lambda x: x):
            session = self.open(net, "64MiB", min_tensor_bytes=1)
            with session:
                x = kind(torch.randn(1024, 32) * 1).requires_grad_()
                y = Keeps.apply(x, net.weight).sum()
            y.backward()
            text, name = session.explain(), type(x).__name__
            session.close()
            with self.subTest(name):
                self.assertRegex(text, r"(?m) 4\.0 KiB  kept: belongs to the model")
                self.assertRegex(text, r"(?m)tensor of Keeps, saved for its backward +128\.0 KiB  kept: " +
                                 ("it fits in the budget$" if name == "Tensor" else
                                  rf"its class is {name}, which the Function that saved it may read$"))
                self.assertRegex(text, r"2 saved tensors, 132\.0 KiB")

    def test_a_timeline_is_written_when_it_is_asked_for(self):
        net = model()
        session = self.open(net)
        for step in range(2):
            with session:
                loss = net(batch(step)).square().mean()
            loss.backward()
        file = pathlib.Path(self.folder) / "x.json"
        session.timeline(file)
        names = {event["name"] for event in json.loads(file.read_text())["traceEvents"]}
        self.assertTrue(any("store" in name for name in names), names)
        with self.assertRaises(spillway.OptionError):
            session.timeline(self.folder)


if __name__ == "__main__":
    unittest.main()
