# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""A Function gets the Python class and the attributes of what it saved back, as plain autograd gives them."""

import unittest

import torch

import same_bits
from as_plain import BUDGET, ROWS, AsPlain


class Product(torch.autograd.Function):
    """Saves its input, a tensor of a subclass."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.as_subclass(torch.Tensor) * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return (x * gradient).as_subclass(torch.Tensor)


class PythonClasses(AsPlain):
    def test_a_subclass_keeps_its_arithmetic_and_its_attributes(self):
        class Doubling(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                result = super().__torch_function__(func, types, args, kwargs or {})
                if func in (torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__, torch.mul):
                    result = result.add(args[0].extra if hasattr(args[0], "extra") else 1)
                return result

        for leaf in (False, True):
            def body(x, push_out):
                source = x.detach().as_subclass(Doubling).requires_grad_() if leaf else x.sin().as_subclass(Doubling)
                source.extra = 5
                y = Product.apply(source)
                push_out()
                y.sum().backward()
                return same_bits.bits([x.grad if not leaf else source.grad.as_subclass(torch.Tensor)])

            with self.subTest(leaf=leaf):
                self.as_plain(body, moved=False)

    def test_attributes_of_what_was_saved_are_there_in_backward(self):
        """Quantizers keep the scale on the tensor; Megatron adds to `weight.main_grad` and sets a flag there."""
        class Quantized(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, weight):
                codes = (x * 8).round().to(torch.int8)
                codes._scale = 0.125
                ctx.save_for_backward(codes, x, weight)
                return x * weight

            @staticmethod
            def backward(ctx, gradient):
                codes, x, weight = ctx.saved_tensors
                weight.main_grad.add_(gradient * codes.to(gradient.dtype) * getattr(codes, "_scale", 1.0))
                weight.is_added = True
                return gradient * weight * getattr(x, "late", 1.0), None

        class OwnParameter(torch.nn.Parameter):
            pass

        for kind in (torch.nn.Parameter, OwnParameter):
            for drops in (True, False):
                def body(x, push_out):
                    weight = kind(x.detach() + 1)
                    weight.main_grad = torch.zeros_like(weight)
                    weight.is_added = False
                    y = x * 2
                    loss = Quantized.apply(y, weight).square().sum()
                    if drops:
                        del y
                    else:
                        y.late = 3.0
                    push_out()
                    loss.backward()
                    self.assertTrue(weight.is_added)
                    self.assertIsNone(weight.grad)
                    return same_bits.bits([x.grad, weight.main_grad])

                with self.subTest(kind=kind.__name__, drops=drops):
                    session = self.as_plain(body)
                    self.assertGreater(session.report()["loaded_bytes"], 0)

    def test_a_function_that_saves_its_own_output_gets_it_back_bare(self):
        class Marked(torch.Tensor):
            pass

        class Records(torch.autograd.Function):
            kind: type = torch.Tensor

            @staticmethod
            def forward(ctx, x):
                out = (x * 2).as_subclass(Records.kind)
                with torch.enable_grad():
                    (x.detach().requires_grad_() * 2).sin()  # nodes after the one that saves
                out._scale = 3.0
                ctx.save_for_backward(out)
                return out

            @staticmethod
            def backward(ctx, gradient):
                (out,) = ctx.saved_tensors
                factor = getattr(out, "_scale", 1.0) + (5.0 if isinstance(out, Marked) else 0.0)
                return (gradient * out * factor).as_subclass(torch.Tensor)

        for kind in (torch.Tensor, Marked):
            def body(x, push_out):
                y = Records.apply(x * 1.5).as_subclass(torch.Tensor).sum()
                push_out()
                y.backward()
                return same_bits.bits([x.grad])

            Records.kind = kind
            with self.subTest(kind=kind.__name__):
                self.as_plain(body, moved=False)

    def test_a_subclass_with_slots(self):
        class Slotted(torch.Tensor):
            __slots__ = ("scale",)

        class Scales(Product):
            @staticmethod
            def backward(ctx, gradient):
                (x,) = ctx.saved_tensors
                return (gradient * x * x.scale).as_subclass(torch.Tensor)

        def body(x, push_out):
            slotted = (x * 1.5).as_subclass(Slotted)
            slotted.scale = 0.25
            y = Scales.apply(slotted).sum()
            del slotted
            push_out()
            y.backward()
            return same_bits.bits([x.grad])

        self.as_plain(body, moved=False)

    def test_a_subclass_that_cannot_be_made_again_says_what_it_raised(self):
        class Guarded(torch.Tensor):
            __slots__ = ("scale",)

            def __getattribute__(self, name):
                if name == "scale":
                    raise ValueError("its scale is not known\nin the second line")
                return super().__getattribute__(name)

        with self.open(torch.nn.Linear(2, 2), BUDGET):
            x = same_bits.noise(ROWS, ROWS).requires_grad_()
            y = Product.apply((x * 1.5).as_subclass(Guarded)).sum()
        with self.assertRaises(RuntimeError) as raised:
            y.backward()
        self.assertIn("a saved tensor is of a subclass of torch.Tensor, Guarded, that could not be made again (ValueError: its scale "
                      "is not known); save a plain tensor (tensor.as_subclass(torch.Tensor)), or", str(raised.exception))

    def test_a_subclass_is_what_became_of_it_at_the_next_look(self):
        class Marked(torch.Tensor):
            pass

        class Swaps(Product):
            @staticmethod
            def backward(ctx, gradient):
                (x,) = ctx.saved_tensors
                result = (gradient * x).as_subclass(torch.Tensor)
                x.data = x.data * 2
                return result

        def body(x, push_out):
            y = Swaps.apply((x * 1.5).as_subclass(Marked)).sum()
            push_out()
            y.backward(retain_graph=True)
            y.backward()
            return same_bits.bits([x.grad])

        self.as_plain(body, moved=False)


if __name__ == "__main__":
    unittest.main()
