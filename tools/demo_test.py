# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
import json
import unittest

import demo
from train_runs import MIB, Run

CAP = 700 * MIB
PEAK = 2200 * MIB
LOSSES = [5.5, 5.25, 4.1, 3.9, 3.7, 3.6]
REFUSAL = ("--device-budget 700MiB: step 1 forward: aten::addmm asked for 20.0 MiB with 695.0 MiB in use, "
           "20971520 bytes; --policy online would make it fit")


def run(name: str, ok: bool = True, **results: object) -> Run:
    return Run(name, ok, [], {"ok": ok, "losses": LOSSES, "step_seconds": [9.0, 1.0, 1.0, 1.0, 1.0, 1.0],
                              "process_peak_bytes": 1000 * MIB, "baseline_rss_bytes": 180 * MIB,
                              "bytes_written": 0, "bytes_read": 0, "options": {"parameters": 10 * MIB},
                              **results})


def spillway(**changes: object) -> Run:
    return run("spillway", **{"allocator_peak_bytes": CAP, "bytes_written": 1500 * MIB * 6,
                              "step_seconds": [9.0, 1.04, 1.04, 1.04, 1.04, 1.04], **changes})


def shown(**changes: object) -> demo.Demo:
    fields = {"cap_bytes": CAP, "steps": 6, "count": run("count", allocator_peak_bytes=PEAK),
              "plain": [run("plain"), run("plain")], "spillway": [spillway()],
              "capped": run("plain_capped", ok=False, error=REFUSAL, losses=[], step_seconds=[])}
    return demo.Demo(**{**fields, **changes})


class Broken(unittest.TestCase):
    def assert_broken(self, name: str, **changes: object) -> None:
        faults = demo.broken(shown(**changes))
        self.assertEqual(len(faults), 1, faults)
        self.assertIn(name, faults[0])

    def test_nothing_is(self) -> None:
        self.assertEqual(demo.broken(shown()), [])

    def test_one_loss_differs_in_the_last_digit(self) -> None:
        self.assert_broken("step 6", spillway=[spillway(losses=[*LOSSES[:-1], 3.6000001])])

    def test_a_step_is_missing(self) -> None:
        self.assert_broken("6 and 5 steps", spillway=[spillway(
            losses=LOSSES[:-1], bytes_written=1500 * MIB * 6)])

    def test_a_loss_is_not_a_number(self) -> None:
        odd = [*LOSSES[:-1], None]
        self.assertTrue(any("losses" in fault for fault in demo.broken(
            shown(plain=[run("plain", losses=odd)], spillway=[spillway(losses=odd)]))))

    def test_allocator_peak(self) -> None:
        self.assert_broken("allocator peak", spillway=[spillway(allocator_peak_bytes=CAP + 1)])

    def test_process_peak(self) -> None:
        allowed = 180 * MIB + CAP * 11 // 10 + 64 * MIB
        self.assertEqual(demo.broken(shown(spillway=[spillway(process_peak_bytes=allowed)])), [])
        self.assert_broken("process peak", spillway=[spillway(process_peak_bytes=allowed + 1)])

    def test_too_little_written(self) -> None:
        self.assert_broken("bytes written", spillway=[spillway(bytes_written=1200 * MIB * 6 - 1)])

    def test_too_slow(self) -> None:
        self.assert_broken("step ratio", spillway=[spillway(step_seconds=[1.0, 1.11, 1.11])])

    def test_no_time_is_judged_on_an_unsteady_machine(self) -> None:
        slow = spillway(step_seconds=[1.0, 1.9, 1.9])
        noisy = shown(plain=[run("plain"), run("plain", step_seconds=[9.0, 1.03, 1.03])], spillway=[slow])
        self.assertEqual(demo.broken(noisy), [])
        self.assertEqual(demo.unsteady(noisy),
                         "plain's runs differ by 3%; times are judged where two of them differ by at most 2%")
        self.assertTrue(demo.broken(shown(plain=noisy.plain, spillway=[spillway(losses=LOSSES[1:])])))
        self.assert_broken("step ratio", spillway=[slow])

    def test_one_plain_run_says_nothing_of_the_machine(self) -> None:
        self.assertIn("plain ran once", demo.unsteady(shown(plain=[run("plain")])))
        self.assertEqual(demo.unsteady(shown()), "")

    def test_cap_above_a_third(self) -> None:
        self.assert_broken("a third", count=run("count", allocator_peak_bytes=3 * CAP - 1))

    def test_state_is_too_much_of_the_peak(self) -> None:
        self.assert_broken("optimizer state", plain=[run("plain", options={"parameters": PEAK // 16})])

    def test_too_few_steps(self) -> None:
        self.assert_broken("at least 5", steps=4)

    def test_a_run_failed(self) -> None:
        self.assert_broken("spillway failed: the disk", spillway=[
            run("spillway", ok=False, error="the disk")])

    def test_capped_run_trained(self) -> None:
        self.assert_broken("plain_capped", capped=run("plain_capped"))

    def test_refusal_has_to_advise_a_flag(self) -> None:
        self.assert_broken("which flag", capped=run(
            "plain_capped", ok=False, error=REFUSAL.replace("--policy", "policy")))


class Written(unittest.TestCase):
    def test_json_has_the_promised_keys(self) -> None:
        result = json.loads(json.dumps(demo.as_json(shown())))
        self.assertEqual(list(result), ["cap_bytes", "baseline_rss_bytes", "steady", "runs"])
        self.assertEqual([run["name"] for run in result["runs"]], ["plain", "plain_capped", "spillway"])
        for one in result["runs"]:
            self.assertEqual(list(one), ["name", "ok", "error", "losses", "allocator_peak_bytes",
                                         "process_peak_bytes", "bytes_written", "bytes_read", "step_seconds"])
        plain, capped, ours = result["runs"]
        self.assertEqual((plain["ok"], plain["error"], plain["allocator_peak_bytes"]), (True, None, PEAK))
        self.assertEqual((capped["ok"], capped["losses"], capped["step_seconds"]), (False, None, None))
        self.assertEqual((ours["losses"], ours["step_seconds"]), (LOSSES, 1.04))

    def test_steps_of_both_runs_count(self) -> None:
        pair = shown(plain=[run("plain", step_seconds=[9, 1, 1]), run("plain", step_seconds=[9, 3, 3])])
        self.assertEqual(demo.as_json(pair)["runs"][0]["step_seconds"], 2)

    def test_table_is_whole_when_nothing_is_known(self) -> None:
        nothing = Run("x", False, ["no disk"], {})
        empty = shown(count=nothing, plain=[nothing], spillway=[nothing], capped=nothing)
        text = demo.table(empty, demo.as_json(empty))
        self.assertEqual(len(text.splitlines()), 4)
        self.assertTrue(demo.broken(empty))


if __name__ == "__main__":
    unittest.main()
