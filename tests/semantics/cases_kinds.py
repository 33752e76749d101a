# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of tensors: types, layouts, subclasses, and tensors whose memory is not torch's own."""

import functools
import os
import pathlib
from typing import Any

import torch
from case import NotApplicable, Subject, case
from torch.utils._python_dispatch import return_and_correct_aliasing


class Bits(torch.autograd.Function):
    """Saves `held` beside `x`; backward hands its very bits out through `seen`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, held: torch.Tensor, seen: list[Any]) -> torch.Tensor:
        ctx.save_for_backward(held)
        ctx.seen = seen
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (held,) = ctx.saved_tensors
        ctx.seen.append((str(held.dtype), held.is_conj(), held.is_neg(), held.stride(), held.clone()))
        return grad, None, None


def _held(s: Subject, make: Any, *shape: int, dtype: torch.dtype = torch.float32) -> Any:
    """What comes back of a tensor that `make` makes of an activation."""
    seen: list[Any] = []
    x, other = s.leaf(4), s.tensor(*shape, dtype=dtype)
    s.run(lambda x: Bits.apply(x, make(other * 1), seen), x).sum().backward()
    return seen, x.grad


def _typed(s: Subject, dtype: torch.dtype) -> Any:
    x = s.leaf(512, 128, dtype=dtype)
    s.run(lambda x: (x.sin() * x.cos()).tanh().square(), x).abs().sum().backward()
    return x.grad


@case("6.9")
def bfloat16(s: Subject) -> Any:
    """bfloat16"""
    return _typed(s, torch.bfloat16)


@case("6.9")
def float16(s: Subject) -> Any:
    """float16"""
    return _typed(s, torch.float16)


@case("6.9")
def float64(s: Subject) -> Any:
    """float64"""
    return _typed(s, torch.float64)


@case("6.9")
def complex64(s: Subject) -> Any:
    """complex64, with conjugates"""
    x = s.leaf(dtype=torch.complex64)
    s.run(lambda x: (x.sin() * x.conj()).exp() @ x.mH.cos(), x).abs().sum().backward()
    return x.grad


@case("6.9", moves=False)
def conjugate_bit(s: Subject) -> Any:
    """a saved tensor with the conjugate bit"""
    return _held(s, torch.conj, dtype=torch.complex64)


@case("6.9", moves=False)
def negative_bit(s: Subject) -> Any:
    """a saved tensor with the negative bit"""
    return _held(s, lambda h: h.conj().imag, dtype=torch.complex64)


@case("6.9")
def complex_seen_as_real(s: Subject) -> Any:
    """view_as_real and view_as_complex"""
    x = s.leaf(256, 64, 2)
    out = s.run(lambda x: torch.view_as_real(torch.view_as_complex(x.sin()).exp().sin()).cos(), x)
    out.sum().backward()
    return x.grad


@case("6.9")
def bools_and_integers(s: Subject) -> Any:
    """bool, uint8, int16, int32 and int64 tensors that are saved"""
    kinds = (torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64)
    return [_held(s, lambda h, kind=kind: (h * 99).to(kind), 1024, 256) for kind in kinds]


@case("6.9")
def eight_bit_floats(s: Subject) -> Any:
    """float8 tensors that are saved"""
    return [_held(s, lambda h, kind=kind: h.to(kind), 1024, 256)
            for kind in (torch.float8_e4m3fn, torch.float8_e5m2)]


@case("6.9")
def every_bit_pattern(s: Subject) -> Any:
    """NaN payloads, infinities, denormals and minus zero come back bit for bit"""
    def pattern(h: torch.Tensor) -> torch.Tensor:
        words = torch.arange(h.numel(), device=h.device, dtype=torch.int64) * 2654435761 % (1 << 32)
        return (words - (1 << 31)).to(torch.int32).view(h.shape) + 0
    return _held(s, pattern), _held(s, lambda h: pattern(h).view(torch.float32))


@case("6.9", moves=False)
def quantised(s: Subject) -> Any:
    """a quantised tensor that is saved"""
    if s.device.type != "cpu":
        raise NotApplicable("the device has no quantised tensors")
    seen: list[Any] = []

    class Save(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(torch.quantize_per_tensor(x, 0.1, 10, torch.quint8))
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (held,) = ctx.saved_tensors
            seen.append((held.is_quantized, held.int_repr(), held.q_scale()))
            return grad * held.dequantize()
    x = s.leaf(1024, 256)
    s.run(Save.apply, x).sum().backward()
    return seen, x.grad


@case("6.9 DeepSpeed#7686", moves=False)
def empty_and_scalar(s: Subject) -> Any:
    """tensors of zero size and of no dimension"""
    x, y = s.leaf(0, 128), torch.tensor(1.5, device=s.device, requires_grad=True)
    out = s.run(lambda x, y: ((x.sin() * y).exp().sum() + y.exp().sin()), x, y)
    out.backward()
    return x.grad, y.grad, _held(s, lambda h: h[3:3]), _held(s, lambda h: h[3, 4])


@case("6.9")
def wrapped_numbers(s: Subject) -> Any:
    """Python numbers in operators"""
    x = s.leaf()
    out = s.run(lambda x: (2.5 * x.exp() / 3) ** 2.5 + torch.where(x > 0, x.sin(), 2) + 3 ** x.sin(), x)
    out.sum().backward()
    return x.grad


@case("6.9", moves=False)
def sparse(s: Subject) -> Any:
    """sparse COO tensors and a sparse gradient"""
    if s.device.type != "cpu":
        raise NotApplicable("the device has no sparse tensors")
    table = s.module(torch.nn.Embedding(512, 64, sparse=True))
    x = s.leaf(128, 64)
    matrix = torch.eye(128, device=s.device).to_sparse().requires_grad_()
    tokens = torch.arange(128, device=s.device) * 7 % 100
    out = s.run(lambda x: torch.sparse.mm(matrix * 2, x.exp()).sin() * table(tokens), x)
    out.sum().backward()
    return x.grad, matrix.grad, table.weight.grad


@case("6.9", moves=False)
def sparse_rows(s: Subject) -> Any:
    """a sparse CSR matrix"""
    if s.device.type != "cpu":
        raise NotApplicable("the device has no sparse tensors")
    matrix = torch.eye(256).to_sparse_csr()
    x = s.leaf()
    s.run(lambda x: (matrix @ x.exp()).sin(), x).sum().backward()
    return x.grad


@case("6.9", moves=False)
def nested(s: Subject) -> Any:
    """nested tensors, strided and jagged"""
    if s.device.type != "cpu":
        raise NotApplicable("the device has no nested tensors")
    grads = []
    for layout in (torch.strided, torch.jagged):
        x, y = s.leaf(300, 64), s.leaf(200, 64)
        make = functools.partial(torch.nested.as_nested_tensor, layout=layout)
        out = s.run(lambda x, y, make=make: torch.relu(make([x, y])), x, y)
        (out.values() if layout == torch.jagged else torch.cat(out.unbind())).sum().backward()
        grads += [x.grad, y.grad]
    return grads


@case("6.9", moves=False)
def mkldnn(s: Subject) -> Any:
    """tensors of oneDNN's own layout"""
    if s.device.type != "cpu":
        raise NotApplicable("a layout of the CPU only")
    x = s.leaf()
    s.run(lambda x: torch.relu(x.sin().to_mkldnn()).to_dense().exp(), x).sum().backward()
    return x.grad


