# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks of the user's, errors that they and operators raise, and what works after them."""

from typing import Any

import torch
from case import NotApplicable, Subject, case
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks


class Boom(Exception):
    """Raised by the user's own code."""


def _deep(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.cos()).exp().tanh().sigmoid()


def _fail(*_: Any) -> Any:
    raise Boom("boom")


def _hooked(tensor: torch.Tensor, hook: Any) -> torch.Tensor:
    tensor.register_hook(hook)
    return tensor


def _caught(call: Any, *inputs: Any) -> str:
    try:
        call(*inputs)
    except Boom:
        return "boom"
    return "nothing was raised"


def _hooks_left() -> bool:
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


@case("6.14")
def error_in_forward(s: Subject) -> Any:
    """the forward raises; hooks are gone; the next step is right"""
    x = s.leaf()
    caught = _caught(lambda: s.run(lambda x: _fail(_deep(x)), x))
    left = _hooks_left()
    s.run(_deep, x).sum().backward()
    return caught, left, x.grad


@case("6.14 trl#4280")
def error_in_backward(s: Subject) -> Any:
    """a tensor's hook raises in mid-backward; the next step is right"""
    x = s.leaf()
    out = s.run(lambda x: _hooked(x.sin().exp(), _fail).tanh().square(), x)
    caught = _caught(out.sum().backward)
    del out
    s.run(_deep, x).sum().backward()
    return caught, x.grad


@case("6.14 6.3")
def error_in_backward_then_again(s: Subject) -> Any:
    """a hook raises in mid-backward; the same graph, retained, is run again"""
    x = s.leaf()
    armed = [True]
    out = s.run(lambda x: _hooked(x.sin().exp(), lambda _: _fail() if armed else None).tanh().square(), x)
    caught = _caught(lambda: out.sum().backward(retain_graph=True))
    armed.clear()
    s.settle()
    out.sum().backward()
    return caught, x.grad


class _Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        raise Boom(f"boom {len(ctx.saved_tensors)}")


@case("6.14")
def error_in_a_functions_backward(s: Subject) -> Any:
    """a custom Function's backward raises after it unpacked; the next step is right"""
    x = s.leaf()
    out = s.run(lambda x: _Raises.apply(x.sin()).exp(), x)
    caught = _caught(out.sum().backward)
    s.run(_deep, x).sum().backward()
    return caught, x.grad


@case("6.14")
def error_in_a_users_pack(s: Subject) -> Any:
    """the user's own pack hook raises inside; the next step is right"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        with saved_tensors_hooks(_fail, lambda t: t):
            return _deep(x.sin())
    x = s.leaf()
    caught = _caught(lambda: s.run(forward, x))
    left = _hooks_left()
    s.run(_deep, x).sum().backward()
    return caught, left, x.grad


@case("6.14")
def error_in_a_users_unpack(s: Subject) -> Any:
    """the user's own unpack hook raises in backward; the next step is right"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = x.sin().exp()
        with saved_tensors_hooks(lambda t: t, _fail):
            return hidden.tanh()
    x = s.leaf()
    out = s.run(forward, x)
    caught = _caught(out.sum().backward)
    s.run(_deep, x).sum().backward()
    return caught, x.grad


@case("trl#5700 6.14", moves=False)
def error_leaves_the_context(s: Subject) -> Any:
    """an error passes through the context's exit: what follows is plain"""
    x = s.leaf()

    def enter() -> None:
        with s.region():
            _fail(_deep(x))
    caught = _caught(enter)
    before = s.system.moved_bytes()
    out = _deep(x)
    s.settle()
    out.sum().backward()
    return caught, _hooks_left(), before == s.system.moved_bytes(), x.grad


@case("6.14", raises="must be a matrix", moves=False)
def torch_error_in_forward(s: Subject) -> Any:
    """an operator's own error in the forward comes out as it is"""
    x = s.leaf()
    s.write(lambda: s.run(lambda x: torch.mm(x.exp().sin(), x.sum()), x))
    return s.run(_deep, x)


@case("6.6")
def users_hooks_inside(s: Subject) -> Any:
    """the user's saved_tensors_hooks inside see every save, and win"""
    packed = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tuple(tensor.shape))
        return tensor * 1

    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = x.exp().sin()
        with saved_tensors_hooks(pack, lambda t: t + 1):
            hidden = hidden.tanh() * hidden
        return hidden.cos()
    x = s.leaf()
    s.run(forward, x).sum().backward()
    return packed[:3], x.grad


