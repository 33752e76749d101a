# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a program does to a saved tensor that it was handed: plain autograd hands out the saved tensor itself."""

from collections.abc import Callable
from typing import Any

import torch
from case import SHAPE, Subject, case
from cases_in_place import finish, saved

Change = Callable[[torch.Tensor], Any]


def _own(change: Change) -> type[torch.autograd.Function]:
    """A Function with a tensor of its own, to which its backward does `change` before it unpacks once more."""
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward((x > 0).to(x.dtype) + 1)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (own,) = ctx.saved_tensors
            before = own.sum()
            change(own)
            del own
            (again,) = ctx.saved_tensors
            return grad * again.flatten()[:1] + before
    return Own


def _twice(s: Subject, change: Change) -> Any:
    """Two backwards of such a Function, apart."""
    function = _own(change)
    x = s.leaf()
    out = s.run(lambda x: function.apply(x.exp()).sin(), x)
    out.sum().backward(retain_graph=True)
    s.settle()
    out.square().sum().backward()
    return x.grad


@case("6.3 6.16", wrong="the write is lost")
def mask_that_python_holds_is_written(s: Subject) -> Any:
    """a node's saved mask is held by Python, and written through .data after it could leave"""
    x = s.leaf()
    out = s.run(lambda x: x.sin() * (x > 0).to(x.dtype), x)
    mask = out.grad_fn._saved_other
    s.settle()
    mask.data.mul_(2)
    del mask
    s.settle()
    return finish(x, out)


@case("6.11 6.3", wrong="the second look is at a copy")
def function_looks_twice(s: Subject) -> Any:
    """a Function unpacks twice in one backward, and writes the first through .data"""
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward((x > 0).to(x.dtype))
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (one,) = ctx.saved_tensors
            s.settle()
            (two,) = ctx.saved_tensors
            one.data.add_(1)
            return grad * two
    x = s.leaf()
    return finish(x, s.run(lambda x: Twice.apply(x.exp()), x))


@case("6.11 6.16", wrong="the old value comes back")
def function_swaps_what_it_unpacked(s: Subject) -> Any:
    """a Function gives what it unpacked other bytes (.data =); they are there at the next look"""
    return _twice(s, lambda own: setattr(own, "data", torch.full_like(own, 7.0)))


@case("6.16", wrong="the old value is used")
def function_swaps_its_input(s: Subject) -> Any:
    """a Function gives its saved input other bytes (.data =), which another operator saved as well"""
    class Swap(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            x.data = x.data * 3
            return grad

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = x.exp() * 1
        return y.sin() + Swap.apply(y)
    x = s.leaf()
    return finish(x, s.run(forward, x))


@case("6.11", wrong="two gradients share bytes")
def function_returns_what_it_saved(s: Subject) -> Any:
    """the gradient that a Function returns is a saved tensor itself, which another Function saved, too"""
    class Dot(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, y)
            return (x * y).sum()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x, y = ctx.saved_tensors
            return y, x

    def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        shared = (x.detach() > 0).to(x.dtype)
        return Dot.apply(x, shared) + Dot.apply(y, shared)
    x, y = s.leaf(), s.leaf()
    s.run(forward, x, y).backward()
    x.grad.mul_(2)
    return x.grad, y.grad


@case("6.11", moves=False, wrong="the attribute is lost")
def function_saves_what_it_recorded(s: Subject) -> Any:
    """a Function records a graph in its forward and saves the end of that, with a Python attribute"""
    class Records(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                start = x.detach().requires_grad_()
                end = start.sin()
            end.factor = 3
            ctx.save_for_backward(start, end)
            return end.detach()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            start, end = ctx.saved_tensors
            return torch.autograd.grad(end, start, grad * getattr(end, "factor", 1))[0]
    x = s.leaf()
    return finish(x, s.run(lambda x: Records.apply(x.exp()), x))


@case("6.11 6.16", wrong="the old value comes back")
def function_turns_what_it_unpacked(s: Subject) -> Any:
    """a Function makes what it unpacked another view of the same bytes"""
    return _twice(s, lambda own: setattr(own, "data", own.data[3:]))


@case("6.11 6.16", wrong="the old value comes back")
def function_resizes_the_storage(s: Subject) -> Any:
    """a Function resizes the storage of what it unpacked"""
    return _twice(s, lambda own: own.untyped_storage().resize_(2 * own.untyped_storage().nbytes()))


@case("6.11 6.16")
def function_empties_the_storage(s: Subject) -> Any:
    """a Function empties the storage of what it unpacked once it has used it"""
    class Empties(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            own = x.sin()
            ctx.save_for_backward(own)
            return own * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (own,) = ctx.saved_tensors
            result = grad * own
            own.untyped_storage().resize_(0)
            return result
    x = s.leaf()
    return finish(x, s.run(lambda x: Empties.apply(x.exp()), x))


@case("6.8 6.16", wrong="the gradient's gradient uses the old value")
def swapped_after_it_was_saved_again(s: Subject) -> Any:
    """a backward that is recorded saves what it unpacked, and gives it other bytes afterwards"""
    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward((x > 0).to(x.dtype) + 1)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (own,) = ctx.saved_tensors
            product = grad * own
            own.data = own.detach() * 3
            return product
    x = s.leaf()
    out = s.run(lambda x: Again.apply(x.sin()), x)
    (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    s.settle()
    grad.square().sum().backward()
    return x.grad


@case("6.16", wrong="the view from before is used")
def another_view_of_the_same_bytes(s: Subject) -> Any:
    """an activation that the user holds is made another view of its bytes (.data =)"""
    x, hidden, out = saved(s)
    with torch.no_grad():
        hidden.data = hidden.data[:1]
    return finish(x, out)


class _More(torch.Tensor):
    """Its products are one more."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result.add(1) if func in (torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__) else result


@case("6.15 6.11", moves=False, wrong="its arithmetic is lost")
def subclass_comes_back_to_a_function(s: Subject) -> Any:
    """a Function saves a tensor of a subclass with an arithmetic of its own, and computes with it"""
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.as_subclass(torch.Tensor) * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return (x * grad).as_subclass(torch.Tensor)
    x = s.leaf()
    return finish(x, s.run(lambda x: Product.apply((x * 3).as_subclass(_More)).as_subclass(torch.Tensor), x))


@case("6.12")
def part_of_backward_in_inference_mode(s: Subject) -> Any:
    """a Function's backward reads what it saved under inference mode, and again without"""
    class Infers(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward((x > 0).to(x.dtype), x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            with torch.inference_mode():
                total = float(sum(each.sum() for each in ctx.saved_tensors))
            mask, x = ctx.saved_tensors
            return grad * mask * x + total
    x = s.leaf()
    return finish(x, s.run(lambda x: Infers.apply(x.exp()), x))


@case("6.16")
def storages_are_looked_at(s: Subject) -> Any:
    """a hook on each module sums the sizes of activations' storages, as memory trackers do"""
    net = s.module(torch.nn.Sequential(*(torch.nn.Linear(SHAPE[1], SHAPE[1]) for _ in range(3))))
    sizes = []
    for layer in net:
        layer.register_forward_hook(lambda _, __, out: sizes.append(out.untyped_storage().nbytes()))
    x = s.leaf()
    out = s.run(net, x)
    return finish(x, out), sum(sizes[:3])
