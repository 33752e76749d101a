# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A whole program from a seed: rounds of statements, when the session is entered and left, and backwards."""

from collections.abc import Callable

from .generate import Generator, Value
from .program import Program


def _first_leaves(g: Generator) -> None:
    shape = (g.rows, g.columns)
    g.leaf(shape, grad=True)
    for _ in range(g.rng.randint(1, 3)):
        dtype = g.rng.choice(["float32"] * 6 + ["float64", "bfloat16", "float16", "complex64"])
        rows = 2 * shape[0] if dtype in ("bfloat16", "float16") else shape[0]
        g.leaf(g.rng.choice([(rows, shape[1])] * 6 + [(shape[1],), (), (0, shape[1]), (3, 5)]), dtype)


def _chain(g: Generator) -> None:
    """Results of results, which a session can make again: a leaf is often too large for what they are made of."""
    x = g.some(lambda v: v.leaf and v.floats and v.many)
    for _ in range(g.rng.randint(2, 5) if x else 0):
        x = g.emit(g.rng.choice(["sin", "tanh", "sigmoid", "gelu"]), [x], [(x.shape, x.dtype)])[0]


def _loss(g: Generator) -> Value | None:
    found = [g.some(lambda v: v.grad and v.floats) for _ in range(g.rng.randint(1, 3))]
    parts = [part for part in found if part]
    return g.emit("loss", parts, [((), "float32")])[0] if parts else None


def _inputs(g: Generator) -> list[Value]:
    """Some leaves, now and then a result, too."""
    leaves = [v for v in g.scope if v.leaf and v.grad]
    chosen = g.rng.sample(leaves, k=min(len(leaves), g.rng.randint(1, 3)))
    inner = g.some(lambda v: v.grad and not v.leaf)
    return chosen + ([inner] if inner and g.rng.random() < 0.3 else [])


class Backwards:
    """What may be done with a root; each gives back whether its graph can still be asked."""

    def __init__(self, g: Generator, roots: list[Value]) -> None:
        self._g = g
        self._roots = roots

    def _consumes(self) -> bool:
        """Graphs share parts, so mostly the last backward alone lets go of them."""
        return len(self._roots) == 1 or self._g.rng.random() < 0.2

    def _backward(self, root: Value, retain: bool = False, create: bool = False,
                  inputs: bool = False) -> None:
        g = self._g
        found = _inputs(g) if inputs else []
        g.races |= not all(value.leaf for value in found)  # torch retains the gradient of the others
        g.emit("backward", [root, *found], roots=1, retain=retain, create=create,
               thread=g.rng.random() < 0.15)

    def plain(self, root: Value) -> bool:
        self._backward(root, retain=not self._consumes())
        return False

    def retained(self, root: Value) -> bool:
        self._backward(root, retain=True)
        return True

    def some_inputs(self, root: Value) -> bool:
        retain = not self._consumes() or self._g.rng.random() < 0.5
        self._backward(root, retain=retain, inputs=True)
        return retain

    def creates_graph(self, root: Value) -> bool:
        self._backward(root, create=True)
        return True

    def grad(self, root: Value) -> bool:
        retain = not self._consumes() or self._g.rng.random() < 0.5
        self._grad(root, retain, create=False)
        return retain

    def second(self, root: Value) -> bool:
        """The gradient of the gradients."""
        g = self._g
        if grads := self._grad(root, retain=True, create=True):
            g.emit("loss", grads, [((), "float32")])
            self._backward(g.scope[-1], retain=g.rng.random() < 0.3)
        return g.rng.random() < 0.5

    def _grad(self, root: Value, retain: bool, create: bool) -> list[Value]:
        g, inputs = self._g, _inputs(self._g)
        if not inputs:
            return []
        return g.emit("grad", [root, *inputs], [(v.shape, v.dtype) for v in inputs], grad=create, roots=1,
                      retain=retain, create=create, unused=g.rng.random() < 0.95,
                      thread=g.rng.random() < 0.15)

    def together(self, root: Value) -> bool:
        g = self._g
        inputs = _inputs(g)
        if inputs and not g.races:
            g.emit("together", [root, root, *inputs], roots=2)
        return True

    def dropped(self, root: Value) -> bool:
        self._g.emit("drop", [root])
        return False


def _between(g: Generator) -> None:
    for maker, share in ((g.write, 0.3), (lambda: g.emit("zero_grad", []), 0.1), (g.hook, 0.05),
                         (lambda: g.emit("update", []), 0.1), (g.unary, 0.1), (g.look, 0.1), (g.refill, 0.1)):
        if g.rng.random() < share:
            maker()


def _backwards(g: Generator, roots: list[Value]) -> None:
    backwards = Backwards(g, roots)
    kinds: dict[Callable[[Value], bool], int] = {
        backwards.plain: 12, backwards.retained: 4, backwards.some_inputs: 3, backwards.creates_graph: 2,
        backwards.grad: 3, backwards.second: 4, backwards.together: 2, backwards.dropped: 1}
    g.rng.shuffle(roots)
    while roots:
        root = g.rng.choice(roots)
        if not g.rng.choices(list(kinds), list(kinds.values()))[0](root) and g.rng.random() < 0.97:
            roots.remove(root)
        _between(g)


def random_program(seed: int) -> Program:
    g = Generator(seed)
    _first_leaves(g)
    which = 1 if g.rng.random() < 0.1 else 0
    for turn in range(g.rng.choice([1, 1, 2])):
        roots: list[Value] = []
        if turn > 0 and g.rng.random() < 0.5:
            g.refill()
        if g.rng.random() < 0.8:  # what an earlier round made has mostly lost its graph
            g.scope = [value for value in g.scope if value.leaf]
        g.emit("enter", [], which=which)
        for _ in range(g.rng.choice([1, 1, 2, 3])):
            if g.rng.random() < 0.08:
                g.emit(g.rng.choice(["enter", "leave"]), [], which=1 - which)
            if g.rng.random() < 0.4:
                _chain(g)
            g.statements(g.rng.randint(3, 9))
            if g.rng.random() < 0.08:
                g.emit("leave", [])
            if root := _loss(g):
                roots.append(root)
        if g.rng.random() < 0.7:
            g.emit("leave", [])
        _backwards(g, roots)
        g.emit("leave", [])
    return Program(seed, g.leaves, g.steps, hold=g.hold)
