# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What leaves a session with an error in flight is that error, whatever was done to the session before; and warnings that
are errors leave nothing open."""

import os
import sys
import unittest
import warnings
from unittest import mock

import spillway
import torch

import same_bits
from layers import loss_of, model


class ErrorsInTheWith(same_bits.Case):
    def test_the_users_error_is_raised_where_another_session_is_still_entered(self):
        outer, inner = self.open(model(1), "16MiB"), self.open(model(1), "8MiB")
        for error in (KeyError("the user's"), torch.OutOfMemoryError("the user's")):
            with self.assertRaisesRegex(type(error), "the user's"), outer:
                inner.start()
                raise error
        for session in (inner, outer):  # both were left
            with session:
                loss_of(session._model).backward()

    def test_the_users_error_is_raised_where_the_session_was_left_before(self):
        session = self.open(model(1), "16MiB")
        with self.assertRaises(KeyError), session:
            session.stop()
            raise KeyError
        with self.assertRaises(spillway.StateError), session:
            session.stop()  # no error is in flight: this one is told

    def test_a_child_that_exits_inside_has_its_own_exit_code(self):
        session = self.open(model(1), "16MiB")
        child = 0
        try:
            with session:
                child = os.fork()
                if child == 0:
                    sys.exit(3)
        except SystemExit as leaving:
            os._exit(int(str(leaving.code)))
        except BaseException:
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)

    def test_a_warning_that_is_an_error_leaves_the_session_closed(self):
        session = self.open(model(1), "16MiB")
        with session:
            pass
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loss_of(session._model).backward()
            with self.assertRaises(spillway.SpillwayWarning):
                session.close()
        self.assertIn("closed", repr(session))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(spillway.SpillwayWarning):
                spillway.session(model(1), device_budget="2MiB", recompute="off")
        torch.empty(8 << 20)  # nothing caps

    def test_names_that_are_not_utf_8(self):
        odd = os.fsdecode(os.fsencode(self.folder) + b"/nv\xff")
        os.mkdir(odd)
        for option in ("nvme", "timeline", "record_events", "flight_record"):
            with self.assertRaisesRegex(spillway.OptionError, f"{option}: the path .* not UTF-8"):
                self.open(model(1), "16MiB", **{option: odd if option == "nvme" else f"{odd}/file"})
        net = torch.nn.Sequential()
        net.add_module("\udcff", model(3))
        session = self.open(net, "16MiB")
        with session:
            loss_of(net).backward()
        self.assertIn("saved tensors", session.explain("\udcff"))
        with self.assertRaisesRegex(spillway.OptionError, "file: the path .* not UTF-8"):
            session.timeline(f"{odd}/file")

    def test_an_interrupt_just_after_entering_leaves_the_session(self):
        session = self.open(model(1), "8MiB")
        with mock.patch("spillway._update.next_use", side_effect=[KeyboardInterrupt, 1, 2, 3]), \
                self.assertRaises(KeyboardInterrupt), session:
            self.fail("it was interrupted before")
        with session:
            loss_of(session._model).backward()
        session.close()


if __name__ == "__main__":
    unittest.main()
