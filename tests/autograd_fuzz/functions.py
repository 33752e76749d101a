# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Custom autograd Functions for the programs: each saves in a way of its own."""

import concurrent.futures
from typing import Any

import torch
from torch import Tensor

Context = Any


class Refusal(Exception):
    """What a Function of the program raises on purpose."""


class SavesInputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y + x

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        return (grad * y + grad if ctx.needs_input_grad[0] else None,
                (grad * x).sum_to_size(y.shape) if ctx.needs_input_grad[1] else None)


class SavesOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        (again,) = ctx.saved_tensors
        return grad * (1 - y * again)


class SavesIntermediate(torch.autograd.Function):
    """Neither an input nor an output, in two views of one storage."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        inner = torch.stack([x.sigmoid(), x.cos()])
        ctx.save_for_backward(inner[0], inner[1], None)
        return inner[0] * 2

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        first, second, nothing = ctx.saved_tensors
        assert nothing is None
        return grad * first + second * 0.5


class KeepsAttributes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.plain = x.detach()
        ctx.made = x.sin()
        ctx.factor = 1.5
        return ctx.made * ctx.factor

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        return grad * ctx.plain.cos() * ctx.factor + ctx.made * 0.25


class MarksDirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        x.tanh_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


class TwoOutputs(torch.autograd.Function):
    """One is not differentiable, and gradients that are absent stay None."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        mask = x > 0
        ctx.mark_non_differentiable(mask)
        y = x.square()
        ctx.save_for_backward(x, y, mask)
        return y, x * 0.5, mask

    @staticmethod
    def backward(ctx: Context, first: Tensor | None, second: Tensor | None,
                 _: Tensor | None) -> Tensor | None:
        x, y, mask = ctx.saved_tensors
        grad = None
        if first is not None:
            grad = first * 2 * x + torch.where(mask, y, x) * 0
        if second is not None:
            grad = second * 0.5 if grad is None else grad + second * 0.5
        return grad


class ReturnsView(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad + x * 0.125


class GradInBackward(torch.autograd.Function):
    """Its backward runs a backward of its own."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sigmoid() * x

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            y = inner.sigmoid() * inner
            (result,) = torch.autograd.grad(y, inner, grad.detach())
        return result


class WritesSaved(torch.autograd.Function):
    """Its backward writes into what it was given."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        inner = x.cos()
        ctx.save_for_backward(x, inner)
        return inner.clone()

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        x, inner = ctx.saved_tensors
        with torch.no_grad():
            inner.mul_(2)
        return grad * x.detach() + inner.detach()


class SetsUpContext(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x * y.sigmoid()

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        x, y = inputs
        ctx.save_for_backward(x, y, output, x)

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y, output, twice = ctx.saved_tensors
        return (grad * y.sigmoid() + 0 * output, (grad * twice).sum_to_size(y.shape) + x.sum() * 0)


class RaisesForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x, x.exp())
        raise Refusal("this forward refuses")

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        return grad


class RaisesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        y = x.sigmoid()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        raise Refusal(f"this backward refuses {tuple(x.shape)} {tuple(y.shape)}")


class SwapsWhatItUnpacked(torch.autograd.Function):
    """Other bytes for a tensor of its own: they are there at the next look, and in the next backward."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.sigmoid(), x.cos())
        return x * 2

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        first, second = ctx.saved_tensors
        before = grad * first
        first.data = second.detach() * 0.5
        del first, second
        again, _ = ctx.saved_tensors
        return before + grad * again


class SwapsItsInput(torch.autograd.Function):
    """Other bytes for a tensor that Python may hold, and that other operators saved as well; once, since what a
    recorded backward saved of it before does not see it (docs/limits.md)."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        before = grad * x.sin()
        x.data = x * 0.5
        return before + grad * ctx.saved_tensors[0]


class ReturnsWhatItSaved(torch.autograd.Function):
    """Its gradient is a saved tensor itself, whose bytes must not become a `.grad`'s."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x.sum() + y.sum()

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return (y, x) if x.shape == y.shape else (x, y)


class SavesWhatItRecorded(torch.autograd.Function):
    """A graph of its forward, by its ends."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        with torch.enable_grad():
            start = x.detach().requires_grad_()
            end = start.sigmoid()
        end.factor = 3
        ctx.save_for_backward(start, end)
        return end.detach() * 3

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        start, end = ctx.saved_tensors
        (result,) = torch.autograd.grad(end, start, grad * getattr(end, "factor", 1), retain_graph=True)
        return result


class WritesUnseen(torch.autograd.Function):
    """Into a tensor of its own, through `.data` and through `set_`, which no version counts."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.tanh(), x.abs())
        return x + 1

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        first, second = ctx.saved_tensors
        first.data.add_(1)
        second.data.set_(first.detach().clone())
        result = grad * first * second
        del first, second
        return result + grad * ctx.saved_tensors[1]


class ResizesStorage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        inner = x.cos()
        ctx.save_for_backward(inner)
        ctx.bytes = inner.untyped_storage().nbytes()
        return inner * 2

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        (inner,) = ctx.saved_tensors
        inner.untyped_storage().resize_(2 * ctx.bytes)
        return grad * inner


class InfersInBackward(torch.autograd.Function):
    """Unpacks in inference mode, then outside of it."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x, x > 0)
        return x.relu()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        with torch.inference_mode():
            positive = ctx.saved_tensors[1].sum().item()
        x, mask = ctx.saved_tensors
        return grad * mask + x * (positive % 2)


class AsksInAThread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.sin(), x.cos())
        return x * 0.5

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            found = thread.submit(lambda: ctx.saved_tensors[0] * 1).result()  # raises what it raised: a refusal, maybe
        return grad * found + ctx.saved_tensors[1]


class Offset(Tensor):
    """A subclass whose products are others than torch's."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result + 1 if func in (Tensor.mul, Tensor.__mul__, torch.mul) else result


class _OfOffset(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.as_subclass(Tensor) * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Context, grad: Tensor) -> Tensor:
        return (ctx.saved_tensors[0] * grad).as_subclass(Tensor)


class SavesSubclass:
    @staticmethod
    def apply(x: Tensor) -> Tensor:
        return _OfOffset.apply((x + 0).as_subclass(Offset))


WITH_ONE = {each.__name__: each for each in (
    SavesOutput, SavesIntermediate, KeepsAttributes, MarksDirty, TwoOutputs, ReturnsView, GradInBackward,
    WritesSaved, SwapsWhatItUnpacked, SwapsItsInput, WritesUnseen, ResizesStorage, InfersInBackward, AsksInAThread,
    SavesSubclass, SavesWhatItRecorded, RaisesForward, RaisesBackward)}
WITH_TWO = {each.__name__: each for each in (SavesInputs, SetsUpContext, ReturnsWhatItSaved)}
ALL = WITH_ONE | WITH_TWO
