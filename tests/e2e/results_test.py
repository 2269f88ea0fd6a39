"""What refit-bench writes beside its report: traces, lines of samples, bars on a terminal, sweeps."""
import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import struct
import subprocess
import tempfile
import termios
import unittest

from apps_test import BIN, PATIENCE, TESTS, bench, validate
from torchrun_test import Job

SWEEP_SCHEMA = TESTS.parent / "scenarios/schema/refit-sweep-1.schema.json"
TRANSFER = "prepare_for_generation/transfer_and_update_weights"
TINY = ("--scenario", "tiny-moe", "--no-host-traffic")


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, code, *arguments, **options):
        done = bench(*map(str, arguments), **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def refused(self, *arguments, words):
        done = self.check(2, *arguments)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(os.listdir(self.folder), [])


class Traces(Base):
    def events(self, *arguments):
        path = self.folder / "trace.json"
        self.check(0, *TINY, "--steps", 4, "--trace", path, "--json", self.folder / "report.json", "--quiet", *arguments)
        trace = json.loads(path.read_text())
        return trace, json.loads((self.folder / "report.json").read_text())

    def spans(self, trace, pid, tid, category):
        return [event for event in trace["traceEvents"]
                if event["ph"] == "X" and (event["pid"], event["tid"], event["cat"]) == (pid, tid, category)]

    def test_stages_of_every_track_touch_and_add_up_to_the_last_refit(self):
        trace, report = self.events("--treatment", "pipeline=direct")
        for pid, arm in ((1, "control"), (2, "treatment")):
            for tid in (1, 2):
                [refit] = self.spans(trace, pid, tid, "refit")
                stages = self.spans(trace, pid, tid, "stage")
                self.assertGreater(len(stages), 2)
                for before, after in zip(stages, stages[1:]):
                    self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.0011)
                self.assertGreaterEqual(stages[0]["ts"], refit["ts"])
                self.assertLessEqual(stages[-1]["ts"] + stages[-1]["dur"], refit["ts"] + refit["dur"] + 0.0011)
            last = report["arms"][arm]["phases"][TRANSFER]["samples_s"][-1]
            [trainer] = self.spans(trace, pid, 1, "refit")
            [generator] = self.spans(trace, pid, 2, "refit")
            self.assertAlmostEqual(trainer["dur"] / 1e6, last, places=8)
            # The generator begins when it is told to and commits before the trainer hears of it: one clock.
            self.assertGreater(generator["ts"], 0)
            self.assertLess(generator["ts"] + generator["dur"], trainer["dur"])
            for name, stage in report["arms"][arm]["stages"].items():
                if name.startswith("generator.") or stage["role"] != "trainer":
                    continue
                spans = [span for span in self.spans(trace, pid, 1, "stage") if span["name"] == name]
                self.assertEqual(sum(span["args"]["bytes"] for span in spans), stage["bytes"] or 0, name)
                self.assertEqual(sum(span["args"]["launches"] for span in spans), stage["launches"], name)

    def test_the_last_timed_refit_is_shown_though_a_verified_one_came_after_it(self):
        trace, report = self.events("--verify", "every")
        [trainer] = self.spans(trace, 2, 1, "refit")
        self.assertAlmostEqual(trainer["dur"] / 1e6, report["arms"]["treatment"]["phases"][TRANSFER]["samples_s"][-1], places=8)

    def test_a_simulated_rank_has_one_track(self):
        path = self.folder / "trace.json"
        self.check(0, "--scenario", "tiny-moe-ep4", "--simulate-ranks", 4, "--simulate-rank", 1, "--steps", 3, "--trace", path, "--quiet")
        names = {event["args"]["name"] for event in json.loads(path.read_text())["traceEvents"] if event["name"] == "process_name"}
        self.assertEqual(len(names), 2, names)
        self.assertTrue(any(name.startswith("control: rank 1 on ") for name in names), names)

    def test_each_of_many_ranks_has_a_track_and_its_rounds_beside(self):
        path, lines = self.folder / "trace.json", self.folder / "samples.csv"
        with Job(4, "--scenario", "tiny-moe-ep4", "--steps", 4, "--trace", path, "--csv", lines, "--quiet") as ranks:
            codes, said = ranks.wait(PATIENCE)
        self.assertEqual(codes, [0] * 4, said)
        trace = json.loads(path.read_text())
        self.assertEqual(len({event["pid"] for event in trace["traceEvents"]}), 2 * 4)
        for pid in range(1, 9):
            [refit] = self.spans(trace, pid, 1, "refit")
            self.assertEqual(refit["ts"], 0)
            stages = {span["name"] for span in self.spans(trace, pid, 1, "stage")}
            self.assertLessEqual({"pack", "exchange", "load"}, stages)
            tracks = [self.spans(trace, pid, tid, "exchange") for tid in (3, 4)]
            self.assertGreater(len(tracks[0]), 0)
            for rounds in tracks:
                for before, after in zip(rounds, rounds[1:]):
                    self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.0011)
        with open(lines, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["rank"] for row in rows}, {"", "0", "1", "2", "3"})
        self.assertEqual({row["step"] for row in rows}, {"1", "2"})
        self.assertEqual({row["kind"] for row in rows if row["rank"] == ""}, {"phase"})

    def test_what_has_no_trace_is_refused_before_anything_runs(self):
        path = str(self.folder / "out")
        self.refused(*TINY, "--dry-run", "--trace", path, words=("--trace", "--dry-run"))
        self.refused(*TINY, "--dry-run", "--csv", path, words=("--csv", "--dry-run"))
        self.refused(*TINY, "--trace", path, "--csv", path, words=("--trace", "would replace"))
        self.refused(*TINY, "--trace", "-", "--json", "-", words=("only one result",))


