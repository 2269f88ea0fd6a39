"""refit-gate as a user meets it: verdicts as exit codes, every output, hostile files, and a slowdown that was planted."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from apps_test import BIN, PATIENCE, TESTS, run, validate

ROOT = TESTS.parent
BASELINES = ROOT / "results/baselines"
SCHEMAS = ROOT / "scenarios/schema"
TRANSFER = "prepare_for_generation/transfer_and_update_weights"
SAME = "prequantize=on,ipc_buffers=persistent,loader=cached,shuffle=batched,offload=slim,reference_swap=pinned"


def gate(*arguments, **options):
    return run("refit-gate", *map(str, arguments), **options)


class Gate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def result(self, name, seed, slowdown=0.0, change=lambda report: None):
        """The committed result with samples of its own: 2 % of noise around its medians."""
        report = json.loads((BASELINES / "tiny-moe.json").read_text())
        draw = random.Random(seed)
        for arm, value in report["arms"].items():
            for phase in value["phases"].values():
                if phase["samples_s"]:
                    level = phase["median_s"] * (1 + (slowdown if arm == "treatment" else 0))
                    phase["samples_s"] = [level * (1 + 0.02 * draw.gauss(0, 1)) for _ in range(20)]
        change(report)
        path = self.folder / name
        path.write_text(json.dumps(report))
        return path

    def check(self, code, *arguments):
        done = gate(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def refused(self, *arguments, words=()):
        done = self.check(2, *arguments)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertTrue(done.stderr.startswith("refit-gate: "), done.stderr)

    def test_help_and_version_answer_on_standard_output(self):
        for arguments, word in ((("--help",), "Exit codes: 0 passed"), (("--version",), "refit-gate"),
                                (("history", "--help"), "DIR")):
            done = self.check(0, *arguments)
            self.assertIn(word, done.stdout)
            self.assertEqual(done.stderr, "")

    def test_the_same_passes_and_slower_by_10_percent_does_not(self):
        a = self.result("a.json", 1)
        self.assertIn("PASS", self.check(0, a, self.result("b.json", 2)).stdout)
        done = self.check(1, a, self.result("c.json", 3, slowdown=0.10))
        self.assertIn("REGRESSION", done.stdout)
        self.assertIn(f"treatment: {TRANSFER}", done.stdout)
        self.assertIn("IMPROVED", self.check(0, a, self.result("d.json", 4, slowdown=-0.10)).stdout)
        done = self.check(3, a, self.result("e.json", 5, slowdown=0.05))
        self.assertRegex(done.stdout, "more samples? a side|hardly settle")

    def test_thresholds(self):
        # 3 ms phases: the least effect that counts, 0.1 ms, is 3 % of them.
        a, slower = self.result("a.json", 1), self.result("b.json", 2, slowdown=0.10)
        self.check(0, a, slower, "--max-regression", "20%")
        self.check(1, a, slower, "--max-regression", "20%", "--phase", f"{TRANSFER}=4%")
        self.check(0, a, slower, "--min-effect", "10ms")
        self.check(0, a, slower, "--arm", "control")
        self.check(0, a, slower, "--only", f"control: {TRANSFER}")
        # Options with a value leave the files alone that follow them.
        self.check(1, "--phase", f"{TRANSFER}=4%", "--only", TRANSFER, "--allow", "cpu,driver", a, slower)

    def test_results_of_different_things_exit_4_and_allow_lifts_it(self):
        a = self.result("a.json", 1)
        for field, change in (("scenario", lambda r: r["scenario"].update(digest="0123456789abcdef")),
                              ("backend", lambda r: r["settings"].update(backend="cuda")),
                              ("version", lambda r: r["environment"].update(version="9.9.9")),
                              ("cpu", lambda r: r["environment"].update(cpu_model="other"))):
            with self.subTest(field=field):
                other = self.result("b.json", 2, change=change)
                done = self.check(4, a, other)
                self.assertIn(f"{field} differs", done.stdout)
                done = self.check(0, a, other, "--allow", field)
                self.assertIn(f"{field} differs, as allowed", done.stdout)
        self.refused(a, a, "--allow", "scenarios", words=("--allow", "scenario"))

    def test_what_is_not_fit_to_be_compared_exits_2_and_says_why(self):
        a = self.result("a.json", 1)

        def unverified(report):
            report["status"] = "mismatch"
            report["arms"]["control"]["verify"]["layout"]["mismatches"] = 5

        def unattributed(report):
            report["arms"]["treatment"]["unattributed_s"]["trainer"]["share"] = 0.3

        def missing(report):
            del report["arms"]["treatment"]["phases"][TRANSFER]

        def failed(report):
            report.update(status="failed", error="the generator was killed", arms=None)

        for change, word in ((failed, "the generator was killed"), (unverified, "5 mismatches of layout"),
                             (unattributed, "30.0 %"), (missing, "is missing")):
            done = self.check(2, a, self.result("b.json", 2, change=change))
            self.assertIn("INVALID", done.stdout)
            self.assertIn(word, done.stdout)

    def test_hostile_files_exit_2_and_name_file_and_key(self):
        good = self.result("a.json", 1)
        text = good.read_text()
        bad = self.folder / "bad.json"
        first = str(json.loads(text)["arms"]["control"]["phases"][TRANSFER]["samples_s"][0])
        for content, word in ((text[:len(text) // 2], "line 1"), ("", "line 1"), (text.replace(first, "NaN"), "samples_s"),
                              (text.replace(first, "-1"), "samples_s/0"), (text.replace(first, '"1"'), "samples_s/0"),
                              (text.replace("refit-bench/1", "refit-bench/7"), "refit-bench/7"),
                              ('{"schema":"refit-bench/1","schema":"refit-bench/1"}', "duplicate"), ("[" * 100_000, "levels")):
            with self.subTest(word=word):
                bad.write_text(content)
                self.refused(good, bad, words=("bad.json", word))
                self.refused(bad, good, words=("bad.json", word))
        os.mkfifo(self.folder / "pipe")
        self.refused(good, self.folder / "pipe", words=("pipe",))
        self.refused(good, self.folder, words=(str(self.folder),))
        self.refused(good, self.folder / "none.json", words=("none.json",))
        (self.folder / "gate.json").write_text('{"schema": "refit-gate-limits/1", "x_flor": []}')
        self.refused("--limits", self.folder / "gate.json", good, words=("gate.json", "/x_flor", "x_floor"))

    def test_bad_usage_exits_2(self):
        a = self.result("a.json", 1)
        for arguments in ((), (a,), (a, a, a), ("--baseline", a), ("--limits", BASELINES / "same-arms.json"), (a, a, "--mutants", a),
                          (a, a, "--max-regression", "five"), (a, a, "--steps", "3"), (a, a, "--nonsense"),
                          (a, a, "--json", a), (a, a, "--json", "-", "--markdown", "-"), (a, a, "--only", "nothing"),
                          (a, a, "--warmup", "2", "--steps", "3-4"), (a, a, "--warmup", "50"), ("history",),
                          ("history", self.folder / "none"), (a, a, "--limits", BASELINES / "gate.json"), (a, a, "--seed", "-1"),
                          (a, a, "--seed", "99999999999999999999"), (a, a, "--limits", ""), (a, a, "--json", ""), (a, a, "--arm", ""),
                          ("--report", "", a), ("--baseline", a, a, "--candidate", a), (a, "--candidate", a, self.folder / "." / "a.json")):
            with self.subTest(arguments=arguments):
                done = gate(*arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertEqual(done.stdout, "")

    def test_what_cannot_be_written_exits_5(self):
        a = self.result("a.json", 1)
        self.check(5, a, a, "--json", "/dev/full")
        with open("/dev/full", "w") as full:
            done = subprocess.run([BIN / "refit-gate", a, a], stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 5, done.stderr)

    def test_every_output_says_the_same(self):
        a, slower = self.result("a.json", 1), self.result("b.json", 2, slowdown=0.2)
        path = self.folder / "report.json"
        done = self.check(1, a, slower, "--json", path, "--junit", self.folder / "report.xml", "--markdown", self.folder / "r.md",
                          "--github")
        validate(self, path, SCHEMAS / "refit-gate-1.schema.json")
        report = json.loads(path.read_text())
        self.assertEqual((report["verdict"], report["exit_code"]), ("REGRESSION", 1))
        slow = [p for p in report["phases"] if p["verdict"] == "REGRESSION"]
        self.assertEqual({(p["arm"], p["phase"]) for p in slow},
                         {("treatment", TRANSFER), ("treatment", "prepare_for_generation/total")})
        suite = xml.etree.ElementTree.parse(self.folder / "report.xml").getroot()
        self.assertEqual((suite.get("tests"), suite.get("failures")), (str(len(report["phases"])), "2"))
        self.assertIn("| **REGRESSION** |", (self.folder / "r.md").read_text())
        self.assertEqual(done.stdout.count("::error "), 2)
        self.assertEqual(done.stdout.count("::notice "), 1)
        done = self.check(1, a, slower, "--json", "-", "--quiet")
        self.assertEqual(json.loads(done.stdout), report)
        self.assertEqual(done.stderr, "")
        done = self.check(4, a, self.result("c.json", 3, change=lambda r: r["settings"].update(threads=7)), "--json", path)
        validate(self, path, SCHEMAS / "refit-gate-1.schema.json")

    def test_several_cold_starts_a_side(self):
        a = [self.result(f"a{i}.json", i) for i in range(3)]
        b = [self.result(f"b{i}.json", 10 + i, slowdown=0.2) for i in range(3)]
        done = self.check(1, "--baseline", *a, "--candidate", *b)
        self.assertIn("3 files", done.stdout)
        self.assertNotIn("one cold start", done.stdout)
        self.check(1, *b, "--baseline", *a)
        self.check(0, *a, "--candidate", a[0])

    def test_a_training_run_is_gated_by_its_metrics(self):
        def metrics(name, seconds):
            draw = random.Random(name)
            path = self.folder / name
            path.write_text(json.dumps({
                "timing/train/prepare_for_generation/total": {str(s): seconds * (40 if s < 3 else 1 + 0.02 * draw.gauss(0, 1))
                                                              for s in range(1, 21)},
                "timing/train/valid_tokens_per_sec_per_gpu": {str(s): 1000.0 for s in range(1, 21)},
                "train/loss": {"1": -0.5}}))
            return path

        a = metrics("a.json", 17.2)
        done = self.check(0, a, metrics("b.json", 17.2))
        self.assertIn("steps before 3 are left out", done.stdout)
        self.assertIn("say nothing of scenario, device and versions", done.stdout)
        self.assertIn("REGRESSION", self.check(1, a, metrics("c.json", 19.5)).stdout)
        # The same phase of a bench, by its name.
        self.check(2, a, self.result("d.json", 1))
        done = self.check(0, a, self.result("d.json", 1), "--arm", "treatment", "--only", "prepare_for_generation/total")
        self.assertIn("IMPROVED", done.stdout)

    def test_limits_hold_a_candidate_alone(self):
        a, limits, mutants = self.result("a.json", 1), self.folder / "gate.json", self.folder / "mutants.json"
        mutants.write_text(json.dumps({"schema": "refit-mutants/1", "killed": 25, "planted": 25}))
        for committed in BASELINES.glob("*.json"):
            if committed.name != "tiny-moe.json":
                validate(self, committed, SCHEMAS / "refit-gate-limits-1.schema.json")
        done = self.check(0, "--limits", BASELINES / "gate.json", "--mutants", mutants, a)
        self.assertIn("25 of 25 killed", done.stdout)
        mutants.write_text(json.dumps({"schema": "refit-mutants/1", "killed": 24, "planted": 25}))
        self.check(1, "--limits", BASELINES / "gate.json", "--mutants", mutants, a)
        limits.write_text(json.dumps({"schema": "refit-gate-limits/1", "seconds": [
            {"arm": "treatment", "phase": TRANSFER, "max_s": 1e-3}]}))
        done = self.check(1, "--limits", limits, a, "--json", self.folder / "r.json")
        validate(self, self.folder / "r.json", SCHEMAS / "refit-gate-1.schema.json")

    def test_history_says_when_and_by_how_much(self):
        results = self.folder / "results"
        results.mkdir()
        for day in range(1, 21):
            source = self.result("x.json", day, slowdown=0.15 if day > 12 else 0,
                                 change=lambda r: r["environment"].update(date_utc=f"2026-11-{day:02}T00:00:00Z"))
            shutil.move(source, results / f"{random.Random(day).random()}.json")
        (results / "broken.json").write_text("{")
        newest = sorted(results.glob("0.*.json"))[0]
        os.symlink(newest, results / "latest.json")  # a name more is no result more
        done = self.check(0, "history", results, "--json", self.folder / "history.json")
        validate(self, self.folder / "history.json", SCHEMAS / "refit-history-1.schema.json")
        self.assertIn("2026-11-13T00:00:00Z", done.stdout)
        self.assertRegex(done.stdout, r"slower .* \(\+1[3-7]\.\d %\)")
        self.assertIn("left out", done.stdout)
        self.assertIn("2 changes", done.stdout)  # of the transfer, and of the total that it is most of
        self.assertIn("latest.json: is the same file as", done.stdout)
        self.assertIn("20 results, ", done.stdout)

    def test_history_replaces_its_own_last_answer_and_no_result(self):
        results = self.folder / "results"
        results.mkdir()
        day, again = results / "day.json", results / "history.json"
        shutil.move(self.result("x.json", 1), day)
        before = day.read_bytes()
        self.refused("history", results, "--json", day, words=("--json", "day.json"))
        self.assertEqual(day.read_bytes(), before)
        for _ in range(2):
            self.check(0, "history", results, "--json", again)
        validate(self, again, SCHEMAS / "refit-history-1.schema.json")

    def test_verify_mutants_writes_what_the_gate_reads(self):
        path = self.folder / "mutants.json"
        done = run("refit-verify", "mutants", "--json", str(path))
        self.assertEqual(done.returncode, 0, done.stderr)
        validate(self, path, SCHEMAS / "refit-mutants-1.schema.json")
        report = json.loads(path.read_text())
        self.assertEqual((report["killed"], report["planted"]), (25, 25))

    def test_an_arm_against_itself_is_green_and_red_when_it_is_slowed_down_by_10_percent(self):
        report, limits = self.folder / "report.json", BASELINES / "same-arms.json"

        def gated(slowdown):
            environment = dict(os.environ, **({"REFIT_TEST_SLOWDOWN": slowdown} if slowdown else {}))
            for steps in ("102", "402", "1602"):
                done = run("refit-test-bench", "--scenario", "tiny-moe", "--control", SAME, "--treatment", SAME,
                           "--no-host-traffic", "--steps", steps, "--quiet", "--json", str(report), env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                done = gate("--limits", limits, report)
                if done.returncode != 3:
                    break
            return done

        self.assertEqual(gated(None).returncode, 0)
        done = gated("treatment:10%")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("REGRESSION", done.stdout)
        self.assertEqual(gated("control:10%").returncode, 0)  # the other way round it is no slowdown of the treatment
        done = run("refit-test-bench", "--scenario", "tiny-moe", env=dict(os.environ, REFIT_TEST_SLOWDOWN="10%"))
        self.assertEqual(done.returncode, 2)

    def test_the_self_gate_is_red_when_an_arm_is_slowed_down(self):
        done = subprocess.run([ROOT / "scripts/self-gate", BIN, "refit-test-bench"], capture_output=True, text=True,
                              timeout=PATIENCE, env=dict(os.environ, REFIT_TEST_SLOWDOWN="treatment:10%"))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)

    def test_only_the_test_build_can_be_slowed_down(self):
        done = run("refit-bench", "--scenario", "tiny-moe", "--steps", "1", "--quiet", "--json", "/dev/null",
                   env=dict(os.environ, REFIT_TEST_SLOWDOWN="nonsense"))
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
