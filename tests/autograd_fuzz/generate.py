# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a random program from one seed, with random.Random alone: shapes and dtypes are followed here, roughly. A
statement that turns out impossible raises, and must raise the same everywhere."""

import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

from . import functions, operators
from .program import Leaf, Program, Step

FLOATS = ("float32", "float32", "float32", "float64", "bfloat16", "float16")
HALVES = ("bfloat16", "float16")
RANK = ("bool", "int64", "bfloat16", "float16", "float32", "float64", "complex64")


@dataclasses.dataclass
class Value:
    name: int
    shape: tuple[int, ...]
    dtype: str = "float32"
    grad: bool = True
    leaf: bool = False

    @property
    def floats(self) -> bool:
        return self.dtype not in ("bool", "int64")

    @property
    def real(self) -> bool:
        return self.floats and self.dtype != "complex64"

    @property
    def many(self) -> bool:
        return 0 < len(self.shape) and 0 not in self.shape


def count(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    longest = max(len(a), len(b))
    a, b = (1,) * (longest - len(a)) + a, (1,) * (longest - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
        return None
    return tuple(x if y == 1 else y for x, y in zip(a, b, strict=True))


def takes(function: str, x: Value, y: Value) -> bool:
    """Not a leaf that a Function gives as a gradient: `autograd.grad` gives that very leaf, under any hooks an alias."""
    return function != "ReturnsWhatItSaved" or (x.grad and y.grad and not x.leaf and not y.leaf)


class Generator:
    """`scope` is what a statement may use; each maker appends its statement to `steps`, or does nothing."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.names = 0
        self.leaves: list[Leaf] = []
        self.steps: list[Step] = []
        self.scope: list[Value] = []
        self.looked: list[Value] = []  # what nodes have saved, as Python holds it
        self.hold = self.rng.random() < 0.1  # every result to the end
        self.depth = 0
        self.rows, self.columns = self.rng.choice([(130, 128), (144, 130), (257, 64)])
        # Where two threads go through one graph: shared random numbers, writes in backward, a retained `.grad`, to
        # which torch adds without a lock.
        self.races = False
        self.write_rate = self.rng.choice([0, 0, 0.1, 0.4, 1])  # many writes leave few backwards that succeed
        self.wild_rate = self.rng.choice([0, 0.02, 0.05])

    def name(self) -> int:
        self.names += 1
        return self.names

    def leaf(self, shape: tuple[int, ...], dtype: str = "float32", **options: Any) -> Value:
        grad = options.pop("grad", self.rng.random() < 0.75) and dtype not in ("bool", "int64")
        layout = "transposed" if len(shape) > 1 and self.rng.random() < 0.1 else "plain"
        leaf = Leaf(self.name(), list(shape), dtype, grad, layout, seed=self.names, **options)
        self.leaves.append(leaf)
        value = Value(leaf.name, shape, dtype, grad, leaf=True)
        if self.depth == 0:
            self.scope.append(value)
        return value

    def emit(self, op: str, args: list[Value], results: list[tuple[tuple[int, ...], str]] = (),
             grad: bool | None = None, body: list[Step] = (), **attrs: Any) -> list[Value]:
        if not attrs.get("under_no_grad", True):
            del attrs["under_no_grad"]
        needs = any(arg.grad for arg in args) if grad is None else grad
        outs = [Value(self.name(), shape, dtype, needs and dtype not in ("bool", "int64"))
                for shape, dtype in results]
        self.steps.append(Step(op, [arg.name for arg in args], [out.name for out in outs], attrs, list(body)))
        self.scope += outs
        return outs

    def some(self, fits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """One that fits, later ones more often; now and then any at all."""
        shaped = [value for value in self.scope if value.shape]
        if shaped and self.rng.random() < self.wild_rate:
            return self.rng.choice(shaped)
        found = [value for value in self.scope if fits(value)]
        if not found:
            return None
        return found[-1 - min(int(self.rng.expovariate(0.3)), len(found) - 1)]

    # Makers of statements, each with its share below.

    def unary(self) -> None:
        if x := self.some(lambda v: v.floats and v.many):
            off = self.rng.random() < 0.06
            self.emit(self.rng.choice(list(operators.UNARY)), [x], [(x.shape, x.dtype)], under_no_grad=off,
                      grad=x.grad and not off)

    def binary(self) -> None:
        kinds = "real" if self.rng.random() < 0.9 else "floats"
        x = self.some(lambda v: getattr(v, kinds))
        if x is None:
            return
        y = self.some(lambda v: getattr(v, kinds) and broadcast(x.shape, v.shape) is not None)
        if y is None:
            return
        shape = broadcast(x.shape, y.shape) or x.shape
        dtype = max(x.dtype, y.dtype, key=RANK.index)
        op = self.rng.choice(list(operators.BINARY))
        shape = () if op in ("mse", "smooth_l1", "bce", "huber", "dist") else shape
        shape = shape[:-1] if op == "cosine" else shape
        self.emit(op, [x, y], [(shape, dtype)])

    def reduce(self) -> None:
        if x := self.some(lambda v: v.real and v.many and len(v.shape) > 1):
            op = self.rng.choice(list(operators.REDUCE))
            shape = {"sum": (), "mean": (), "norm": (), "std": (), "sum_rows": x.shape[1:],
                     "sort_values": x.shape, "topk": (*x.shape[:-1], 2)}.get(op, x.shape[:-1])
            self.emit(op, [x], [(shape, x.dtype)])

    def normal(self) -> None:
        if x := self.some(lambda v: v.real and v.many and len(v.shape) > 1):
            if x.dtype == "float32" and self.rng.random() < 0.3:
                size = (x.shape[-1],)
                if self.rng.random() < 0.5:
                    self.emit("affine", [x, self.leaf(size), self.leaf(size)], [(x.shape, x.dtype)])
                else:
                    self.races |= self.depth > 0
                    size = (x.shape[min(1, len(x.shape) - 1)],)
                    running = [self.leaf(size, grad=False), self.leaf(size, grad=False)]
                    self.emit("batch_norm_running", [x, *running], [(x.shape, x.dtype)])
            else:
                self.emit(self.rng.choice(list(operators.NORMAL)), [x], [(x.shape, x.dtype)])

    def multiply(self) -> None:
        x = self.some(lambda v: v.real and len(v.shape) == 2)
        if x is None:
            return
        kind = self.rng.choice(
            ["matmul", "linear", "linear", "addmm", "gram", "einsum", "outer", "attention"])
        inner = x.shape[-1] if x.shape else 3
        width = self.rng.choice([self.columns, self.columns, 5])
        if kind in ("gram", "attention"):
            if max(x.shape) > 4096:  # its square would be gigabytes
                return
            self.emit(kind, [x], [((inner, inner) if kind == "gram" else (1, *x.shape), x.dtype)])
            return
        shape = (inner, width) if kind in ("matmul", "addmm") else (width, inner)
        w = self.some(lambda v: v.shape == shape and v.dtype == x.dtype) or self.leaf(shape, x.dtype)
        result = [((*x.shape[:-1], width), x.dtype)]
        if kind == "linear":
            bias = [self.leaf((width,), x.dtype)] if self.rng.random() < 0.5 else []
            self.emit("linear", [x, w, *bias], result)
        elif kind == "addmm":
            self.emit("addmm", [self.leaf((width,), x.dtype), x, w], result)
        else:
            self.emit(kind, [x, w], result if kind != "outer" else [((128, 130), x.dtype)])

    def image(self) -> None:
        x = self.some(lambda v: v.dtype == "float32" and len(v.shape) == 4 and min(v.shape) > 1)
        if x is None:
            x = self.leaf((2, 4, 64, 36))
        op = self.rng.choice(
            ["conv2d", "conv2d", "max_pool", "avg_pool", "interpolate", "channels_last", "group_norm"])
        n, c, h, w = x.shape if len(x.shape) == 4 else (1, 1, 2, 2)
        if op == "conv2d":
            bias = [self.leaf((4,))] if self.rng.random() < 0.5 else []
            self.emit(op, [x, self.leaf((4, c, 3, 3)), *bias], [((n, 4, h, w), x.dtype)])
        elif op == "interpolate" and count(x.shape) > 40000:
            return
        else:
            size = {"max_pool": (n, c, h // 2, w // 2), "avg_pool": (n, c, h // 2, w // 2),
                    "interpolate": (n, c, 2 * h, 2 * w)}.get(op, x.shape)
            self.emit(op, [x], [(size, x.dtype)])

    def index(self) -> None:
        x = self.some(lambda v: v.real and v.many and len(v.shape) == 2 and min(v.shape) > 8)
        if x is None:
            return
        i = self.some(lambda v: v.dtype == "int64") or self.leaf((x.shape[0] & ~1,), "int64", high=8)
        op = self.rng.choice(list(operators.INDEX))
        rows = i.shape[0] if i.shape else 1
        shape = {"cross_entropy": (), "take": i.shape, "embedding_bag": (2, *x.shape[1:]),
                 "gather": (rows, *x.shape[1:]),
                 "index_add": x.shape, "scatter_add": x.shape, "index_put": x.shape, "index_fill": x.shape}
        self.emit(op, [x, i], [(shape.get(op, (rows, *x.shape[1:])), x.dtype)])

    def drop_out(self) -> None:
        if x := self.some(lambda v: v.real and v.many):
            op = self.rng.choice(["dropout", "dropout", "alpha_dropout", "mask_dropout"])
            self.races |= op != "mask_dropout"
            seed = {"seed": self.rng.randrange(1000)} if op == "mask_dropout" else {}
            self.emit(op, [x], [(x.shape, x.dtype)], p=self.rng.choice([0.1, 0.5]), **seed)

    def join(self) -> None:
        if x := self.some(lambda v: v.real and v.many):
            y = self.some(lambda v: v.shape == x.shape) or x
            op = self.rng.choice(["cat", "stack"])
            shape = (2 * x.shape[0], *x.shape[1:]) if op == "cat" else (2, *x.shape)
            if x.shape and count(shape) < 80000:
                self.emit(op, [x, y], [(shape, max(x.dtype, y.dtype, key=RANK.index))])

    def view(self) -> None:
        x = self.some(lambda v: v.many)
        if x is None or not x.shape:
            return
        first, rest, last = x.shape[0], x.shape[1:], x.shape[-1]
        shapes = [(count(x.shape),), (first, count(rest)), (1, *x.shape)]
        if len(x.shape) == 2:
            shapes.append((first, last // 2, 2))
        shape = self.rng.choice(shapes)
        order = list(range(len(x.shape)))
        self.rng.shuffle(order)
        turned = tuple(x.shape[d] for d in order)
        swapped = (last, *x.shape[1:-1], first) if len(x.shape) > 1 else x.shape
        half = (first + 1) // 2
        strided = (min(64, count(x.shape) // 4), 2)
        makers: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
            ("narrow", [(max(first - 2, 1), *rest)], {"dim": 0, "start": min(1, first - 1),
            "length": max(first - 2, 1)}),
            ("narrow", [(*x.shape[:-1], max(last - 2, 1))], {"dim": -1, "start": 0,
            "length": max(last - 2, 1)}),
            ("transpose", [swapped], {}), ("transpose", [swapped], {}),
            ("reshape", [shape], {"shape": list(shape)}),
            ("view", [shape], {"shape": list(shape)}), ("permute", [turned], {"order": order}),
            ("expand", [(2, *x.shape)], {"shape": [2, *x.shape]}), ("select", [rest], {"dim": 0}),
            ("as_strided", [strided], {"shape": list(strided), "stride": [2, 1], "offset": 1}),
            ("diagonal", [(min(x.shape[:2]),)], {}), ("alias", [x.shape], {}),
            ("unsqueeze", [(1, *x.shape)], {}),
            ("chunk", [(half, *rest), (first - half, *rest)], {"dim": 0}),
            ("split", [(half, *rest), (first - half, *rest)], {"sizes": [half, first - half]}),
            ("unbind", [rest, rest], {}), ("squeeze", [rest if first == 1 else x.shape], {}),
            ("pad", [(*x.shape[:-1], last + 3)], {}), ("unfold", [(*x.shape[:-1], last // 2, 2)], {}),
            ("view_dtype", [x.shape], {}), ("repeat", [(2 * first, *rest)], {}),
            ("masked_select", [(1,)], {}), ("nonzero_mask", [(1,)], {})]
        op, results, attrs = self.rng.choice(makers)
        if op not in ("repeat", "expand") or count(x.shape) < 30000:
            self.emit(op, [x], [(result, x.dtype) for result in results], **attrs)

    def cast(self) -> None:
        if x := self.some(lambda v: v.many):
            if x.dtype == "complex64":
                op = self.rng.choice(["real", "imag", "abs", "view_as_real"])
                self.emit(op, [x], [((*x.shape, 2) if op == "view_as_real" else x.shape, "float32")])
            elif self.rng.random() < 0.1:
                self.emit("bool_mask", [x], [(x.shape, "bool")])
            elif x.dtype == "float32" and self.rng.random() < 0.2:
                self.emit("complex", [x], [(x.shape, "complex64")])
            else:
                dtype = self.rng.choice([*FLOATS, "float32", "float32", "int64"])
                self.emit("to", [x], [(x.shape, dtype)], dtype=dtype)

    def function(self) -> None:
        x = self.some(lambda v: v.floats and v.many)
        if x is None:
            return
        y = self.some(lambda v: v.floats and v.shape == x.shape and v.name != x.name)
        if y and self.rng.random() < 0.3:
            name = self.rng.choice([name for name in functions.WITH_TWO if takes(name, x, y)])
            shape = () if name == "ReturnsWhatItSaved" else x.shape
            self.emit("function", [x, y], [(shape, x.dtype)], name=name)
            return
        names = [name for name in functions.WITH_ONE if not name.startswith("Raises")]
        raises = self.rng.random() < 0.08
        name = self.rng.choice(["RaisesForward", "RaisesBackward"] if raises else names)
        self.races |= name in ("WritesSaved", "WritesUnseen", "SwapsWhatItUnpacked", "SwapsItsInput")
        results = [(x.shape, x.dtype)] * (2 if name == "TwoOutputs" else 1)
        self.emit("function", [x], results, name=name)

    def transform(self) -> None:
        if x := self.some(lambda v: v.dtype == "float32" and v.many):
            op = self.rng.choice(["func_grad", "func_jvp", "func_vjp", "vmap", "zeros_like"])
            self.emit(op, [x], [(x.shape, x.dtype)])

    def write(self) -> None:
        if self.rng.random() > self.write_rate:
            return
        x = self.some(lambda v: v.floats and (not v.leaf or self.rng.random() < 0.1))
        if x is None:
            return
        self.races |= self.depth > 0
        off = {"no_grad": True} if self.rng.random() < 0.2 else {}
        if self.rng.random() < 0.3:
            if y := self.some(lambda v: v.floats and v.shape == x.shape):
                self.emit(self.rng.choice(list(operators.INPLACE_PAIR)), [x, y], **off)
        else:
            self.emit(self.rng.choice(list(operators.INPLACE)), [x], **off)

    def hook(self) -> None:
        # Not in a body: a checkpoint under any hooks is given another tensor for its leaf when it runs again.
        if x := self.some(lambda v: v.grad) if self.depth == 0 else None:
            kinds = ["half", "see", "removed", *(["accumulated"] if x.leaf else ["node", "before_node"])]
            kind = "raise" if self.rng.random() < 0.05 else self.rng.choice(kinds)
            if x.leaf and self.rng.random() < 0.2:
                kind = "update"  # an optimizer's step as soon as the gradient is there
                self.races = True
            if self.rng.random() < 0.2 and not x.leaf:
                self.races = True
                self.emit("retain_grad", [x])
            elif self.rng.random() < 0.25 and not x.leaf:
                self.emit("peek", [x])
            else:
                self.emit("hook", [x], kind=kind)

    def refill(self) -> None:
        """A new batch in the tensor of the old one: before backward plain autograd mostly refuses."""
        if x := self.some(lambda v: v.leaf and not v.grad and v.real and v.many) if self.depth == 0 else None:
            self.races = True
            self.emit("refill", [x], seed=self.rng.randrange(1000))

    def look(self) -> None:
        """At what a node has saved; and at what was looked at before, which is written so that no version counts it."""
        if self.depth > 0:
            return
        if self.looked and self.rng.random() < 0.6:
            kind = self.rng.choice(["add", "read", "storage", "array"])
            self.races |= kind in ("add", "array")
            self.emit("touch", [self.rng.choice(self.looked)], kind=kind)
        elif x := self.some(lambda v: v.grad and not v.leaf):
            (found,) = self.emit("look", [x], [(x.shape, x.dtype)], which=self.rng.randrange(4))
            self.scope.remove(found)
            self.looked.append(found)

    def unseen(self) -> None:
        """Writes that no version counts, and other data; now and then beside something else that knows of the tensor."""
        if self.depth > 0:
            return
        self.races = True
        if self.rng.random() < 0.2:
            self.swap_in_autocast()
        elif x := self.some(lambda v: v.floats and v.many):
            kind = self.rng.choice(["add", "storage", "swap", "swap", "turn"])
            if kind in ("swap", "turn") and x.grad and not x.leaf and self.rng.random() < 0.3:
                self.emit("retain_grad", [x])
            self.emit("touch", [x], kind=kind)

    def swap_in_autocast(self) -> None:
        """Its cache knows of the weight while the weight is given other data."""
        if x := self.some(lambda v: v.dtype == "float32" and v.many and len(v.shape) == 2):
            w = self.leaf((self.columns, x.shape[-1] if x.shape else 3))
            out = Value(self.name(), (x.shape[0] if x.shape else 1, self.columns), "bfloat16", x.grad or w.grad)
            body = [Step("linear", [x.name, w.name], [out.name]), Step("touch", [w.name], attrs={"kind": "swap"})]
            self.emit("region", [x, w], [(out.shape, out.dtype)], grad=out.grad, body=body, gives=[out.name],
                      name=self.name(), kind="autocast")

    def fork(self) -> None:
        if self.depth == 0 and self.rng.random() < 0.1:
            self.emit("fork", [])

    def region(self) -> None:
        if self.depth >= 3 or not self.scope:
            return
        checkpoint = self.rng.random() < 0.6
        outer, steps = self.scope, self.steps
        found = [self.some(lambda v: v.floats and v.many) for _ in range(self.rng.randint(1, 2))]
        args = [x for x in found if x]
        if not args:
            return
        unique = list({x.name: x for x in args}.values())
        # Sees its arguments; now and then what lies around it, too. Not if it is reentrant: where it gives a
        # tensor from around it as its result, plain autograd's backward never ends.
        around = self.rng.random() < 0.3
        self.scope, self.steps = list(outer if around else unique), []
        before = len(self.scope)
        self.depth += 1
        self.statements(self.rng.randint(1, 5))
        self.depth -= 1
        made, body = [v for v in self.scope[before:] if v.floats], self.steps
        self.scope, self.steps = outer, steps
        if not made:
            return
        gives = made[-1:] if self.rng.random() < 0.7 else made[-2:]
        attrs: dict[str, Any] = {"gives": [v.name for v in gives], "name": self.name()}
        if checkpoint:
            attrs |= {"reentrant": not around and self.rng.random() < 0.55,
                      "early_stop": self.rng.random() < 0.7}
        else:
            attrs["kind"] = self.rng.choice(
                ["thread", "no_grad", "autocast", "hooks", "enable_grad", "inference", "anomaly"])
        grad = None if attrs.get("kind") not in ("no_grad", "inference") else False
        self.emit("checkpoint" if checkpoint else "region", unique, [(v.shape, v.dtype) for v in gives],
                  grad=grad, body=body, **attrs)

    def statements(self, number: int) -> None:
        makers = {self.unary: 22, self.binary: 16, self.reduce: 4, self.normal: 7, self.multiply: 9,
                  self.image: 3, self.index: 4, self.drop_out: 4, self.join: 4, self.view: 16, self.cast: 5,
                  self.function: 7, self.transform: 2, self.write: 10, self.hook: 4, self.region: 7, self.look: 4,
                  self.unseen: 2, self.fork: 1}
        for maker in self.rng.choices(list(makers), list(makers.values()), k=number):
            maker()