class Named(torch.Tensor):
    """A subclass by __torch_function__ alone."""


@case("6.9", wrong="the subclass is lost")
def subclass_by_function(s: Subject) -> Any:
    """a subclass by __torch_function__"""
    seen: list[Any] = []

    class Save(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(held)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            (held,) = ctx.saved_tensors
            seen.append((type(held).__name__, held.as_subclass(torch.Tensor)))
            return grad, None
    x = s.leaf()
    named = s.tensor().as_subclass(Named)
    s.run(lambda x: Save.apply(x.exp().sin(), named), x).sum().backward()
    return seen, x.grad


class Two(torch.Tensor):
    """A wrapper of two tensors by __torch_dispatch__."""

    @staticmethod
    def __new__(cls, first: torch.Tensor, second: torch.Tensor) -> "Two":
        return torch.Tensor._make_wrapper_subclass(
            cls, first.size(), strides=first.stride(), dtype=first.dtype, device=first.device,
            requires_grad=first.requires_grad)

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        self.first, self.second = first, second

    @classmethod
    def __torch_dispatch__(cls, function: Any, kinds: Any, args: Any = (), named: Any = None) -> Any:
        def part(name: str) -> Any:
            return torch.utils._pytree.tree_map_only(Two, lambda t: getattr(t, name), (args, named or {}))
        one, two = part("first"), part("second")
        first, second = function(*one[0], **one[1]), function(*two[0], **two[1])
        result = torch.utils._pytree.tree_map(
            lambda a, b: Two(a, b) if isinstance(a, torch.Tensor) else a, first, second)
        return return_and_correct_aliasing(function, args, named or {}, result)


@case("6.9", moves=False, wrong="the subclass is lost")
def subclass_by_dispatch(s: Subject) -> Any:
    """a subclass by __torch_dispatch__ that wraps two tensors"""
    x = Two(s.tensor(), s.tensor()).requires_grad_()
    s.run(lambda x: (x.sin() * x.cos()).exp().tanh(), x).sum().backward()
    return type(x.grad).__name__, x.grad.first, x.grad.second


@case("6.17")
def memory_of_numpy(s: Subject) -> Any:
    """tensors over numpy's memory"""
    if s.device.type != "cpu":
        raise NotApplicable("numpy has memory of the CPU only")
    array = s.tensor().numpy().copy()
    x = s.leaf()
    s.run(lambda x: torch.from_numpy(array) * x.exp().sin(), x).sum().backward()
    return x.grad


@case("6.17")
def memory_of_a_file(s: Subject) -> Any:
    """tensors over a mapped file and over shared memory"""
    if s.device.type != "cpu":
        raise NotApplicable("files are mapped into memory of the CPU only")
    path = pathlib.Path(s.system.folder) / f"mapped-{os.getpid()}"
    path.write_bytes(s.tensor().numpy().tobytes())
    mapped = torch.from_file(str(path), shared=True, size=256 * 128).view(256, 128)
    shared = s.tensor().share_memory_()
    x = s.leaf()
    s.run(lambda x: (mapped * x.exp()).sin() * shared, x).sum().backward()
    path.unlink()
    return x.grad


@case("torchtune#2456")
def tensors_of_the_host(s: Subject) -> Any:
    """a custom Function that saves tensors of the CPU beside those of the device"""
    class Save(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, host)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            x, host = ctx.saved_tensors
            return grad * x * host.to(grad.device), None
    x, host = s.leaf(), s.tensor().cpu()
    s.run(lambda x: Save.apply(x.exp(), host), x).sum().backward()
    return x.grad, host.device.type


@case("6.12", moves=False)
def meta_and_fake(s: Subject) -> Any:
    """meta tensors, and fake tensors, inside"""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def forward(x: torch.Tensor) -> torch.Tensor:
        other = torch.ones(512, 512, device="meta", requires_grad=True)
        other.sin().exp().sum().backward()
        with FakeTensorMode():
            fake = torch.ones(512, 512, requires_grad=True)
            fake.sin().exp().sum().backward()
        return x.sin().exp() * other.grad.size(0) * fake.grad.size(1)
    x = s.leaf(4)
    s.run(forward, x).sum().backward()
    return x.grad