class Lines(Base):
    def test_every_sample_of_the_report_is_a_line(self):
        done = self.check(0, *TINY, "--steps", 5, "--csv", "-", "--json", self.folder / "report.json", "--quiet")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        report = json.loads((self.folder / "report.json").read_text())
        self.assertEqual(done.stderr, "")
        for arm, value in report["arms"].items():
            def samples(kind, name, role):
                return [float(row["seconds"]) for row in rows
                        if (row["arm"], row["kind"], row["name"], row["role"]) == (arm, kind, name, role)]
            self.assertEqual(samples("phase", TRANSFER, ""), value["phases"][TRANSFER]["samples_s"])
            for role in ("trainer", "generator"):
                wall = samples("wall", "refit", role)
                rest = samples("unattributed", "refit", role)
                self.assertEqual(len(wall), 3)
                for step in range(3):
                    stages = sum(float(row["seconds"]) for row in rows
                                 if (row["arm"], row["kind"], row["role"], row["step"]) == (arm, "stage", role, str(step + 1)))
                    self.assertAlmostEqual(stages + rest[step], wall[step], places=9)

    def test_lines_end_as_rfc_4180_says(self):
        done = subprocess.run([BIN / "refit-bench", *TINY, "--steps", "1", "--csv", "-", "--quiet"], capture_output=True,
                              timeout=PATIENCE, check=True)
        self.assertTrue(done.stdout.startswith(b"step,arm,rank,role,kind,name,seconds,bytes\r\n"))
        self.assertEqual(done.stdout.count(b"\n"), done.stdout.count(b"\r\n"))


