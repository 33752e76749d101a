# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a session that records nothing warns of, once and at the user's line."""

import gc
import os
import unittest
import warnings
from typing import Any

import spillway
import torch

import same_bits
from layers import loss_of, model


class Warned(same_bits.Case):
    def warnings_of(self, body: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            body()
            gc.collect()
        return [str(each.message) for each in caught if each.category is spillway.SpillwayWarning]

    def test_a_session_that_records_nothing_says_so_once(self):
        net = model(1)

        def never_entered() -> None:
            session = self.open(net, "8MiB")
            loss_of(net).backward()
            session.report()
            session.close()

        def steps_outside() -> None:
            session = self.open(net, "8MiB")
            sgd = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                loss_of(net).backward()
                sgd.step()
                self.assertIn("nothing", session._has_warned)  # at the first step

        def dropped() -> None:
            spillway.session(net, device_budget="8MiB", nvme=self.folder)

        def without_grad() -> None:
            session = self.open(net, "8MiB")
            with session, torch.no_grad():
                loss_of(net)
            session.close()

        for body, words in ((never_entered, "never entered"), (steps_outside, "never entered"), (dropped, "never entered"),
                            (without_grad, "autograd saved nothing")):
            with self.subTest(body.__name__):
                said = self.warnings_of(body)
                self.assertEqual(len(said), 1, said)
                self.assertIn(words, said[0])

    def test_one_that_records_says_nothing(self):
        def body() -> None:
            session = self.open(model(1), "8MiB")
            with session:
                loss_of(session._model).backward()
            session.report()
            session.close()
            print(session.report(), file=open(os.devnull, "w"))

        self.assertEqual(self.warnings_of(body), [])

    def test_a_forward_that_ran_out_of_memory_before_it_saved_anything_is_not_blamed(self):
        net = model(1)

        def body() -> None:
            session = self.open(net, "8MiB")
            with self.assertRaises(torch.OutOfMemoryError), session:
                torch.empty(64 << 20)
            session.report()
            session.close()

        self.assertEqual(self.warnings_of(body), [])


if __name__ == "__main__":
    unittest.main()
