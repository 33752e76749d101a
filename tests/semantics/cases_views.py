# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Views, strides and storages that several saved tensors share."""

from typing import Any

import torch
from case import Subject, case

STRIDES = "the strides of a saved tensor are lost"


class Look(torch.autograd.Function):
    """Saves a tensor; its backward notes the strides and hands out the bytes."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        ctx.save_for_backward(tensor)
        ctx.seen = seen
        return tensor.sum()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (tensor,) = ctx.saved_tensors
        ctx.seen.append((tuple(tensor.shape), tensor.stride(), tensor.detach().clone()))
        return grad.expand(tensor.shape) * 2, None


def _looked(s: Subject, view: Any, *shape: int) -> Any:
    """What a view of an activation is when it comes back, and the gradient through it."""
    seen: list[Any] = []
    x = s.leaf(*shape)
    out = s.run(lambda x: Look.apply(view(x.sin()), seen), x)
    out.backward()
    return seen, x.grad


@case("6.15 6.18", wrong=STRIDES)
def transposed(s: Subject) -> Any:
    """a transpose comes back with its strides"""
    return _looked(s, lambda h: h.t())


@case("6.15", wrong=STRIDES)
def sliced(s: Subject) -> Any:
    """a slice in the middle, every second column"""
    return _looked(s, lambda h: h[3:99, 1::2])


@case("6.18", wrong=STRIDES)
def expanded(s: Subject) -> Any:
    """an expanded tensor comes back with stride 0"""
    return _looked(s, lambda h: h[:, None, :].expand(256, 16, 128))


@case("6.18", wrong=STRIDES)
def overlapping(s: Subject) -> Any:
    """overlapping windows (unfold) come back as they were"""
    return _looked(s, lambda h: h.unfold(1, 8, 3))


@case("6.18", wrong=STRIDES)
def strided_as_the_user_says(s: Subject) -> Any:
    """as_strided with gaps, overlaps and an offset"""
    return _looked(s, lambda h: h.as_strided((40, 50, 3), (7, 300, 1), 11))


@case("6.18", wrong=STRIDES)
def channels_last(s: Subject) -> Any:
    """channels_last comes back as channels_last"""
    return _looked(s, lambda h: h.to(memory_format=torch.channels_last), 4, 8, 32, 32)


@case("6.18")
def convolution_channels_last(s: Subject) -> Any:
    """convolutions, batch norm and pooling in channels_last"""
    net = s.module(torch.nn.Sequential(
        torch.nn.Conv2d(8, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(inplace=True),
        torch.nn.MaxPool2d(2), torch.nn.Conv2d(16, 8, 3)))
    net = net.to(memory_format=torch.channels_last)
    x = s.leaf(4, 8, 32, 32)
    out = s.run(net, x.to(memory_format=torch.channels_last))
    out.square().mean().backward()
    return out, out.stride(), x.grad, [p.grad for p in net.parameters()]


@case("accelerate#3770", wrong="batch norm's running statistics differ")
def running_statistics(s: Subject) -> Any:
    """batch norm's running statistics after a step"""
    net = s.module(torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU()))
    s.run(net, s.leaf(4, 8, 32, 32).exp()).square().mean().backward()
    return list(net.buffers())


@case("6.15", wrong=STRIDES)
def small_piece_of_a_large_storage(s: Subject) -> Any:
    """a few bytes of a large storage whose other names are gone"""
    return _looked(s, lambda h: h[200, 5:9])


@case("6.17", wrong=STRIDES)
def seen_as_other_type(s: Subject) -> Any:
    """bytes seen as another type, at an odd offset"""
    seen: list[Any] = []

    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
            whole = tensor.sin().view(torch.uint8).reshape(-1)[8:-8]
            ctx.save_for_backward(whole.view(torch.float64)[3:], whole.view(torch.int16)[5::3])
            return tensor.sum()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            seen.extend((t.stride(), t.dtype, t.clone()) for t in ctx.saved_tensors)
            return grad.expand(256, 128)
    x = s.leaf()
    s.run(lambda x: Odd.apply(x * 1), x).backward()
    return seen, x.grad


@case("6.15 VeOmni#872")
def siblings_stay(s: Subject) -> Any:
    """slices of one storage are saved; another slice, still in use, keeps its bytes"""
    x = s.leaf(1024, 128)
    kept, out = s.run(lambda x: (h := x.exp(), (h[800:], h[:400].sin() * h[400:800].cos()))[1], x)
    before = kept.detach().clone()
    (out.sum() + kept.sum()).backward()
    return before, kept, x.grad


@case("6.15")
def one_storage_saved_often(s: Subject) -> Any:
    """one storage saved by several nodes under several views"""
    x = s.leaf()
    out = s.run(lambda x: (
        h := x.exp(), h.sin() + h.t().cos().t() + h.view(-1).tanh().view(256, 128) * h)[1], x)
    out.sum().backward()
    return x.grad


@case("6.15")
def base_is_gone(s: Subject) -> Any:
    """halves are saved by other nodes, the whole has no name left"""
    x = s.leaf(512, 128)
    first, second = s.run(lambda x: tuple(part.sin().cos() for part in (x * 2).split(256)), x)
    (second.sum() + first.square().sum()).backward()
    return x.grad


@case("torchtune#1867 6.15")
def views_of_a_checkpoint(s: Subject) -> Any:
    """views of what a checkpoint gave are saved outside it"""
    from torch.utils.checkpoint import checkpoint
    x = s.leaf()

    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = checkpoint(lambda x: x.exp().tanh(), x, use_reentrant=False)
        query, key = hidden.view(256, 2, 64).unbind(1)
        return query.sin() @ key.cos().t()
    s.run(forward, x).sum().backward()
    return x.grad


@case("6.18", moves=False)
def gradients_with_strides(s: Subject) -> Any:
    """expanded and transposed gradients come in"""
    x, y = s.leaf(), s.leaf()
    out = s.run(lambda x, y: x.exp().t() * y.exp().t(), x, y)
    out.backward(s.tensor(128, 1).expand(128, 256))
    return x.grad, x.grad.stride(), y.grad


@case("6.10")
def tied_weights(s: Subject) -> Any:
    """an embedding that is the output's weight as well"""
    table = s.module(torch.nn.Embedding(512, 64))
    tokens = torch.arange(256, device=s.device).view(8, 32) * 7 % 512
    loss = s.run(lambda t: torch.nn.functional.cross_entropy(
        (table(t).exp().tanh() @ table.weight.t()).flatten(0, 1), t.flatten()), tokens)
    loss.backward()
    return loss, table.weight.grad