class Bars(Base):
    def on_terminal(self, columns, **environment):
        """What a terminal so wide shows of a short bench."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        kept = {key: value for key, value in os.environ.items()
                if key not in ("NO_COLOR", "TERM", "LANG") and not key.startswith("LC_")}
        with subprocess.Popen([BIN / "refit-bench", *TINY, "--steps", "2"], stdout=theirs, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, env={**kept, **environment}) as process:
            os.close(theirs)
            shown = b""
            try:
                while chunk := os.read(ours, 65536):
                    shown += chunk
            except OSError:  # how the end of a terminal reads
                pass
            process.wait(PATIENCE)
            self.assertEqual(process.returncode, 0, process.stderr.read())
        os.close(ours)
        return shown.decode()

    def test_a_terminal_shows_bars_as_it_can(self):
        full = self.on_terminal(80, TERM="xterm", LANG="C.UTF-8")
        self.assertIn("█", full)
        self.assertIn("\x1b[33m", full)
        self.assertNotIn("\x1b", self.on_terminal(80, TERM="xterm", LANG="C.UTF-8", NO_COLOR="1"))
        plain = self.on_terminal(80, TERM="dumb", LC_ALL="C", LANG="C.UTF-8")
        self.assertIn("####", plain)
        self.assertTrue(plain.isascii())
        self.assertNotIn("\x1b", plain)

    def test_narrow_terminals_and_pipes_have_no_bars(self):
        self.assertNotIn("  off #", self.on_terminal(59, TERM="xterm"))
        done = self.check(0, *TINY, "--steps", 2, env={**os.environ, "TERM": "xterm", "LANG": "C.UTF-8"})
        self.assertNotIn("#", done.stdout)
        self.assertTrue(done.stdout.isascii())


class Sweeps(Base):
    def sweep(self, code, *arguments):
        path = self.folder / "sweep.json"
        done = self.check(code, *TINY, "--steps", 2, *arguments, "--json", path)
        validate(self, path, SWEEP_SCHEMA)
        return done, json.loads(path.read_text())["points"]

    def test_every_combination_is_a_bench_of_its_own(self):
        done, points = self.sweep(0, "--sweep", "buffer_size=64MiB,1MiB", "--sweep", "threads=1,2")
        self.assertEqual([point["set"] for point in points],
                         [{"buffer_size": size, "threads": threads} for size in ("64MiB", "1MiB") for threads in (1, 2)])
        for point in points:
            settings = point["result"]["arms"]["treatment"]["switches"]
            self.assertEqual(int(settings["buffer_size"]), {"64MiB": 64, "1MiB": 1}[point["set"]["buffer_size"]] << 20)
            self.assertEqual(point["result"]["settings"]["threads"], point["set"]["threads"])
            self.assertEqual(point["result"]["status"], "ok")
        self.assertEqual(len(done.stdout.splitlines()), 2 + 4)
        self.assertEqual(done.stdout.count("equal"), 4)

    def test_layers_are_swept_and_a_dry_run_runs_nothing(self):
        done, points = self.sweep(0, "--sweep", "layers=1,2", "--dry-run")
        self.assertEqual([point["result"]["replayed"]["layers"] for point in points], [1, 2])
        self.assertEqual({point["result"]["status"] for point in points}, {"dry-run"})

    def test_a_point_that_fails_is_recorded_and_the_others_run(self):
        done, points = self.sweep(2, "--sweep", "pipeline=direct,staged", "--sweep", "prequantize=off,on")
        self.assertEqual([point["result"]["status"] for point in points], ["refused", "ok", "ok", "ok"])
        self.assertIn("prequantize", points[0]["result"]["refused"])
        self.assertEqual(done.stdout.count("equal"), 3)

    def test_the_worst_exit_code_is_the_sweeps(self):
        _, points = self.sweep(1, "--control", "router_bias=fp32", "--sweep", "router_bias=fp32,bf16", "--verify", "every")
        self.assertEqual([point["result"]["status"] for point in points], ["ok", "mismatch"])

    def test_what_no_point_could_run_with_is_refused_first(self):
        path = str(self.folder / "out")
        for arguments, words in ((("--sweep", "bufer_size=1GiB"), ("--sweep", "buffer_size")),
                                 (("--sweep", "shuffle=sideways"), ("--sweep", "sideways")),
                                 (("--sweep", "threads=1,1"), ("twice",)),
                                 (("--sweep", "threads"), ("KEY=VALUE",)),
                                 (("--sweep", "threads=" + ",".join(map(str, range(1, 1002)))), ("1000",)),
                                 (("--sweep", "threads=1", "--trace", path), ("--trace", "--json")),
                                 (("--sweep", "threads=1", "--csv", path), ("--csv", "--json"))):
            with self.subTest(arguments=arguments):
                self.refused(*TINY, *arguments, words=words)

    def test_ranks_are_swept_one_at_a_time_or_not_at_all(self):
        self.refused("--scenario", "tiny-moe-ep4", "--sweep", "threads=1", words=("4 ranks", "--simulate-ranks 4"))
        done = self.check(0, "--scenario", "tiny-moe-ep4", "--simulate-ranks", 4, "--steps", 2, "--sweep", "threads=1,2")
        self.assertEqual(done.stdout.count("equal"), 2)

    def test_json_on_standard_output_leaves_the_table_to_standard_error(self):
        done = self.check(0, *TINY, "--steps", 2, "--sweep", "threads=1", "--json", "-")
        self.assertEqual(json.loads(done.stdout)["schema"], "refit-sweep/1")
        self.assertIn("equal", done.stderr)
        done = self.check(0, *TINY, "--steps", 2, "--sweep", "threads=1", "--json", "-", "--quiet")
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