@case("6.6")
def users_hooks_outside(s: Subject) -> Any:
    """inside the user's saved_tensors_hooks"""
    x = s.leaf()
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        hidden = x.exp().sin()
        out = s.run(_deep, hidden)
    out.sum().backward()
    return x.grad


@case("6.6")
def save_on_cpu_inside(s: Subject) -> Any:
    """save_on_cpu inside"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = x.exp().sin()
        with save_on_cpu(device_type=s.device.type):
            hidden = hidden.tanh() * hidden
        return hidden.cos()
    x = s.leaf()
    s.run(forward, x).sum().backward()
    return x.grad


@case("6.12", moves=False)
def hooks_forbidden_inside(s: Subject) -> Any:
    """disable_saved_tensors_hooks inside, as torch.func uses it"""
    def forward(x: torch.Tensor) -> torch.Tensor:
        with disable_saved_tensors_hooks("not here"):
            return _deep(x)
    x = s.leaf()
    s.run(forward, x).sum().backward()
    return x.grad


@case("6.3")
def hooks_on_tensors_and_nodes(s: Subject) -> Any:
    """hooks on tensors, nodes, leaves and accumulators see what they see in plain autograd"""
    seen: list[torch.Tensor] = []
    x = s.leaf()
    x.register_hook(lambda grad: grad * 2)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.clone()))
    middle, out = s.run(lambda x: (middle := x.sin().exp(), middle.tanh().square()), x)
    middle.retain_grad()
    middle.register_hook(lambda grad: grad + 1)
    out.grad_fn.register_prehook(lambda grads: (grads[0] * 3,))
    out.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] - 1,))
    out.sum().backward()
    return x.grad, middle.grad, seen


@case("6.3")
def hooks_on_modules(s: Subject) -> Any:
    """forward and full backward hooks of modules"""
    seen: list[torch.Tensor] = []
    net = s.module(torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 128)))
    net[1].register_full_backward_hook(
        lambda _, before, after: seen.extend((before[0].clone(), after[0].clone())))
    net[0].register_forward_hook(lambda _, given, out: out * 2)
    x = s.leaf()
    s.run(net, x).square().sum().backward()
    return seen, x.grad, net[0].weight.grad


@case("6.14")
def anomaly_mode(s: Subject) -> Any:
    """anomaly detection on"""
    x = s.leaf()
    with torch.autograd.detect_anomaly(check_nan=True):
        s.run(_deep, x).sum().backward()
    return x.grad


@case("6.14", raises="returned nan values")
def anomaly_found(s: Subject) -> Any:
    """anomaly detection finds a NaN"""
    x = s.leaf()
    with torch.autograd.detect_anomaly(check_nan=True):
        out = s.run(lambda x: (x * 0).sqrt().sin() * 0, x)
        s.write(out.sum().backward)
    return x.grad


@case("6.4 6.14")
def gradient_edge_multi_grad_hook(s: Subject) -> Any:
    """a hook on several gradients at once"""
    seen: list[torch.Tensor] = []
    x, y = s.leaf(), s.leaf()
    torch.autograd.graph.register_multi_grad_hook((x, y), lambda grads: seen.extend(grads))
    s.run(lambda x, y: (x.sin() * y.exp()).tanh(), x, y).sum().backward()
    return seen, x.grad


@case("6.6")
def hooks_of_one_saved_tensor(s: Subject) -> Any:
    """the user registers hooks on one saved tensor of a node"""
    x = s.leaf()
    out = s.run(lambda x: (x * 2).sin().cos(), x)
    out.grad_fn._raw_saved_self.register_hooks(lambda t: t.clone(), lambda t: t * 2)
    out.sum().backward()
    return x.grad


@case("peers_today 1.5", wrong="other nodes are seen")
def node_creation_hook(s: Subject) -> Any:
    """torch's node_creation_hook sees each node that the forward makes (from torch 2.15)"""
    if not hasattr(torch.autograd.graph, "node_creation_hook"):
        raise NotApplicable("this torch has no node_creation_hook")
    seen: list[str] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.node_creation_hook(lambda node: seen.append(node.name())):
            return (x * 2).sin().cos()
    x = s.leaf()
    s.run(forward, x).sum().backward()
    return seen[:3], x.grad


@case("6.3 6.8")
def backward_in_a_hook(s: Subject) -> Any:
    """a hook of one backward runs another one"""
    x, y = s.leaf(), s.leaf()

    def run_other(grad: torch.Tensor) -> torch.Tensor:
        other.backward()
        return grad * y.grad
    out, other = s.run(lambda x, y: (_hooked(x.sin().exp(), run_other).tanh(), _deep(y)), x, y)
    other = other.sum()
    out.sum().backward()
    return x.grad, y.grad
