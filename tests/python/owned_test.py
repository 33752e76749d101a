# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What counts as a model's own: parameters inside wrappers, lazy ones; and what holds a session cannot be copied."""

import copy
import pickle
import unittest
import unittest.mock
import warnings
from typing import Any

import spillway
import torch
from spillway import _owned

import same_bits
from layers import WIDTH, loss_of, model


class Opaque(torch.Tensor):
    """A wrapper without `__tensor_flatten__`."""
    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Opaque":
        wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        wrapper.inner = inner
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator is torch.ops.aten.detach.default:
            return cls(args[0].inner)
        raise NotImplementedError(operator)


class Owned(same_bits.Case):
    def test_a_wrapper_counts_what_is_inside_it(self):
        from torch.testing._internal.two_tensor import TwoTensor

        net = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        net.weight = torch.nn.Parameter(TwoTensor(torch.ones(WIDTH, WIDTH), torch.ones(WIDTH, WIDTH)))
        session = self.open(net, "8MiB")
        self.assertAlmostEqual(session.report()["device_bytes"], 2 << 20, delta=1 << 16)
        session.close()
        with self.assertRaises(spillway.BudgetError):
            self.open(net, "2MiB")

    def test_a_wrapper_that_does_not_say_what_is_inside_counts_nothing_and_warns_once(self):
        net = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        net.weight = torch.nn.Parameter(Opaque(torch.ones(WIDTH, WIDTH)))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            session = self.open(net, "512KiB")
            with session:
                torch.ones(4).sin()
            with session:
                pass
        self.assertLess(session.report()["device_bytes"], 1 << 16)
        of_sizes = [str(each.message) for each in told if "__tensor_flatten__" in str(each.message)]
        self.assertEqual(len(of_sizes), 1, told)
        self.assertIn("weight is of class Opaque", of_sizes[0])

    def test_lazy_parameters_count_when_they_are_there(self):
        net = torch.nn.Sequential(torch.nn.LazyLinear(WIDTH), torch.nn.LazyLinear(WIDTH))
        session = self.open(net, "8MiB")
        with session:
            loss_of(net).backward()
        with session:
            loss_of(net).backward()
        self.assertGreater(session.report()["device_bytes"], 2 << 20)

    def test_buffers_and_states_count_as_they_are_now_where_gradients_keep_their_addresses(self):
        net = torch.nn.Linear(WIDTH, WIDTH)
        adam = torch.optim.AdamW(net.parameters())
        session = self.open(net, "64MiB")

        def owned_after_a_step(kind: str) -> int:
            with session:
                net(torch.ones(1, WIDTH)).sum().backward()
                adam.step()
                adam.zero_grad(set_to_none=False)
            with session:  # entering counts anew
                pass
            return session._runtime.owned_bytes()[kind]

        owned_after_a_step("buffer")
        net.register_buffer("late", torch.zeros(1 << 20))
        self.assertEqual(owned_after_a_step("buffer"), 4 << 20)
        net.late = torch.zeros(1)
        self.assertLess(owned_after_a_step("buffer"), 4096)
        before = owned_after_a_step("optimizer_state")
        twin = torch.nn.Linear(WIDTH, WIDTH)
        twin.weight.grad, twin.bias.grad = torch.ones(WIDTH, WIDTH), torch.ones(WIDTH)
        larger = torch.optim.AdamW(twin.parameters(), amsgrad=True)
        larger.step()
        adam.load_state_dict(larger.state_dict())  # three tensors a parameter, where there were two
        self.assertAlmostEqual(owned_after_a_step("optimizer_state"), before * 3 / 2, delta=8192)

    def test_states_inside_states_count(self):
        class Nested(torch.optim.SGD):
            def step(self, closure=None):
                super().step(closure)
                for parameter in self.param_groups[0]["params"]:
                    self.state[parameter].setdefault("inner", {"sums": [torch.zeros_like(parameter)]})

        net = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        sgd = Nested(net.parameters(), lr=0.1)
        session = self.open(net, "64MiB")
        with session:
            net(torch.ones(1, WIDTH)).sum().backward()
        sgd.step()
        with session:
            pass
        self.assertEqual(session._runtime.owned_bytes()["optimizer_state"], net.weight.nbytes)

    def test_optimizers_are_found_without_a_look_into_what_other_threads_build(self):
        class Own(torch.optim.SGD):
            pass

        model = torch.nn.Linear(4, 4)
        optimizer = Own(model.parameters(), lr=0.1, momentum=0.9)
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        other = torch.optim.Adam(torch.nn.Linear(4, 4).parameters())
        with unittest.mock.patch("gc.get_objects", side_effect=AssertionError("refers to half-built tuples")):
            self.assertEqual(_owned.optimizers_with_state(model), [optimizer])
        del other

    def test_parameters_can_be_swapped_while_a_session_is_open(self):
        """As torch converts and loads them under this setting, and those of wrapper subclasses always."""
        torch.__future__.set_swap_module_params_on_conversion(True)
        self.addCleanup(torch.__future__.set_swap_module_params_on_conversion, False)
        net = model(2)
        sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        session = self.open(net, "64MiB")
        net.load_state_dict(copy.deepcopy(net.state_dict()))
        for inside in (True, False):
            with session:
                loss = loss_of(net)
                if inside:
                    loss.backward()
            if not inside:
                loss.backward()
            del loss
            sgd.step()
            sgd.zero_grad()
            net.load_state_dict(copy.deepcopy(net.state_dict()))
        net.to(torch.float64)

    def test_what_holds_a_session_cannot_be_copied(self):
        session = self.open(model(1), "8MiB")
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.subTest(copied.__name__), self.assertRaisesRegex(spillway.StateError, "open one for the copy"):
                copied({"holder": session} if copied is not copy.copy else session)


if __name__ == "__main__":
    unittest.main()
