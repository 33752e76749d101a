# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""The operators of the programs, by name: what runs for one statement without a body."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import functions

Result = Tensor | tuple[Tensor, ...] | list[Tensor] | None
Attrs = dict[str, Any]
Operator = Callable[..., Result]

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "sin": torch.sin, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "gelu": F.gelu,
    "silu": F.silu, "abs": torch.abs, "square": torch.square, "neg": torch.neg, "softplus": F.softplus,
    "leaky_relu": F.leaky_relu, "elu": F.elu, "hardswish": F.hardswish, "erf": torch.erf,
    "log1p_abs": lambda x: x.abs().log1p(), "exp_small": lambda x: (x * 0.1).exp(),
    "rsqrt_abs": lambda x: (x.abs() + 1).rsqrt(), "pow3": lambda x: x ** 3, "scale": lambda x: x * 0.75,
    "clamp": lambda x: x.clamp(-0.5, 0.5), "tril": torch.tril, "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(3, 0), "cumsum": lambda x: x.cumsum(-1), "clone": torch.clone,
    "contiguous": Tensor.contiguous, "detach": Tensor.detach, "nan_to_num": torch.nan_to_num,
    "twice": lambda x: x * x, "reciprocal": torch.reciprocal, "sqrt": torch.sqrt, "conj": torch.conj,
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div_safe": lambda x, y: x / (y.abs() + 1),
    "maximum": torch.maximum, "where": lambda x, y: torch.where(x > 0, x, y),
    "lerp": lambda x, y: x.lerp(y, 0.3),
    "atan2": torch.atan2, "addcmul": lambda x, y: torch.addcmul(x, x, y), "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss, "hypot": torch.hypot,
    "prelu_like": lambda x, y: torch.where(x > 0, x, x * y),
    "masked_fill": lambda x, y: x.masked_fill(y > 0.5, 0.25), "bce": F.binary_cross_entropy_with_logits,
    "huber": F.huber_loss, "cosine": lambda x, y: F.cosine_similarity(x, y, dim=-1),
    "logaddexp": torch.logaddexp,
    "dist": torch.dist, "min_pair": torch.minimum,
}
REDUCE: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": torch.sum, "mean": torch.mean, "sum_rows": lambda x: x.sum(0), "mean_last": lambda x: x.mean(-1),
    "amax": lambda x: x.amax(-1), "var": lambda x: x.var(-1), "norm": torch.linalg.vector_norm,
    "logsumexp": lambda x: x.logsumexp(-1), "max_values": lambda x: x.max(-1).values, "std": torch.std,
    "sort_values": lambda x: x.sort(-1).values, "topk": lambda x: x.topk(2, -1).values,
    "prod": lambda x: x.prod(-1),
    "median": lambda x: x.median(-1).values,
}
NORMAL: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1),
    "softmax_rows": lambda x: x.softmax(0), "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]), "normalize": lambda x: F.normalize(x, dim=-1),
}
INPLACE: dict[str, Callable[[Tensor], Any]] = {
    "mul_": lambda x: x.mul_(1.5), "add_": lambda x: x.add_(1), "relu_": lambda x: x.relu_(),
    "zero_": lambda x: x.zero_(), "tanh_": lambda x: x.tanh_(), "clamp_": lambda x: x.clamp_(-1, 1),
    "fill_row": lambda x: x[0].fill_(0.5), "square_": lambda x: x.square_(), "t_": lambda x: x.t_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0), "data_mul": lambda x: x.data.mul_(1.25),
    "numpy_write": lambda x: x.detach().numpy().fill(0.5), "detach_mul": lambda x: x.detach().mul_(0.5),
    "foreach_mul": lambda x: torch._foreach_mul_([x], 0.5), "detach_": lambda x: x.detach_(),
    "masked_": lambda x: x.masked_fill_(x > 1, 0.0), "slice_add": lambda x: x[1:].add_(0.5),
    "requires_grad_": lambda x: x.requires_grad_(), "bernoulli_": lambda x: x.bernoulli_(0.5),
}
INPLACE_PAIR: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "copy_": lambda x, y: x.copy_(y), "mul_by_": lambda x, y: x.mul_(y), "sub_": lambda x, y: x.sub_(y),
    "setitem": lambda x, y: x.__setitem__(slice(0, 2), y[:2]), "addcmul_": lambda x, y: x.addcmul_(y, y),
    "lerp_": lambda x, y: x.lerp_(y, 0.5), "out_add": lambda x, y: torch.add(y, y, out=x),
}
INDEX: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_select": lambda x, i: x.index_select(0, i), "getitem": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i.reshape(-1, *[1] * (x.dim() - 1)).expand(-1, *x.shape[1:])),
    "index_add": lambda x, i: x.index_add(0, i, x[: len(i)]), "take": lambda x, i: x.take(i),
    "scatter_add": lambda x, i: x.scatter_add(0, i.reshape(-1, *[1] * (x.dim() - 1)), x),
    "index_put": lambda x, i: x.index_put((i,), x[: len(i)] * 2), "embedding": lambda x, i: F.embedding(i, x),
    "cross_entropy": lambda x, i: F.cross_entropy(x[: len(i)], i),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "embedding_padded": lambda x, i: F.embedding(i, x, padding_idx=0),
    "embedding_sparse": lambda x, i: F.embedding(i, x, sparse=True),
    "embedding_bag": lambda x, i: F.embedding_bag(i.reshape(2, -1), x),
}
VIEW: dict[str, Callable[[Tensor, Attrs], Result]] = {
    "narrow": lambda x, a: x.narrow(a["dim"], a["start"], a["length"]),
    "reshape": lambda x, a: x.reshape(a["shape"]),
    "transpose": lambda x, a: x.transpose(-1, 0), "permute": lambda x, a: x.permute(a["order"]),
    "view": lambda x, a: x.view(a["shape"]), "expand": lambda x, a: x.expand(a["shape"]),
    "as_strided": lambda x, a: x.as_strided(a["shape"], a["stride"], a["offset"]),
    "select": lambda x, a: x.select(a["dim"], 0), "diagonal": lambda x, a: x.diagonal(),
    "chunk": lambda x, a: x.chunk(2, a["dim"]), "split": lambda x, a: x.split(a["sizes"], 0),
    "unfold": lambda x, a: x.unfold(-1, 2, 2), "unsqueeze": lambda x, a: x.unsqueeze(0),
    "view_as_real": lambda x, a: torch.view_as_real(x), "real": lambda x, a: x.real,
    "imag": lambda x, a: x.imag,
    "to": lambda x, a: x.to(getattr(torch, a["dtype"])), "complex": lambda x, a: torch.complex(x, x * 0.5),
    "channels_last": lambda x, a: x.contiguous(memory_format=torch.channels_last),
    "squeeze": lambda x, a: x.squeeze(0),
    "alias": lambda x, a: x.view_as(x), "view_dtype": lambda x, a: x.view(torch.int32),
    "repeat": lambda x, a: x.repeat_interleave(2, 0), "pad": lambda x, a: F.pad(x, (1, 2)),
    "unbind": lambda x, a: x.unbind(0)[:2],
    "max_pool": lambda x, a: F.max_pool2d(x, 2), "avg_pool": lambda x, a: F.avg_pool2d(x, 2),
    "interpolate": lambda x, a: F.interpolate(x, scale_factor=2),
    "gram": lambda x, a: x.transpose(-1, -2) @ x,
    "nonzero_mask": lambda x, a: x[x > 0.5], "masked_select": lambda x, a: x.masked_select(x > 0),
    "dropout": lambda x, a: F.dropout(x, a["p"]), "alpha_dropout": lambda x, a: F.alpha_dropout(x, a["p"]),
    "bool_mask": lambda x, a: x > 0, "zeros_like": lambda x, a: torch.zeros_like(x, requires_grad=True),
    "attention": lambda x, a: F.scaled_dot_product_attention(x[None], x[None] * 0.5, x[None].sin()),
    "func_grad": lambda x, a: torch.func.grad(lambda y: (y.sin() * y).sum())(x),
    "func_jvp": lambda x, a: torch.func.jvp(lambda y: y.tanh() * y, (x,), (x.detach(),)),
    "func_vjp": lambda x, a: torch.func.vjp(lambda y: y.sin() * y, x)[1](torch.ones_like(x))[0],
    "vmap": lambda x, a: torch.func.vmap(lambda row: row.sin() * row.sum())(x),
}
MANY: dict[str, Callable[..., Result]] = {
    "cat": lambda *x: torch.cat(x), "stack": lambda *x: torch.stack(x), "matmul": torch.matmul,
    "linear": F.linear,
    "conv2d": lambda x, w, *b: F.conv2d(x, w, *b, padding=1), "addmm": torch.addmm,
    "affine": lambda x, w, b: F.layer_norm(x, w.shape, w, b),
    "batch_norm_running": lambda x, m, v: F.batch_norm(x, m, v, training=True),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "prelu": F.prelu, "bilinear": F.bilinear,
    "outer": lambda x, y: torch.outer(x.flatten()[:128], y.flatten()[:130]),
}


def _mask_dropout(x: Tensor, attrs: Attrs) -> Tensor:
    generator = torch.Generator().manual_seed(attrs["seed"])
    return x * (torch.rand(x.shape, generator=generator) > attrs["p"]) / (1 - attrs["p"])


def _loss(parts: list[Tensor]) -> Tensor:
    real = (part.abs() if part.is_complex() else part for part in parts)
    return torch.stack([part.float().square().sum() * 0.01 for part in real]).sum()


def apply(op: str, tensors: list[Tensor], attrs: Attrs) -> Result:
    """What `op` gives; None where it only writes. In-place operators that return their target are None,
    too."""
    for table in (UNARY, BINARY, REDUCE, NORMAL, INDEX, MANY):
        if op in table:
            return table[op](*tensors)
    for table in (INPLACE, INPLACE_PAIR):
        if op in table:
            if attrs.get("no_grad"):
                with torch.no_grad():
                    table[op](*tensors)
            else:
                table[op](*tensors)
            return None
    if op == "mask_dropout":
        return _mask_dropout(tensors[0], attrs)
    if op == "loss":
        return _loss(tensors)
    if op == "function":
        return functions.ALL[attrs["name"]].apply(*tensors)
    return VIEW[op](tensors[0], attrs)
