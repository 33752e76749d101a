# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The options of a session: the signature and the docstring are those of the library's table, each value reaches the
runtime, and what cannot be is named."""

import ast
import inspect
import json
import os
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

import spillway
import torch
from spillway._callback import Training
from spillway._options import Option, Options as GivenOptions, options

import same_bits

WIDTH = 256
ANNOTATIONS: dict[str, object] = {
    "bytes": int | str | None, "share": int | str | None, "rate": int | str | None, "integer": int | None, "toggle": bool, "choice": str, "policy": str,
    "plan": str | os.PathLike[str] | None, "codecs": str | Mapping[str, str] | None, "folder": str | os.PathLike[str] | None, "file": str | os.PathLike[str] | None}


def default_of(option: Option) -> object:
    if option.default == "required":
        return inspect.Parameter.empty
    return ast.literal_eval(option.default) if option.type in ("toggle", "choice", "policy") else None


class Table(same_bits.Case):
    def test_the_signature_is_the_tables(self):
        table = {option.name: option for option in options()}
        types = typing.get_type_hints(spillway.Session.__init__)
        arguments = {name: argument for name, argument in inspect.signature(spillway.session).parameters.items()
                     if name not in ("model", "optimizer")}
        self.assertEqual(list(arguments), list(table))
        for name, option in table.items():
            with self.subTest(option=name):
                self.assertEqual(arguments[name].default, default_of(option))
                self.assertEqual(arguments[name].kind, inspect.Parameter.KEYWORD_ONLY)
                wanted = ANNOTATIONS[option.type]
                self.assertEqual(types[name], int | str if option.default == "required" else wanted)
                self.assertIn(option.type in ("choice", "policy"), (bool(option.choices),))

    def test_callbacks_take_the_same(self):
        def arguments(kind: type) -> list[inspect.Parameter]:
            return [argument for name, argument in inspect.signature(kind).parameters.items()
                    if name not in ("model", "optimizer")]

        self.assertEqual(arguments(Training), arguments(spillway.Session))
        types = typing.get_type_hints(spillway.Session.__init__)
        self.assertEqual(typing.get_type_hints(GivenOptions), {option.name: types[option.name] for option in options()})
        self.assertEqual(GivenOptions.__required_keys__, {"device_budget"})

    def test_callbacks_refuse_what_a_session_refuses_at_once(self):
        for wrong, words in (({"device_buget": 1}, "device_bu"), ({}, "device_budget"),
                             ({"device_budget": 1, "optimizer": None}, "optimizer")):
            with self.subTest(wrong), self.assertRaisesRegex(TypeError, words):
                Training(**wrong)

    def test_the_docstring_is_the_tables(self):
        told = " ".join(spillway.Session.__doc__.replace('"', "").split())
        for option in options():
            with self.subTest(option=option.name):
                self.assertIn(f"{option.name}: {option.help} [{option.default}].".replace('"', ""), told)


class Options(same_bits.Case):
    def model(self, layers: int = 6) -> torch.nn.Module:
        return same_bits.seeded(lambda: torch.nn.Sequential(
            *[layer for _ in range(layers) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]))

    def step(self, all_leave: bool = False, **given: Any) -> tuple[list[torch.Tensor], spillway.Report]:
        """`all_leave`: all that can leave has left before the backward, so that no time decides what a codec changes."""
        model = self.model()
        session = self.open(model, "12MiB", **given)
        with session:
            loss = model(same_bits.noise(1024, WIDTH)).square().mean()
            if all_leave:
                with self.assertRaises(torch.OutOfMemoryError):
                    torch.empty(12 << 20, dtype=torch.uint8)
        loss.backward()
        report = session.report()
        del loss
        session.close()
        return [parameter.grad for parameter in model.parameters()], report

    def test_every_option_reaches_the_runtime(self):
        plain, _ = self.step()
        record, timeline = (pathlib.Path(self.folder) / name for name in ("events", "timeline.json"))
        flight = pathlib.Path(self.folder) / "flight"
        gradients, report = self.step(
            host_budget="64MiB", nvme_budget="1GiB", nvme_allow_tmpfs=True, nvme_rate="100GB", policy="online", recompute="on",
            min_tensor_bytes="512KiB", lossy=False, codec=None, nonfinite="keep", rounding_seed=3, record_events=record,
            flight_record=flight, timeline=timeline)
        for one, other in zip(gradients, plain, strict=True):
            self.assertTrue(torch.equal(one, other))
        self.assertGreater(report["stored_bytes"], 0)
        self.assertGreater(record.stat().st_size, 0)
        self.assertFalse(flight.exists() and flight.read_text(), "no step failed")
        self.assertIn("traceEvents", json.loads(timeline.read_text()))

    def test_smaller_tensors_stay(self):
        _, report = self.step(min_tensor_bytes=0)
        self.assertGreater(report["stored_bytes"], 0)
        model = self.model()
        with self.open(model, "12MiB", min_tensor_bytes="2MiB"), self.assertRaises(torch.OutOfMemoryError):
            model(same_bits.noise(1024, WIDTH))

    def test_a_rate_slows_the_drive_down(self):
        _, report = self.step(nvme_rate="10MB")
        self.assertGreater(report["store_busy_ns"], report["stored_bytes"] * 50)

    def test_a_seed_makes_runs_round_alike(self):
        lossy: dict[str, Any] = {"all_leave": True, "recompute": "off", "lossy": True, "codec": "affine4:stochastic"}
        (one, _), (same, _), (other, _) = (self.step(rounding_seed=seed, **lossy) for seed in (1, 1, 2))
        self.assertTrue(all(map(torch.equal, one, same)))
        self.assertFalse(all(map(torch.equal, one, other)))

    def test_codecs_by_class_are_those_of_the_text(self):
        lossy: dict[str, Any] = {"all_leave": True, "recompute": "off", "lossy": True, "rounding_seed": 1}
        as_text, _ = self.step(codec="linear_input=affine8:group=64,activation_input=nf4", **lossy)
        mapped, report = self.step(codec={"linear_input": "affine8:group=64", "activation_input": "nf4"}, **lossy)
        self.assertTrue(all(map(torch.equal, as_text, mapped)))
        codecs = {row["tensor_class"]: row["codec"] for row in report["codecs"]}
        self.assertEqual(codecs, {"linear_input": "affine8:group=64", "activation_input": "nf4"})
        exact, _ = self.step(codec={})
        self.assertTrue(all(map(torch.equal, exact, self.step()[0])))

    def refused(self, words: str, **given: Any) -> None:
        with self.subTest(**given), self.assertRaises(spillway.OptionError) as raised:
            self.open(self.model(1), "12MiB", **given)
        self.assertIn(words, str(raised.exception))
        self.assertEqual(len(str(raised.exception).splitlines()), 1)
        self.assertIn(raised.exception.option, given)

    def test_codecs_that_cannot_be_name_the_class(self):
        for codec, words in (({"attention": "affine9"}, "codec: 'attention': affine9: no such codec"),
                             ({"attention": "affine8,other=nf4"}, "codec: 'attention': "),
                             ({"attention": 4}, "codec: 'attention': expected the name of a codec, got 4"),
                             ({4: "nf4"}, "codec: expected the name of a class of tensors, got 4"),
                             ({"weights": "nf4"}, "codec: 'weights': 'weights' is not a class of tensors"),
                             ({"": "nf4"}, "codec: '': "),
                             ({"index": "nf4"}, "codec: 'index': "),
                             (["nf4"], "codec: expected a name or a mapping such as {'attention': 'affine8'}, got ['nf4']")):
            self.refused(words, lossy=True, codec=codec)
        self.refused("codec: 'attention=affine8' cannot be used: ", codec={"attention": "affine8"})

    def test_values_of_another_type_are_named(self):
        for option in options():
            if option.name == "device_budget":
                continue
            self.refused(f"{option.name}: ", **{option.name: object()})
            if option.type in ("folder", "file", "plan"):
                self.refused(f"{option.name}: the path of the {option.type} is empty", **{option.name: ""})
            if option.type in ("bytes", "share", "rate"):
                self.refused(f"{option.name}: 'much' is not a size", **{option.name: "much"})
                self.refused(f"{option.name}: expected bytes", **{option.name: True})
            if option.type == "integer":
                self.refused(f"{option.name}: expected an integer", **{option.name: True})
                self.refused(f"{option.name}: ", **{option.name: -5})
            if option.type in ("choice", "policy"):
                self.refused(f"{option.name}: unknown ", **{option.name: "zero"})
                self.refused(f"{option.name}: expected a name, got None", **{option.name: None})
            if option.type == "plan":
                self.refused(f"{option.name}: '/no/such/file': No such file or directory", **{option.name: "/no/such/file"})
            if option.type == "file":
                self.refused(f"{option.name}: '/no/such/folder/file': there is no folder '/no/such/folder' to put it in",
                             **{option.name: "/no/such/folder/file"})

    def test_what_needs_a_folder_says_so(self):
        for option in ("nvme_budget", "nvme_rate"):
            self.refused(f"{option}: it needs nvme=, which is not set", nvme=None, **{option: "1GiB"})


if __name__ == "__main__":
    same_bits.unittest.main()
