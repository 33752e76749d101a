# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Custom autograd Functions and custom operators."""

from typing import Any

import torch
from case import WRITTEN, Subject, case

Function = torch.autograd.Function


class Product(Function):
    """Saves an input, its output and a tensor of its own; stashes another on ctx."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        own = (x + y).sin()
        out = own * x
        ctx.save_for_backward(x, out, own, None)
        ctx.stash = y.cos()
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, out, own, nothing = ctx.saved_tensors
        assert nothing is None
        return grad * own + out * ctx.stash, grad * x


@case("6.11")
def function_saves_everything(s: Subject) -> Any:
    """input, output, a tensor of its own and None are saved, one more is stashed on ctx"""
    x, y = s.leaf(), s.leaf()
    s.run(lambda x, y: Product.apply(x.exp(), y.exp()).tanh(), x, y).sum().backward()
    return x.grad, y.grad


@case("6.11 6.3")
def function_unpacks_often(s: Subject) -> Any:
    """ctx.saved_tensors is asked for three times, in two backwards"""
    class Often(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return sum(grad * number * ctx.saved_tensors[0] for number in range(3))
    x = s.leaf()
    out = s.run(lambda x: Often.apply(x.exp()), x)
    out.sum().backward(retain_graph=True)
    out.square().sum().backward()
    return x.grad


@case("6.11", raises=WRITTEN)
def function_saves_then_writes(s: Subject) -> Any:
    """what a Function saved is written before its backward"""
    x, y = s.leaf(), s.tensor()
    out = s.run(lambda x, y: Product.apply(x.exp(), y), x, y)
    s.write(lambda: out.detach().add_(1))
    out.sum().backward()
    return x.grad


@case("6.11")
def function_marks_dirty(s: Subject) -> Any:
    """mark_dirty: an input written in place and saved"""
    class Scale(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            x.mul_(2).sin_()
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * ctx.saved_tensors[0]
    x = s.leaf()
    s.run(lambda x: Scale.apply(x * 2).cos(), x).sum().backward()
    return x.grad


@case("6.11")
def function_gives_what_has_no_gradient(s: Subject) -> Any:
    """mark_non_differentiable: an output of indices that is saved; gradients that are None"""
    class Best(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            values, places = x.sort(dim=1)
            ctx.mark_non_differentiable(places)
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(places)
            return values, places, x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor, _places: Any, unused: Any) -> torch.Tensor:
            assert unused is None
            return torch.zeros_like(grad).scatter(1, ctx.saved_tensors[0], grad)
    x = s.leaf()
    values, places, _ = s.run(lambda x: Best.apply(x.exp()), x)
    values.square().sum().backward()
    return x.grad, places, places.requires_grad


@case("6.11", raises="once_differentiable", moves=False)
def function_once_differentiable(s: Subject) -> Any:
    """a gradient of a gradient through a Function that allows one"""
    from torch.autograd.function import once_differentiable

    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * ctx.saved_tensors[0].cos()
    x = s.leaf()
    out = s.run(lambda x: Once.apply(x.exp()), x)
    (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    s.write(grad.sum().backward)


@case("6.11 6.8")
def function_differentiable_twice(s: Subject) -> Any:
    """a gradient of a gradient through a custom Function"""
    x, y = s.leaf(), s.leaf()
    out = s.run(lambda x, y: Product.apply(x.exp(), y.exp()), x, y)
    (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    grad.square().sum().backward()
    return x.grad, y.grad


@case("6.11 6.8")
def function_runs_autograd_in_backward(s: Subject) -> Any:
    """a backward that runs a forward and a backward of its own"""
    class Again(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.sin().exp()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                out = x.sin().exp()
            out.backward(grad)
            return x.grad
    x = s.leaf()
    s.run(lambda x: Again.apply(x.exp().tanh()), x).sum().backward()
    return x.grad


@case("6.11 6.12")
def function_of_both_forms(s: Subject) -> Any:
    """a Function with setup_context, generated vmap and jvp, plainly and under vmap"""
    class Cube(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x ** 3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return 3 * grad * ctx.saved_tensors[0] ** 2

        @staticmethod
        def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
            return 3 * tangent * ctx.saved_tensors[0] ** 2
    x = s.leaf()
    s.run(lambda x: Cube.apply(x.exp()).sin() + torch.vmap(Cube.apply)(x), x).sum().backward()
    return x.grad


@torch.library.custom_op("spillway_semantics::scaled_sin", mutates_args=())
def scaled_sin(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x.sin() * scale


@scaled_sin.register_fake
def _(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x)


def _save(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


scaled_sin.register_autograd(
    lambda ctx, grad: (grad * ctx.saved_tensors[0].cos() * ctx.scale, None), setup_context=_save)


@case("6.11")
def custom_operator(s: Subject) -> Any:
    """an operator of torch.library with its own autograd"""
    x = s.leaf()
    s.run(lambda x: scaled_sin(x.exp(), 3.0).tanh(), x).sum().backward()
    return x.grad


@case("6.11 6.19")
def function_saves_one_tensor_twice(s: Subject) -> Any:
    """one tensor saved twice by one Function, and again by the next operator"""
    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, x, x[:1])
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            first, second, row = ctx.saved_tensors
            return grad * first + grad * second * row
    x = s.leaf()
    s.run(lambda x: (h := x.exp(), Twice.apply(h) * h.sin())[1], x).sum().backward()
    return x.grad
