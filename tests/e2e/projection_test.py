"""What refit-bench and refit-plan project: onto other hardware, beside published tables, one change at a time."""
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from apps_test import BIN, TESTS, bench, validate

SCHEMAS = TESTS.parent / "scenarios/schema"
TRANSFER = "prepare_for_generation/transfer_and_update_weights"
TOTAL = "prepare_for_generation/total"


def plan(*arguments):
    return subprocess.run([BIN / "refit-plan", *map(str, arguments)], capture_output=True, text=True, timeout=600)


class Projections(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def json_of(self, schema, *arguments, run=bench):
        path = self.folder / "out.json"
        done = run(*map(str, arguments), "--json", str(path))
        self.assertEqual(done.returncode, 0, done.stderr)
        validate(self, path, SCHEMAS / f"{schema}.schema.json")
        return json.loads(path.read_text()), done

    def refused(self, words, *arguments, run=bench):
        done = run(*map(str, arguments))
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_the_published_scenarios_are_projected_and_say_that_nothing_ran(self):
        for scenario in ("qwen3-30b", "qwen3-235b"):
            projection, done = self.json_of("refit-projection-1", "--scenario", scenario, "--platform", "b200", "--project-only")
            self.assertIn("PROJECTED, nothing of this ran", done.stdout)
            self.assertEqual(projection["platform"]["name"], "b200")
            self.assertTrue(projection["assumed"])
            off, on = projection["arms"]["control"], projection["arms"]["treatment"]
            for arm in (off, on):
                for phase in (TRANSFER, TOTAL):
                    seconds = arm["phases"][phase]
                    self.assertLess(seconds["low_s"], seconds["projected_s"])
                    self.assertGreater(seconds["high_s"], seconds["projected_s"])
                self.assertAlmostEqual(sum(arm["critical_path_s"].values()), arm["phases"][TRANSFER]["projected_s"], places=9)
            self.assertLess(on["phases"][TRANSFER]["projected_s"], 0.6 * off["phases"][TRANSFER]["projected_s"])
            self.assertGreater(projection["published"][TRANSFER]["control_s"], 0)

    def test_256_ranks_of_deepseek_v3_take_seconds_and_name_the_slowest(self):
        began = time.monotonic()
        projection, _ = self.json_of("refit-projection-1", "--scenario", "deepseek-v3-gb200", "--platform", "gb200",
                                     "--stack", "refit", "--project-only")
        self.assertIn("256 processes", projection["cluster"])
        self.assertIsNotNone(projection["arms"]["control"]["slowest_rank"])
        self.assertGreater(projection["arms"]["control"]["buckets"], 1)
        self.assertLess(time.monotonic() - began, 300)  # a hang, not a speed

    def test_ranks_and_switches_of_the_command_line_are_projected(self):
        model = TESTS.parent / "scenarios/models/qwen3-30b-a3b"
        projection, _ = self.json_of("refit-projection-1", "--model", model, "--train", "ep=16", "--gen", "tp=4,dp=4", "--platform",
                                     "gb200", "--stack", "refit", "--treatment", "pipeline=direct,prequantize=on", "--project-only")
        self.assertEqual(projection["cluster"], "dp=16,ep=16 to tp=4,dp=4,etp=4, colocated, 16 processes")
        self.assertEqual(projection["arms"]["treatment"]["switches"]["pipeline"], "direct")
        self.assertIn("Ranks as --train and --gen say.", projection["assumed"])

    def test_a_bench_keeps_what_it_projects_apart_from_what_it_measured(self):
        for platform in ("h200", "this"):
            report, done = self.json_of("refit-bench-1", "--scenario", "tiny-moe", "--platform", platform, "--steps", 3,
                                        "--no-host-traffic")
            self.assertEqual(report["status"], "ok")
            self.assertEqual(report["projected"]["platform"]["name"], platform)
            measured = report["arms"]["control"]["phases"][TRANSFER]
            self.assertEqual(measured["source"], "measured")
            self.assertNotIn("projected_s", measured)
            self.assertIn("PROJECTED, nothing of this ran", done.stdout)
        self.assertEqual(report["projected"]["stack"]["name"], "refit")
        self.assertAlmostEqual(report["projected"]["platform"]["memory_bandwidth_Bps"]["value"],
                               report["copy_bandwidth"]["bytes_per_second"])

    def test_the_validation_is_complete_and_hides_no_error(self):
        validation, done = self.json_of("refit-validation-1", "--validate-projection")
        self.assertEqual(len(validation["published"]), 28)
        tables = json.loads((TESTS.parent / "scenarios/published/tables.json").read_text())
        self.assertEqual({row["table"] for row in validation["published"]}, {table["table"] for table in tables["published"]})
        errors = sorted(abs(row["projected_s"] / row["published_s"] - 1) for row in validation["published"])
        self.assertAlmostEqual(validation["worst_error"], errors[-1])
        self.assertAlmostEqual(validation["median_error"], (errors[13] + errors[14]) / 2)
        for goal, value in validation["goals"].items():
            reached = "reached" if validation[goal] <= value else "not reached"
            self.assertRegex(done.stdout, rf"{goal.split('_')[0]} .*: {validation[goal] * 100:.1f} .*: {reached}\n")
        for row in validation["published"]:
            scenario_rows = [r for r in validation["published"] if r["table"] == row["table"] and r["phase"] == row["phase"]]
            self.assertEqual({r["arm"] for r in scenario_rows}, {"control", "treatment"})

    def test_what_if_names_what_would_save_most(self):
        result, done = self.json_of("refit-what-if-1", "qwen3-30b", "--what-if", "--platform", "b200", "--arm", "control", run=plan)
        seconds = [each["projected_s"] for each in result["candidates"]]
        self.assertEqual(seconds, sorted(seconds))
        lines = [line for line in done.stdout.splitlines() if line.lstrip()[:2] in ("1.", "2.", "3.", "4.", "5.")]
        self.assertEqual(len(lines), 5)
        self.assertIn(result["candidates"][0]["change"], lines[0])

    def test_what_cannot_be_projected_is_refused(self):
        scenario = ("--scenario", "qwen3-30b")
        self.refused(["--platform"], *scenario, "--project-only")
        self.refused(["b20", "did you mean \"b200\"?"], *scenario, "--platform", "b20", "--project-only")
        self.refused(["nemo-rl"], *scenario, "--platform", "b200", "--stack", "nemo", "--project-only")
        # Before a bench begins, not when it has ended.
        self.refused(["b20"], *scenario, "--platform", "b20", "--time-budget", 100000, "--steps", 100000)
        self.refused(["--project-only"], *scenario, "--platform", "this", "--project-only")
        self.refused(["--dry-run"], *scenario, "--platform", "this", "--dry-run")
        self.refused(["--stack", "--platform"], *scenario, "--stack", "refit")
        self.refused(["--trace"], *scenario, "--platform", "b200", "--project-only", "--trace", self.folder / "t")
        self.refused(["--simulate-ranks"], *scenario, "--platform", "b200", "--project-only", "--simulate-ranks", 16)
        self.refused(["/dev/null"], *scenario, "--platform", "/dev/null", "--project-only")
        self.refused(["heads"], *scenario, "--platform", "b200", "--project-only", "--train", "tp=7")
        self.refused(["--platform"], "qwen3-30b", "--what-if", run=plan)
        self.refused(["--what-if"], "qwen3-30b", "--platform", "b200", run=plan)

    def test_a_platform_of_ones_own_is_read_strictly(self):
        shipped = json.loads((TESTS.parent / "scenarios/platforms/b200.json").read_text())
        shipped["name"] = "mine"
        shipped["network_gbps"]["value"] = -1
        with tempfile.TemporaryDirectory() as elsewhere:
            path = pathlib.Path(elsewhere) / "mine.json"
            path.write_text(json.dumps(shipped))
            self.refused(["mine.json", "/network_gbps/value"], "--scenario", "qwen3-30b", "--platform", path, "--project-only")
            shipped["network_gbps"]["value"] = 100
            path.write_text(json.dumps(shipped))
            before = path.read_text()
            self.refused(["replace"], "--scenario", "qwen3-30b", "--platform", path, "--project-only", "--json", path)
            self.refused(["replace"], "qwen3-30b", "--what-if", "--platform", path, "--json", path, run=plan)
            self.assertEqual(path.read_text(), before)
            projection, _ = self.json_of("refit-projection-1", "--scenario", "qwen3-30b", "--platform", path, "--project-only")
            self.assertEqual(projection["platform"]["network_bandwidth_Bps"]["value"], 100e9)


if __name__ == "__main__":
    unittest.main()
