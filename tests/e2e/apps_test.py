"""The programs as a user meets them: arguments, exit codes, output, killed processes, full disks."""
import fcntl
import functools
import hashlib
import json
import math
import os
import pathlib
import pty
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import xml.etree.ElementTree

BIN = pathlib.Path(os.environ["REFIT_BIN"])
TESTS = pathlib.Path(os.environ["REFIT_TESTS"])
SCHEMA = TESTS.parent / "scenarios/schema/refit-bench-1.schema.json"
QWEN = TESTS / "cases/configs/Qwen3-30B-A3B"
SANITIZED = bool(os.environ.get("REFIT_SANITIZE"))
# Sanitizers make everything slower; no limit here measures speed.
PATIENCE = 300


def run(app, *arguments, **options):
    return subprocess.run(
        [BIN / app, *arguments], capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, **options
    )


def bench(*arguments, **options):
    return run("refit-bench", *arguments, **options)


def report_of(*arguments):
    done = bench(*arguments, "--json", "-")
    return done, json.loads(done.stdout)


# Inherited by every process that is started here, so that other tests may run at the same time.
os.environ["REFIT_STARTED_BY"] = str(os.getpid())


def generators():
    """Process ids of this test's generators that run now."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--generator-role" in command and f"REFIT_STARTED_BY={os.getpid()}".encode() in environment:
                found.append(int(entry.name))
    return found


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


CUDA = ("--scenario", "tiny-moe", "--backend", "cuda")


@functools.cache
def no_gpu():
    """How a run on a GPU ends here when it cannot begin: the finished program. None where a GPU can be used."""
    done = bench(*CUDA, "--steps", "1", "--quiet", "--json", "-")
    return None if done.returncode == 0 else done


def need_gpu(test):
    if no_gpu() is not None:
        test.skipTest(no_gpu().stderr.strip())


def verdicts(report):
    """Of each arm: check -> (bytes compared, mismatches)."""
    return {arm: {check: (result["bytes"], result["mismatches"]) for check, result in value["verify"].items()}
            for arm, value in report["arms"].items()}


class Arguments(unittest.TestCase):
    def refused(self, done, *words):
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_help_and_version_answer_on_standard_output(self):
        for app in ("refit-bench", "refit-convert", "refit-verify"):
            for option in ("--help", "--version"):
                done = run(app, option)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(app, done.stdout)
                self.assertEqual(done.stderr, "")

    def test_help_shows_examples(self):
        self.assertIn("refit-bench --scenario qwen3-30b", bench("--help").stdout)
        self.assertIn("refit-verify self --scenario", run("refit-verify", "--help").stdout)

    def test_no_scenario_is_refused(self):
        self.refused(bench(), "--scenario", "--model")

    def test_nothing_to_do_is_refused_by_every_program(self):
        for app, word in (("refit-verify", "mutants"), ("refit-convert", "SRC"), ("refit-plan", "MODEL"), ("refit-gate", "BASELINE")):
            with self.subTest(app=app):
                self.refused(run(app), word)

    def test_unknown_scenario_names_the_nearest(self):
        self.refused(bench("--scenario", "qwen3-30"), "qwen3-30b")

    def test_unknown_option_is_refused(self):
        self.refused(bench("--scenario", "tiny-moe", "--frobnicate"), "--frobnicate")

    def test_unknown_switch_and_value_are_refused_by_name(self):
        self.refused(bench("--scenario", "tiny-moe", "--control", "pipelin=direct"), "pipelin", "pipeline")
        self.refused(bench("--scenario", "tiny-moe", "--treatment", "pipeline=sideways"), "sideways", "staged")

    def test_bad_buffer_sizes_are_refused_by_value(self):
        for size in ("0", "-1", "abc", "1e30", "1"):
            with self.subTest(size=size):
                self.refused(bench("--scenario", "tiny-moe", f"--buffer-size={size}"), size)
                self.refused(bench("--scenario", "tiny-moe", "--control", f"buffer_size={size}"), size)

    def test_bad_counts_are_refused(self):
        for option in ("--steps=0", "--threads=0", "--steps=-3", "--warmup=20", "--time-budget=0", "--timeout=nan"):
            with self.subTest(option=option):
                self.assertEqual(bench("--scenario", "tiny-moe", option).returncode, 2)

    def test_incompatible_switches_are_refused(self):
        done = bench("--scenario", "tiny-moe", "--control", "pipeline=direct,prequantize=off")
        self.assertEqual(done.returncode, 2)
        self.assertIn("prequantize", done.stderr)

    def test_broken_scenario_files_name_file_and_pointer(self):
        with tempfile.TemporaryDirectory() as folder:
            scenario = json.loads((TESTS.parent / "scenarios/tiny-moe.json").read_text())
            scenario["control"]["pipe_line"] = "staged"
            path = pathlib.Path(folder, "mine.json")
            path.write_text(json.dumps(scenario))
            self.refused(bench("--scenario", str(path)), str(path), "/control", "pipe_line")
            path.write_text('{"schema": ')
            self.refused(bench("--scenario", str(path)), str(path))
            self.refused(bench("--scenario", str(path) + ".missing.json"), "missing.json")

    def test_paths_that_lead_nowhere_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            loop = pathlib.Path(folder, "loop")
            loop.symlink_to(loop)
            self.refused(bench("--model", str(loop)), "loop")
            self.refused(bench("--model", folder + "/" + "x" * 300), "x" * 300)

    def test_names_that_are_no_utf8_work(self):
        with tempfile.TemporaryDirectory() as folder:
            odd = os.path.join(os.fsencode(folder), b"\xff")
            os.mkdir(odd)
            config = (TESTS.parent / "scenarios/models/tiny-moe/config.json").read_bytes()
            with open(os.path.join(odd, b"config.json"), "wb") as file:
                file.write(config)
            done = subprocess.run([BIN / "refit-bench", "--model", odd, "--steps", "1", "--quiet", "--json", "/dev/null"],
                                  capture_output=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_report_never_replaces_what_is_read_and_a_lone_file_needs_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            config = folder / "config.json"
            config.write_text((QWEN / "config.json").read_text())
            for option in ("--model", "--checkpoint"):
                self.refused(bench(option, folder, "--dry-run", "--json", config), "--json", "config.json")
            self.assertEqual(config.read_text(), (QWEN / "config.json").read_text())
            (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
            self.refused(bench("--checkpoint", folder / "model.safetensors"), "brings no config.json", "--model")

    def test_unknown_backends_and_transports_are_refused_by_name(self):
        self.refused(bench("--scenario", "tiny-moe", "--backend", "nonsense"), "nonsense", "cpu", "cuda")
        self.refused(bench("--scenario", "tiny-moe", "--transport", "pigeon"), "pigeon", "shm", "cuda-ipc", "cuda-vmm")

    def test_a_transport_of_another_backend_is_refused(self):
        for backend, transport in (("cpu", "cuda-ipc"), ("cpu", "cuda-vmm"), ("cuda", "shm")):
            with self.subTest(backend=backend, transport=transport):
                self.refused(bench("--scenario", "tiny-moe", "--backend", backend, "--transport", transport), backend,
                             transport)

    def test_a_gpu_that_is_not_there_is_named_in_one_line(self):
        if no_gpu() is None or "may work" in no_gpu().stderr:
            self.skipTest("there is a GPU here")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            for app, *arguments in (("refit-bench", *CUDA, "--json", str(path)),
                                    ("refit-bench", *CUDA, "--json", "-"),
                                    ("refit-bench", *CUDA, "--transport", "cuda-vmm"),
                                    ("refit-verify", "self", *CUDA),
                                    ("refit-verify", "mutants", *CUDA)):
                with self.subTest(app=app, arguments=arguments):
                    done = run(app, *arguments)
                    self.assertEqual(done.stdout, "")
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    self.assertTrue(done.stderr.startswith(app), done.stderr)
                    if "no GPU backend" in done.stderr:  # built without CUDA
                        self.assertEqual(done.returncode, 2)
                        self.assertIn("--backend cpu", done.stderr)
                    else:
                        self.assertEqual(done.returncode, 3)
                        self.assertIn("NVIDIA driver", done.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_unknown_architecture_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "config.json").write_text('{"architectures": ["ZebraForCausalLM"]}')
            self.refused(bench("--model", folder), "ZebraForCausalLM")


    def test_a_seed_is_a_number_that_64_bits_hold(self):
        for seed in ("-1", "18446744073709551616", "1.5", ""):
            with self.subTest(seed=seed):
                self.refused(bench("--scenario", "tiny-moe", "--seed", seed, "--dry-run"), "--seed")


class List(unittest.TestCase):
    def test_a_pipe_gets_a_line_for_every_scenario_whole_and_nothing_else(self):
        done = bench("--list")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        rows = [re.split(r"  +", line) for line in done.stdout.splitlines()]
        self.assertEqual([row[0] for row in rows], sorted(path.stem for path in (TESTS.parent / "scenarios").glob("*.json")))
        for row in rows:
            self.assertEqual(len(row), 6, row)
        by_name = {row[0]: row[1:] for row in rows}
        self.assertEqual(by_name["qwen3-30b-batched"],
                         ["qwen3-30b-a3b", "16", "-", "Qwen3-30B-A3B, batched prequantization (NeMo-RL PR 3804), 16 GB200",
                          "NeMo-RL PR 3804"])
        self.assertEqual(by_name["tiny-moe-ep4"][:3], ["tiny-moe-wide", "-", "4"])

    def test_a_terminal_gets_a_heading_and_lines_that_fit(self):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 72, 0, 0))
        process = subprocess.Popen([BIN / "refit-bench", "--list"], stdin=subprocess.DEVNULL, stdout=theirs)
        os.close(theirs)
        seen = b""
        with open(ours, "rb", buffering=0) as terminal:
            try:
                while part := terminal.read(4096):
                    seen += part
            except OSError:  # how Linux says that nobody has the other end any more
                pass
        self.assertEqual(process.wait(PATIENCE), 0)
        lines = seen.decode().splitlines()
        self.assertEqual(lines[0].split()[:4], ["NAME", "MODEL", "GPUS", "RANKS"])
        self.assertEqual(len(lines), 1 + len(list((TESTS.parent / "scenarios").glob("*.json"))))
        self.assertEqual(max(map(len, lines)), 72)


class DryRun(unittest.TestCase):
    def check_qwen(self, report):
        self.assertEqual(report["model"]["tensors"], 18867)
        self.assertEqual(report["model"]["parameters"], 30532122624)
        self.assertEqual(report["model"]["bytes"], 61064245248)
        self.assertEqual(report["model"]["expert_bytes"], 57982058496)
        wire = {arm: report["arms"][arm]["wire_bytes"] for arm in ("control", "treatment")}
        return wire

    def test_qwen3_30b_has_its_published_sizes(self):
        done, report = report_of("--scenario", "qwen3-30b", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_qwen(report)
        self.assertEqual(report["status"], "dry-run")

    def test_the_model_itself_has_the_same(self):
        done, report = report_of("--model", str(QWEN), "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_qwen(report)

    def test_every_scenario_plans_and_validates(self):
        for name in bench("--list").stdout.split("\n"):
            if not name.strip():
                continue
            name = name.split()[0]
            with self.subTest(scenario=name), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "report.json")
                done = bench("--scenario", name, "--dry-run", "--json", str(path))
                self.assertEqual(done.returncode, 0, done.stderr)
                validate(self, path)

    def test_every_documented_switch_is_understood_and_validates(self):
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| `[^|]+` \| `[^|]+` \|$", (TESTS.parent / "docs/scenarios.md").read_text(), re.M)
        self.assertGreater(len(rows), 15)
        with tempfile.TemporaryDirectory() as folder:
            for switch, values in rows:
                for value in re.findall(r"`\"?([^`\"]+)\"?`", values):
                    with self.subTest(switch=switch, value=value):
                        path = pathlib.Path(folder, "report.json")
                        done = bench("--scenario", "tiny-moe", "--dry-run", "--treatment", f"{switch}={value}", "--json", str(path))
                        self.assertEqual(done.returncode, 0, done.stderr)
                        validate(self, path)

    def test_a_plan_for_a_gpu_needs_none(self):
        done, report = report_of("--scenario", "qwen3-30b", "--backend", "cuda", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_qwen(report)
        self.assertEqual(report["settings"]["backend"], "cuda")
        self.assertEqual(report["settings"]["transport"], "cuda-ipc")
        self.assertIsNone(report["device"])
        # Of the whole model, in both processes: at least what is read and what is written.
        self.assertGreater(report["model"]["memory_needed_bytes"], report["model"]["floor_bytes"])
        self.assertIn("GPU memory of both processes", done.stderr)
        if no_gpu() is not None:
            self.assertTrue(report["replayed"]["whole_model"])
            self.assertIsNone(report["replayed"]["memory_budget_bytes"])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            path.write_text(done.stdout)
            validate(self, path)

    def test_a_refused_plan_still_prints_the_model(self):
        done, report = report_of("--scenario", "nemotron-nano3", "--moe-layout", "flashinfer-trtllm", "--dry-run")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(report["model"]["tensors"], 6243)
        self.assertIn("1856", report["refused"])
        self.assertIn("1856", done.stderr)


def validate(test, path, schema=SCHEMA):
    script = TESTS.parent / "scripts/validate-json"
    done = subprocess.run([sys.executable, script, schema, path], capture_output=True, text=True)
    if done.returncode == 77:
        test.skipTest(done.stderr.strip() or "jsonschema is not installed")
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Runs(unittest.TestCase):
    def test_a_run_verifies_and_its_report_validates(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            done = bench("--scenario", "tiny-moe", "--steps", "7", "--verify", "every", "--json", str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("tiny-moe", done.stdout)
            validate(self, path)
            report = json.loads(path.read_text())
        self.assertEqual(report["schema"], "refit-bench/1")
        self.assertEqual(report["status"], "ok")
        for arm in report["arms"].values():
            phase = arm["phases"]["prepare_for_generation/transfer_and_update_weights"]
            self.assertEqual(len(phase["samples_s"]), 5)
            for check in ("wire", "quantizer", "layout", "coverage"):
                self.assertGreater(arm["verify"][check]["bytes"], 0)
                self.assertEqual(arm["verify"][check]["mismatches"], 0)

    def test_the_hostile_scenario_verifies_through_buckets_and_direct(self):
        for treatment in ("shuffle=batched", "pipeline=direct", "quantize=per-bucket,shuffle=fused"):
            with self.subTest(treatment=treatment):
                done, report = report_of("--scenario", "hostile", "--steps", "2", "--verify", "every", "--treatment", treatment)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(report["status"], "ok")
                self.assertGreater(report["arms"]["control"]["buckets"], 10)
                for arm in report["arms"].values():
                    self.assertEqual(arm["verify"]["layout"]["mismatches"], 0)
                    self.assertGreater(arm["verify"]["quantizer"]["bytes"], 0)

    def test_the_hostile_scenario_verifies_as_the_first_and_the_last_of_its_ranks(self):
        for rank in (0, 3):
            for treatment in ("shuffle=batched", "pipeline=direct"):
                with self.subTest(rank=rank, treatment=treatment):
                    done, report = report_of("--scenario", "hostile", "--simulate-ranks", "4", "--simulate-rank", str(rank),
                                             "--steps", "2", "--verify", "every", "--treatment", treatment)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(report["status"], "ok")

    def test_a_fused_shuffle_has_no_shuffle_stage_and_the_same_bytes(self):
        for switches in ("prequantize=off", "prequantize=on", "prequantize=on,quantize=batched,loader=cached",
                         "prequantize=on,handles=per-tensor,double_buffer=off,commit=shadow"):
            with self.subTest(switches=switches):
                done, report = report_of("--scenario", "tiny-moe", "--steps", "3", "--verify", "every",
                                         "--control", f"{switches},shuffle=batched",
                                         "--treatment", f"{switches},shuffle=fused")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(report["status"], "ok")
                batched, fused = report["arms"]["control"], report["arms"]["treatment"]
                self.assertIn("shuffle", batched["stages"])
                self.assertNotIn("shuffle", fused["stages"])
                self.assertEqual(batched["verify"]["layout"]["bytes"], fused["verify"]["layout"]["bytes"])
                self.assertLess(fused["peak_extra_bytes"], batched["peak_extra_bytes"])

    def test_open_handles_do_not_grow_with_the_steps(self):
        # per-refit buffers in one arm, persistent ones in the other.
        left = [{name: arm["handles_left_open"] for name, arm in
                 report_of("--scenario", "tiny-moe", "--steps", str(steps), "--control", "handles=per-tensor")[1]
                 ["arms"].items()} for steps in (3, 9)]
        self.assertEqual(left[0], left[1])

    def test_both_transports_of_a_gpu_verify_alike(self):
        need_gpu(self)
        seen = {}
        for transport in ("cuda-ipc", "cuda-vmm"):
            for steps in (4, 10):
                with self.subTest(transport=transport, steps=steps), tempfile.TemporaryDirectory() as folder:
                    path = pathlib.Path(folder, "report.json")
                    done = bench(*CUDA, "--transport", transport, "--steps", str(steps), "--json", str(path))
                    if done.returncode == 3 and "may work" in done.stderr:  # only the other one is let out here
                        self.skipTest(done.stderr.strip())
                    self.assertEqual(done.returncode, 0, done.stderr)
                    validate(self, path)
                    report = json.loads(path.read_text())
                    seen[transport, steps] = report
                    self.assertEqual(report["status"], "ok")
                    self.assertEqual(report["settings"]["transport"], transport)
                    self.assertTrue(report["device"]["name"])
                    self.assertIn(report["device"]["name"], done.stdout)
                    self.assertGreater(report["copy_bandwidth"]["to_host_bytes_per_second"], 0)
                    for arm in report["arms"].values():
                        self.assertIsNotNone(arm["stages"]["load"]["device_s"])
        first = next(iter(seen.values()))
        for (transport, steps), report in seen.items():
            with self.subTest(transport=transport, steps=steps):
                self.assertEqual(verdicts(report), verdicts(first))
                for name, arm in report["arms"].items():
                    self.assertEqual(arm["handles_left_open"], seen[transport, 4]["arms"][name]["handles_left_open"])

    def test_quiet_json_has_nothing_else_on_either_stream(self):
        done = bench("--scenario", "tiny-moe", "--steps", "3", "--quiet", "--json", "-")
        self.assertEqual(done.returncode, 0)
        json.loads(done.stdout)
        self.assertEqual(done.stderr, "")

    def test_no_progress_bar_in_a_pipe(self):
        done = bench("--scenario", "tiny-moe", "--steps", "3")
        self.assertNotIn("\r", done.stdout + done.stderr)

    def test_a_mismatch_exits_1_and_names_the_tensors(self):
        done, report = report_of("--scenario", "tiny-moe", "--layers", "2", "--experts", "4", "--steps", "1", "--control",
                                 "router_bias=bf16")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(report["status"], "mismatch")
        self.assertIn("e_score_correction_bias", done.stdout)

    def test_nothing_is_left_behind(self):
        before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        self.assertEqual(bench("--scenario", "tiny-moe", "--steps", "3").returncode, 0)
        self.assertEqual(generators(), [])
        after = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        self.assertLessEqual(after, before)

    def test_too_small_a_budget_is_refused_with_numbers(self):
        done = bench("--scenario", "qwen3-30b", "--memory-budget", "64MiB")
        self.assertEqual(done.returncode, 2)
        self.assertIn("MB", done.stderr.replace("MiB", "MB"))


class Outputs(unittest.TestCase):
    def test_a_full_disk_exits_3_and_says_so(self):
        done = bench("--scenario", "tiny-moe", "--steps", "3", "--json", "/dev/full")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("/dev/full", done.stderr)

    def test_a_full_standard_output_exits_3(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BIN / "refit-bench", "--scenario", "tiny-moe", "--steps", "3", "--json", "-"],
                                  stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_a_file_size_limit_leaves_no_half_written_report(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            path.write_text("old")
            command = f'ulimit -f 1; exec "{BIN}/refit-bench" --scenario tiny-moe --steps 3 --json "{path}"'
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(path.read_text(), "old")
            self.assertEqual(os.listdir(folder), ["report.json"])

    def test_messages_that_nobody_can_read_change_no_exit_code(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BIN / "refit-bench", "--scenario", "nope"], stdout=subprocess.PIPE, stderr=full,
                                  timeout=PATIENCE)
            self.assertEqual(done.returncode, 2)
            done = subprocess.run([BIN / "refit-bench", "--scenario", "tiny-moe", "--steps", "1", "--json", "-"],
                                  stdout=subprocess.PIPE, stderr=full, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(json.loads(done.stdout)["status"], "ok")

    def test_a_reader_of_the_table_who_leaves_does_not_cost_the_report(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            command = f'"{BIN}/refit-bench" --scenario tiny-moe --steps 1 --json "{path}" | true'
            subprocess.run(["bash", "-c", command], capture_output=True, timeout=PATIENCE)
            self.assertEqual(json.loads(path.read_text())["status"], "ok")

    def test_an_existing_report_keeps_its_permissions(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            path.write_text("old")
            path.chmod(0o600)
            self.assertEqual(bench("--scenario", "tiny-moe", "--dry-run", "--json", str(path)).returncode, 0)
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    def test_an_unwritable_path_is_refused_before_anything_runs(self):
        done = bench("--scenario", "tiny-moe", "--json", "/nonexistent/folder/report.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nonexistent/folder", done.stderr)


class Deaths(unittest.TestCase):
    def start(self, *arguments):
        process = subprocess.Popen(
            [BIN / "refit-bench", "--scenario", "tiny-moe", "--steps", "100000", "--time-budget", "1000", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        generator = wait_until(generators, 60, "a generator")[0]
        time.sleep(0.3)
        return process, generator

    def test_a_killed_generator_ends_the_trainer_with_its_signal(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            process, generator = self.start("--json", str(path))
            os.kill(generator, signal.SIGKILL)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 3, err)
            self.assertIn("generator", err)
            self.assertIn("9", err)
            self.assertEqual(json.loads(path.read_text())["status"], "failed")
            validate(self, path)
        self.assertEqual(generators(), [])

    def test_a_killed_trainer_ends_the_generator(self):
        process, generator = self.start()
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: not generators(), 60, "the end of the generator")
        self.assertIn("trainer", process.stderr.read())

    def test_a_stopped_generator_is_given_up_after_the_timeout(self):
        process, generator = self.start("--timeout", "2")
        os.kill(generator, signal.SIGSTOP)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3)
        self.assertIn("within", err)
        self.assertEqual(generators(), [])

    def test_an_interrupted_run_leaves_no_processes(self):
        process, generator = self.start()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        wait_until(lambda: not generators(), 60, "the end of the generator")


DTYPE_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
               "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}


def write_tensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes), written one after the other."""
    header, end = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        assert len(data) == DTYPE_BYTES[dtype] * math.prod(shape), name
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def read_file_tensors(path):
    raw = pathlib.Path(path).read_bytes()
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:begin])
    metadata = header.pop("__metadata__", {})
    return {name: (entry["dtype"], entry["shape"], raw[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items()}, metadata


def read_tensors(path):
    """Of a file, or of all files of a directory."""
    path = pathlib.Path(path)
    tensors = {}
    for file in sorted(path.glob("*.safetensors")) if path.is_dir() else [path]:
        tensors.update(read_file_tensors(file)[0])
    return tensors


def ordinary_bf16(count, seed):
    """BF16 patterns of both signs with magnitudes from 2^-13 to 2^-5."""
    bits = random.Random(seed).randbytes(2 * count)
    return b"".join(struct.pack("<H", (word & 0x83FF) + 0x3900) for (word,) in struct.iter_unpack("<H", bits))


def moe_tensors(config):
    """Names and shapes of a Qwen3-MoE."""
    hidden, width, heads = config["hidden_size"], config["moe_intermediate_size"], config["num_attention_heads"]
    head, kv = config["head_dim"], config["num_key_value_heads"]
    yield "model.embed_tokens.weight", [config["vocab_size"], hidden]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for name, shape in (("q_proj", [heads * head, hidden]), ("k_proj", [kv * head, hidden]),
                            ("v_proj", [kv * head, hidden]), ("o_proj", [hidden, heads * head]),
                            ("q_norm", [head]), ("k_norm", [head])):
            yield f"{prefix}self_attn.{name}.weight", shape
        yield prefix + "mlp.gate.weight", [config["num_experts"], hidden]
        for expert in range(config["num_experts"]):
            for name, shape in (("gate_proj", [width, hidden]), ("up_proj", [width, hidden]), ("down_proj", [hidden, width])):
                yield f"{prefix}mlp.experts.{expert}.{name}.weight", shape
        yield prefix + "input_layernorm.weight", [hidden]
        yield prefix + "post_attention_layernorm.weight", [hidden]
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [config["vocab_size"], hidden]


def write_moe(folder, without=(), **changes):
    """A checkpoint of two shards with an index, in the shape of the tiny model of the cases."""
    config = json.loads((TESTS / "cases/configs/tiny-Qwen3-MoE/config.json").read_text()) | changes
    folder = pathlib.Path(folder)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text('{"version": "1.0"}\n')
    tensors = {name: ("BF16", shape, ordinary_bf16(math.prod(shape), name))
               for name, shape in moe_tensors(config) if name not in without}
    names = list(tensors)
    index = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        write_tensors(folder / file, {name: tensors[name] for name in part})
        index.update({name: file for name in part})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return tensors


def rows_of(tensor, begin, end):
    dtype, shape, data = tensor
    size = DTYPE_BYTES[dtype] * math.prod(shape[1:])
    return data[begin * size:end * size]


def columns_of(tensor, begin, end):
    dtype, (rows, cols), data = tensor
    size = DTYPE_BYTES[dtype]
    return b"".join(data[(row * cols + begin) * size:(row * cols + end) * size] for row in range(rows))


class Convert(unittest.TestCase):
    PRODUCERS = {"flashinfer": "fi_cute_v0613", "flashinfer-cuda": "fi_cuda_v0613", "torchao-rceil": "ao_rceil",
                 "torchao-floor": "ao_floor", "torchao-even": "ao_even", "torchao-ceil": "ao_ceil",
                 "vllm-floor": "vllm_floor"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.src, self.dst = self.folder / "src.safetensors", self.folder / "dst.safetensors"

    def convert(self, *arguments, src=None, dst=None):
        """Converts, replacing what an earlier call made, and returns the tensors."""
        src, dst = src or self.src, dst or self.dst
        done = run("refit-convert", src, dst, "--force", "--quiet", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        self.warned = done.stderr
        return read_tensors(dst)

    def refused(self, *words, arguments=(), src=None, dst=None, code=2):
        src, dst = src or self.src, dst or self.dst
        before = sorted(os.listdir(self.folder))
        done = run("refit-convert", src, dst, *arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    # Golden vectors of other projects.

    def test_every_rounding_gives_its_producers_bytes(self):
        golden, _ = read_file_tensors(TESTS / "golden/quantize_cases.safetensors")
        cases = {name.removesuffix(".input"): tensor for name, tensor in golden.items() if name.endswith(".input")}
        write_tensors(self.src, {f"{case}.weight": ("BF16", shape, data) for case, (_, shape, data) in cases.items()})
        for rounding, producer in self.PRODUCERS.items():
            made = self.convert("--rounding", rounding, "--non-finite", "as-producer")
            compared = 0
            for case in cases:
                if f"{case}.scale.{producer}" not in golden:
                    continue
                with self.subTest(rounding=rounding, case=case):
                    elements = golden.get(f"{case}.q.{producer}") or golden[f"{case}.q.fi_cute_v0613"]
                    dtype, shape, data = made[f"{case}.weight"]
                    self.assertEqual((dtype, shape), ("F8_E4M3", cases[case][1]))
                    self.assertEqual(data, elements[2])
                    dtype, shape, data = made[f"{case}.weight_scale"]
                    self.assertEqual((dtype, shape), ("U8", cases[case][1][:-1] + [cases[case][1][-1] // 32]))
                    self.assertEqual(data, golden[f"{case}.scale.{producer}"][2])
                    compared += 1
            self.assertGreaterEqual(compared, 6)

    def test_scale_byte_1_is_nemo_rls(self):
        golden, _ = read_file_tensors(TESTS / "golden/quantize_cases.safetensors")
        for case in ("nemo2d", "nemo3d", "nemo_k32"):
            _, shape, data = golden[f"{case}.input"]
            write_tensors(self.src, {"weight": ("BF16", shape, data)})
            made = self.convert("--zero-scale", "one")
            self.assertEqual(made["weight"][2], golden[f"{case}.q"][2])
            self.assertEqual(made["weight_scale"][2], golden[f"{case}.scale"][2])

    def test_every_pattern_of_the_sweep_is_quantized_as_its_producer_does(self):
        below = [0, 1, 2, 3, 5, 8, 13, 16, 21, 32, 34, 48, 55, 64, 89, 96, 128, 144, 233, 256, 377, 512, 610, 768, 987,
                 1150, 1400, 1600, 1850, 2100, 2304]
        blocks = bytearray()
        for p in (p for p in range(65536) if bin(p).count("1") % 2 == 0):
            block = [0] * 32
            for t in range(32):
                block[(t + p) % 32] = max((p & 0x7FFF) - below[t - 1], 0) | ((p >> t % 7 ^ t) & 1) << 15 if t else p
            blocks += struct.pack("<32H", *block)
        _, metadata = read_file_tensors(TESTS / "golden/quantize_sweep.safetensors")
        self.assertEqual(hashlib.sha256(blocks).hexdigest(), metadata["sweep.input_sha256"])
        hashes = json.loads(metadata["sweep.hashes"])
        write_tensors(self.src, {"weight": ("BF16", [32768, 32], bytes(blocks))})
        for rounding, producer in self.PRODUCERS.items():
            with self.subTest(rounding=rounding):
                made = self.convert("--rounding", rounding, "--non-finite", "as-producer")
                digests = {hashlib.sha256(made[name][2]).hexdigest() for name in ("weight", "weight_scale")}
                self.assertLessEqual(digests, set(re.findall("[0-9a-f]{64}", json.dumps(hashes[producer]))))

    def test_tiled_scales_are_those_of_vllm_and_flashinfer(self):
        golden, _ = read_file_tensors(TESTS / "golden/scale_swizzle.safetensors")
        cases = [name.removeprefix("in.") for name in golden if name.startswith("in.")]
        self.assertGreater(len(cases), 3)
        source = {}
        for case in cases:
            _, shape, data = golden[f"in.{case}"]
            values = shape[:-1] + [shape[-1] * 32]
            source[f"{case}.weight"] = ("F8_E4M3", values, bytes(math.prod(values)))
            source[f"{case}.weight_scale"] = ("U8", shape, data)
        write_tensors(self.src, source)
        made = self.convert("--layout", "linear-128x4")
        for case in cases:
            with self.subTest(case=case):
                self.assertEqual(made[f"{case}.weight_scale"][2], golden[f"out.{case}"][2])

    def test_shuffled_experts_are_those_of_nemo_rl(self):
        golden, _ = read_file_tensors(TESTS / "golden/moe_shuffle.safetensors")
        tags = sorted({name.split(".in.")[0] for name in golden if ".in." in name})
        self.assertEqual(len(tags), 2)
        for tag in tags:
            w13, w2 = golden[f"{tag}.in.w13"], golden[f"{tag}.in.w2"]
            experts, rows, hidden = w13[1]
            width = w2[1][2]
            parts = {"gate_proj": 0, "up_proj": width} if rows == 2 * width else {"up_proj": 0}
            source = {}
            for expert in range(experts):
                def take(name, begin, count, shape):
                    whole = golden[f"{tag}.in.{name}"]
                    flat = ("U8", [whole[1][0] * whole[1][1], whole[1][2]], whole[2])
                    return rows_of(flat, expert * whole[1][1] + begin, expert * whole[1][1] + begin + count)
                prefix = f"model.layers.0.mlp.experts.{expert}."
                for part, begin in parts.items():
                    source[f"{prefix}{part}.weight"] = ("F8_E4M3", [width, hidden], take("w13", begin, width, None))
                    source[f"{prefix}{part}.weight_scale"] = (
                        "U8", [width, hidden // 32], take("w13_scale", begin, width, None))
                source[prefix + "down_proj.weight"] = ("F8_E4M3", [hidden, width], take("w2", 0, hidden, None))
                source[prefix + "down_proj.weight_scale_from_checkpoint"] = (
                    "F8_E8M0", [hidden, width // 32], take("w2_scale", 0, hidden, None))
            write_tensors(self.src, source)
            made = self.convert("--layout", "flashinfer-trtllm")
            with self.subTest(tag=tag):
                for name, golden_name in (("w13_weight", "w13"), ("w13_weight_scale", "w13_scale"), ("w2_weight", "w2"),
                                          ("w2_weight_scale", "w2_scale")):
                    expected = golden[f"{tag}.out.{golden_name}"]
                    self.assertEqual(made.pop(f"model.layers.0.mlp.experts.{name}")[1:], expected[1:])
                self.assertEqual(made, {})

    # The case files.

    def test_broken_case_files_are_refused_by_name(self):
        for name in ("header_len_huge", "truncated_data", "overlapping_offsets", "shape_vs_offsets"):
            with self.subTest(name=name):
                self.refused(name + ".safetensors", src=TESTS / f"cases/st/{name}.safetensors")

    def test_a_missing_shard_is_refused_with_its_name_and_tensor(self):
        self.refused("model-00002-of-00002.safetensors", "lm_head.weight", src=TESTS / "cases/index/missing_shard",
                     dst=self.folder / "out")

    def test_odd_but_valid_files_keep_every_byte(self):
        for name in ("valid_zero_size_and_empty_metadata", "valid_misaligned_mixed_dtype", "router_bias_fp32"):
            source = read_tensors(TESTS / f"cases/st/{name}.safetensors")
            for arguments in (("--ignore", "*"), ("--format", "bf16", "--ignore", "*"), ("--recipe", "none")):
                with self.subTest(name=name, arguments=arguments):
                    self.assertEqual(self.convert(*arguments, src=TESTS / f"cases/st/{name}.safetensors"), source)

    def test_a_router_bias_stays_fp32(self):
        src = TESTS / "cases/st/router_bias_fp32.safetensors"
        biases = {name: tensor for name, tensor in read_tensors(src).items() if tensor[0] == "F32"}
        self.assertEqual(len(biases), 1)
        for form in ("mxfp8", "bf16"):
            made = self.convert("--format", form, src=src)
            for name, tensor in biases.items():
                self.assertEqual(made[name], tensor)

    def test_rounding_boundaries_are_those_of_the_table(self):
        src = TESTS / "cases/st/mxfp8_scale_boundaries.safetensors"
        up = self.convert("--select", "*", "--rounding", "torchao-rceil", src=src)
        down = self.convert("--select", "*", "--rounding", "torchao-floor", src=src)
        self.assertEqual(list(up["blocks_scale"][2]), [0, 127, 128, 128, 128, 119, 120, 127, 127, 127, 113])
        self.assertEqual(list(down["blocks_scale"][2]), [0, 127, 127, 127, 128, 119, 119, 127, 127, 127, 112])
        tiled = self.convert("--select", "*", "--layout", "linear-128x4", src=src)["k96_rows130_scale"]
        self.assertEqual(tiled[:2], ("U8", [256 * 4]))
        self.assertEqual(tiled[2].count(0), 256 * 4 - 130 * 3)

    # Sources of every kind.

    def test_every_dtype_is_copied_when_it_is_no_weight(self):
        source = {f"t.{dtype}": (dtype, [3, 5], bytes(range(1, 15 * size + 1))) for dtype, size in DTYPE_BYTES.items()}
        source["t.scalar"] = ("F32", [], b"abcd")
        write_tensors(self.src, source)
        for arguments in ((), ("--layout", "linear-128x4"), ("--layout", "flashinfer-trtllm")):
            self.assertEqual(self.convert(*arguments), source)

    def test_fp32_and_fp16_go_through_bf16(self):
        exact = {"F32": lambda v: struct.pack("<f", v), "F16": lambda v: struct.pack("<e", v)}
        # 1 + 2^-8 is a tie between two BF16 values, 1 + 3 * 2^-8 another, 65504 the largest half.
        values = [1 + 2**-8, -(1 + 3 * 2**-8), 65504.0, 2.0**-24, 0.0, -0.0, 0.333251953125, 1 + 2**-10] * 8
        bits = [0x3F80, 0xBF82, 0x4780, 0x3380, 0x0000, 0x8000, 0x3EAB, 0x3F80] * 8
        bf16 = struct.pack("<64H", *bits)
        write_tensors(self.src, {"weight": ("BF16", [2, 32], bf16)})
        expected = self.convert()
        for dtype, pack in exact.items():
            with self.subTest(dtype=dtype):
                write_tensors(self.src, {"weight": (dtype, [2, 32], b"".join(map(pack, values)))})
                self.assertEqual(self.convert(), expected)
                self.assertEqual(self.convert("--format", "bf16"), {"weight": ("BF16", [2, 32], bf16)})

    def test_an_mxfp8_source_is_laid_out_and_dequantized(self):
        values, scales = bytes(range(256)) * 2, bytes([0, 1, 127, 254, 120, 130, 255, 7] * 2)
        for suffix, dtype in (("_scale", "U8"), ("_scale_from_checkpoint", "F8_E8M0")):
            write_tensors(self.src, {"a.weight": ("F8_E4M3", [8, 64], values), "a.weight" + suffix: (dtype, [8, 2], scales),
                                     "b.weight": ("BF16", [1, 32], bytes(64))})
            made = self.convert("--scale-suffix", "_s")
            self.assertEqual(made, {"a.weight": ("F8_E4M3", [8, 64], values), "a.weight_s": ("U8", [8, 2], scales),
                                    "b.weight": ("BF16", [1, 32], bytes(64))})
            dtype, shape, data = self.convert("--format", "bf16")["a.weight"]
            self.assertEqual((dtype, shape), ("BF16", [8, 64]))
            words = struct.unpack("<512H", data)
            # Element i is byte i. Scales of the first blocks: 2^-127, 2^-126, 1, 2^127.
            expected = {0x08: 0x0001,   # 2^-133, the least BF16
                        0x04: 0x0000,   # half of that: a tie, to even
                        0x0C: 0x0002,   # one and a half: a tie, to even
                        0x38: 0x0080,   # 1 * 2^-126
                        0x40: 0x4000,   # 2
                        0x7E: 0x7F80}   # 448 * 2^127
            self.assertEqual({i: words[i] for i in expected}, expected)

    def test_a_gpu_quantizes_to_the_same_bytes(self):
        need_gpu(self)
        words = [(i * 40503 + 12345) % 0x7F80 | (i & 1) << 15 for i in range(3 * 160 * 96)]
        write_tensors(self.src, {"experts.weight": ("BF16", [3, 160, 96], struct.pack(f"<{len(words)}H", *words)),
                                 "f.weight": ("F32", [5, 64], struct.pack("<320f", *(i / 7 for i in range(320))))})
        for rounding in self.PRODUCERS:
            for layout in ("checkpoint", "linear-128x4"):
                arguments = ("--rounding", rounding, "--layout", layout)
                with self.subTest(arguments):
                    self.assertEqual(self.convert(*arguments, "--backend", "cuda"), self.convert(*arguments))
        source = write_moe(self.folder / "src")
        arguments = ("--layout", "flashinfer-trtllm", "--threads", "3")
        self.assertEqual(self.convert(*arguments, "--backend", "cuda", src=self.folder / "src", dst=self.folder / "gpu"),
                         self.convert(*arguments, src=self.folder / "src", dst=self.folder / "cpu"))
        write_tensors(self.src, {"weight": ("BF16", [2, 32], bytes(120) + b"\x80\x7f" + bytes(6))})
        self.dst.unlink()
        self.refused("weight", "[1, 28]", "inf", arguments=("--backend", "cuda"))
        self.assertEqual(self.convert("--backend", "cuda", "--non-finite", "as-producer"),
                         self.convert("--non-finite", "as-producer"))

    def test_scales_that_are_missing_or_of_another_shape_are_refused(self):
        write_tensors(self.src, {"a.weight": ("F8_E4M3", [2, 64], bytes(128))})
        self.refused("a.weight", "scales")
        write_tensors(self.src, {"a.weight": ("F8_E4M3", [2, 64], bytes(128)), "a.weight_scale": ("U8", [512], bytes(512))})
        self.refused("a.weight_scale", "[512]", "[2, 2]")

    # Directories.

    def test_a_directory_becomes_a_checkpoint_that_vllm_reads(self):
        source = write_moe(self.folder / "src")
        (self.folder / "src/stray.safetensors").write_bytes(b"no checkpoint")
        out = self.folder / "out"
        made = self.convert("--shard-size", "1MiB", src=self.folder / "src", dst=out)
        experts = {name for name in source if ".experts." in name}
        self.assertEqual(set(made), set(source) | {name + "_scale" for name in experts})
        for name, tensor in source.items():
            if name not in experts:
                self.assertEqual(made[name], tensor)
        index = json.loads((out / "model.safetensors.index.json").read_text())
        self.assertEqual(set(index["weight_map"]), set(made))
        self.assertGreater(len(set(index["weight_map"].values())), 3)
        self.assertEqual((out / "tokenizer.json").read_text(), '{"version": "1.0"}\n')
        self.assertFalse((out / "stray.safetensors").exists())
        config = json.loads((out / "config.json").read_text())
        quantization = config.pop("quantization_config")
        self.assertEqual(config, json.loads((self.folder / "src/config.json").read_text()))
        self.assertEqual({key: quantization[key] for key in ("quant_method", "quant_algo")},
                         {"quant_method": "modelopt", "quant_algo": "MXFP8"})
        for module in ("lm_head", "model.layers.0.mlp.gate", "model.layers.3.self_attn.q_proj"):
            self.assertIn(module, quantization["ignore"])
        for module in quantization["ignore"]:
            self.assertNotIn("experts", module)
        self.assertEqual(self.warned, "")

    def test_recipes_selections_and_ignored_names_choose(self):
        source = write_moe(self.folder / "src", num_hidden_layers=1)

        def quantized(*arguments):
            made = self.convert(*arguments, src=self.folder / "src", dst=self.folder / "out")
            return {name for name in source if made[name][0] == "F8_E4M3"}
        experts = {name for name in source if ".experts." in name}
        attention = {f"model.layers.0.self_attn.{x}_proj.weight" for x in "qkvo"}
        self.assertEqual(quantized(), experts)
        self.assertEqual(quantized("--recipe", "all-linear"), experts | attention)
        self.assertEqual(quantized("--recipe", "none"), set())
        self.assertEqual(quantized("--recipe", "all-linear", "--ignore", "q_proj", "*.experts.*"),
                         attention - {"model.layers.0.self_attn.q_proj.weight"})
        self.assertEqual(quantized("--select", "model.layers.?.self_attn.k*"), {"model.layers.0.self_attn.k_proj.weight"})
        self.refused("nothing_like_it", arguments=("--select", "nothing_like_it"), src=self.folder / "src",
                     dst=self.folder / "new")

    def test_what_the_model_has_and_the_source_lacks(self):
        write_moe(self.folder / "src", without={"model.norm.weight"})
        self.convert(src=self.folder / "src", dst=self.folder / "out")
        self.assertIn("model.norm.weight", self.warned)
        write_moe(self.folder / "less", without={"model.layers.2.mlp.experts.5.up_proj.weight"})
        self.refused("model.layers.2.mlp.experts.5.up_proj.weight", src=self.folder / "less", dst=self.folder / "new")

    def test_ranks_together_are_the_whole(self):
        source = write_moe(self.folder / "src", num_hidden_layers=1)
        whole = self.convert("--recipe", "all-linear", src=self.folder / "src", dst=self.folder / "whole")
        config = json.loads((self.folder / "src/config.json").read_text())
        rows = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "embed_tokens", "lm_head")
        for size in (2, 4):
            for rank in range(size):
                made = self.convert("--recipe", "all-linear", "--tp-size", str(size), "--tp-rank", str(rank),
                                    src=self.folder / "src", dst=self.folder / "part")
                self.assertEqual(set(made), set(whole))
                for name, tensor in whole.items():
                    module = name.split(".")[-2]
                    dtype, shape, data = tensor
                    expected = data
                    if module in ("k_proj", "v_proj") and size > config["num_key_value_heads"]:
                        head = rank // (size // config["num_key_value_heads"])
                        expected = rows_of(tensor, head * config["head_dim"], (head + 1) * config["head_dim"])
                    elif module in rows:
                        expected = rows_of(tensor, shape[0] // size * rank, shape[0] // size * (rank + 1))
                    elif module in ("o_proj", "down_proj"):
                        expected = columns_of(tensor, shape[1] // size * rank, shape[1] // size * (rank + 1))
                    self.assertEqual(made[name][2], expected, (size, rank, name))
        self.refused("4 attention heads", "3", arguments=("--tp-size", "3"), src=self.folder / "src", dst=self.folder / "new")
        self.refused("down_proj.weight", "16", "32", arguments=("--tp-size", "8", "--tp-rank", "7"),
                     src=self.wide_heads(), dst=self.folder / "new")
        write_tensors(self.src, {"weight": source["lm_head.weight"]})
        self.refused("--tp-size 2", "config.json", arguments=("--tp-size", "2"))
        self.refused("--tp-rank 2", arguments=("--tp-size", "2", "--tp-rank", "2"), src=self.folder / "src",
                     dst=self.folder / "new")

    def wide_heads(self):
        write_moe(self.folder / "wide", num_hidden_layers=1, num_attention_heads=8, num_key_value_heads=8, head_dim=32)
        return self.folder / "wide"

    def test_a_rank_laid_out_is_the_layout_of_the_rank(self):
        write_moe(self.folder / "src", num_hidden_layers=1, moe_intermediate_size=256)
        rank = ("--tp-size", "2", "--tp-rank", "1")
        self.convert(*rank, "--zero-scale", "one", src=self.folder / "src", dst=self.folder / "rank")
        directly = self.convert(*rank, "--layout", "flashinfer-trtllm", src=self.folder / "src", dst=self.folder / "a")
        later = self.convert("--layout", "flashinfer-trtllm", src=self.folder / "rank", dst=self.folder / "b")
        self.assertEqual(directly, later)
        self.assertEqual(directly["model.layers.0.mlp.experts.w13_weight"][:2], ("F8_E4M3", [8, 256, 256]))

    # What goes wrong.

    def test_non_finite_weights_are_refused_by_tensor_and_index(self):
        data = bytearray(ordinary_bf16(300 * 64, 1))
        struct.pack_into("<H", data, 2 * (217 * 64 + 5), 0xFF80)
        write_tensors(self.src, {"a.weight": ("BF16", [300, 64], bytes(data))})
        self.refused(self.src, "a.weight", "[217, 5]", "-inf")
        self.convert("--non-finite", "as-producer")
        self.dst.unlink()
        write_tensors(self.src, {"a.weight": ("F32", [1, 32], struct.pack("<f", 3.4e38) + bytes(124))})
        self.refused("[0, 0]", "infinite in BF16")

    def test_shapes_that_do_not_divide_are_refused_with_numbers(self):
        write_tensors(self.src, {"a.weight": ("BF16", [64, 48], bytes(64 * 96))})
        self.refused("a.weight", "48", "32", arguments=("--select", "a.weight"))
        self.assertEqual(self.convert()["a.weight"][0], "BF16")
        write_moe(self.folder / "src", num_hidden_layers=1, moe_intermediate_size=96)
        self.refused("w13_weight", "192", "128", arguments=("--layout", "flashinfer-trtllm"), src=self.folder / "src",
                     dst=self.folder / "new")

    def test_a_destination_is_replaced_only_when_asked(self):
        write_tensors(self.src, {"weight": ("BF16", [1, 32], bytes(64))})
        self.convert()
        self.refused(self.dst, "--force")
        self.refused("that is where it is", dst=self.src, arguments=("--force",))
        write_moe(self.folder / "src", num_hidden_layers=1)
        self.refused("that is where it is", src=self.folder / "src", dst=self.folder / "src", arguments=("--force",))
        self.refused("which holds it", src=self.folder / "src", dst=self.folder, arguments=("--force",))
        (self.folder / "papers").mkdir()
        (self.folder / "papers/letter.txt").write_text("dear")
        self.refused("papers", src=self.folder / "src", dst=self.folder / "papers", arguments=("--force",))

    def test_unknown_words_are_refused(self):
        write_tensors(self.src, {"weight": ("BF16", [1, 32], bytes(64))})
        for option, word in (("--format", "fp4"), ("--layout", "sideways"), ("--rounding", "up"), ("--recipe", "some"),
                             ("--backend", "tpu")):
            self.refused(option, word, arguments=(option, word))
        self.refused("linear-128x4", "bf16", arguments=("--format", "bf16", "--layout", "linear-128x4"))

    def test_experts_that_are_treated_unlike_are_a_warning(self):
        write_moe(self.folder / "src")
        done = run("refit-convert", self.folder / "src", self.folder / "out", "--ignore", "layers.1.mlp.experts.0.")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("model.layers.1.mlp.experts: some experts are MXFP8 and some are not", done.stderr)
        self.assertEqual(done.stderr.count("some experts"), 1)

    def test_a_report_says_what_was_done(self):
        write_tensors(self.src, {"a.weight": ("BF16", [4, 64], bytes(512)), "b": ("F32", [3], bytes(12))})
        done = run("refit-convert", self.src, self.dst, "--json", "-", "--rounding", "torchao-even")
        report = json.loads(done.stdout)
        self.assertEqual(report["tensors"], {"in": 2, "out": 3, "quantized": 1, "laid_out": 0, "dequantized": 0, "cast": 0,
                                             "copied": 1})
        self.assertEqual((report["bytes_in"], report["bytes_out"]), (524, 256 + 8 + 12))
        self.assertEqual((report["rounding"], report["layout"]), ("torchao-even", "checkpoint"))
        self.assertNotIn("\r", done.stderr)
        self.assertEqual(read_file_tensors(self.dst)[1]["refit.rounding"], "torchao-even")

    def test_every_report_validates(self):
        write_moe(self.folder / "src", num_hidden_layers=1, vocab_size=250)
        (self.folder / "src/data.db").write_text("")
        path = self.folder / "report.json"
        out = self.folder / "out"
        for arguments in ((), ("--format", "bf16"), ("--layout", "linear-128x4", "--zero-scale", "one"), ("--recipe", "none"),
                          ("--select", "q_proj", "--tp-size", "2", "--tp-rank", "1", "--rounding", "vllm-floor")):
            self.convert(*arguments, "--json", path, src=self.folder / "src", dst=out)
            validate(self, path, TESTS.parent / "scenarios/schema/refit-convert-1.schema.json")
        self.assertIn("data.db", json.loads(path.read_text())["notes"][-1])
        self.assertFalse((out / "data.db").exists())

    def test_a_report_that_cannot_be_written_costs_the_result_only_while_it_can(self):
        write_tensors(self.src, {"weight": ("BF16", [1, 32], bytes(64))})
        done = run("refit-convert", self.src, self.dst, "--json", "/dev/full")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"{self.dst} was written, but its report was not: cannot write /dev/full", done.stderr)
        self.assertEqual(read_tensors(self.dst)["weight"][0], "F8_E4M3")
        # A file may have 1024 bytes: the result has fewer, and the report more, for its long paths.
        folder = self.folder / ("x" * 250) / ("y" * 250)
        folder.mkdir(parents=True)
        self.src.rename(folder / "src")
        command = f'ulimit -f 1; exec "{BIN}/refit-convert" "{folder}/src" "{folder}/dst" --json "{folder}/json"'
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("json was not written", done.stderr)
        self.assertEqual(os.listdir(folder), ["src"])

    # What happens around it.

    def test_a_source_that_is_cut_short_is_named_and_nothing_is_left(self):
        self.huge_source()
        process = subprocess.Popen([BIN / "refit-convert", self.src, self.dst, "--threads", "1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        wait_until(lambda: len(os.listdir(self.folder)) > 1 or process.poll() is not None, 60, "the first byte")
        os.truncate(self.src, 1 << 20)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 3, err)
        self.assertIn(f"{self.src}: became shorter while it was read", err)
        self.assertEqual(os.listdir(self.folder), [self.src.name])

    def test_what_is_no_regular_file_is_refused_at_once(self):
        source = self.folder / "src"
        write_moe(source, num_hidden_layers=1)
        os.mkfifo(self.folder / "pipe")
        for name in ("config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors"):
            with self.subTest(name):
                (source / name).rename(self.folder / "kept")
                (source / name).symlink_to("../pipe")
                self.refused(name, "not a regular file", src=source, dst=self.folder / "new")
                (source / name).unlink()
                (source / name).symlink_to("nowhere")
                self.refused(name, "No such file", src=source, dst=self.folder / "new")
                self.refused(name, "No such file", src=source, dst=self.folder / "new", arguments=("--select", "q_proj"))
                (source / name).unlink()
                (self.folder / "kept").rename(source / name)
        pipe = self.folder / "pipe"
        for arguments in (("refit-bench", "--scenario", pipe), ("refit-bench", "--scenario", "tiny-moe", "--checkpoint", pipe),
                          ("refit-convert", pipe, self.dst), ("refit-verify", "files", pipe, pipe)):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("not a regular file", done.stderr)
        (source / "tokenizer.json").unlink()
        (source / "tokenizer.json").symlink_to("nowhere")
        self.refused("tokenizer.json", src=source, dst=self.folder / "new")
        # And before the weights, whose first one would be refused too.
        with open(source / "model-00001-of-00002.safetensors", "r+b") as file:
            file.seek(-2, os.SEEK_END)
            file.write(b"\xc0\x7f")
        self.refused("tokenizer.json", src=source, dst=self.folder / "new", arguments=("--select", "*"))

    def test_a_config_of_another_model_is_refused(self):
        source = self.folder / "src"
        write_moe(source, num_hidden_layers=1)
        tensors = {name.replace("model.", "other."): tensor for name, tensor in read_tensors(source).items()}
        for file in source.glob("*.safetensors*"):
            file.unlink()
        write_tensors(source / "model.safetensors", tensors)
        self.refused("config.json describes 24 tensors to quantize", "none of them", src=source, dst=self.folder / "new")
        self.convert("--recipe", "none", src=source, dst=self.folder / "out")
        self.convert("--select", "q_proj", src=source, dst=self.folder / "out")

    def test_only_a_directory_of_a_checkpoint_is_replaced(self):
        source, out = self.folder / "src", self.folder / "out"
        write_moe(source, num_hidden_layers=1)
        for name in ("LICENSE", "README.md", "tokenizer.model", "modeling_x.py", ".gitattributes", "chat_template.jinja"):
            (source / name).write_text(name)
        for _ in range(2):  # also what an earlier conversion made
            self.convert(src=source, dst=out)
            self.assertEqual((out / "LICENSE").read_text(), "LICENSE")
            self.assertEqual((out / ".gitattributes").read_text(), ".gitattributes")
        (out / "results.db").write_text("a week's work")
        self.refused("results.db", src=source, dst=out, arguments=("--force",))
        self.assertEqual((out / "results.db").read_text(), "a week's work")

    def test_an_odd_vocabulary_is_padded_as_the_engine_pads_it(self):
        vocab, size = 250, 4
        source = write_moe(self.folder / "src", num_hidden_layers=1, vocab_size=vocab)
        for arguments in ((), ("--select", "lm_head"), ("--select", "lm_head", "--zero-scale", "one", "--layout", "linear-128x4"),
                          ("--select", "lm_head", "embed_tokens", "--rounding", "torchao-ceil")):
            whole = self.convert(*arguments, src=self.folder / "src", dst=self.folder / "whole")
            for rank in range(size):
                made = self.convert(*arguments, "--tp-size", str(size), "--tp-rank", str(rank), "--json", self.folder / "j",
                                    src=self.folder / "src", dst=self.folder / "part")
                zeros = 6 if rank == 3 else 0
                self.assertIn(f"padded to 256, so each rank has 64; of this one {zeros} are zeros",
                              " ".join(json.loads((self.folder / "j").read_text())["notes"]))
                for name in ("model.embed_tokens.weight", "lm_head.weight"):
                    dtype, shape, data = made[name]
                    rows = rows_of(whole[name], 64 * rank, min(vocab, 64 * rank + 64))
                    self.assertEqual((dtype, shape), (whole[name][0], [64, shape[1]]))
                    self.assertEqual(data, rows + bytes(len(data) - len(rows)))
        # Ranks of zeros alone, and what the quantizer makes of a row of zeros.
        small = write_moe(self.folder / "small", num_hidden_layers=1, vocab_size=20)
        for arguments in (("--rounding", "flashinfer"), ("--rounding", "torchao-even"), ("--zero-scale", "one")):
            write_tensors(self.src, {"weight": ("BF16", [1, 32], bytes(64))})
            scale = self.convert(*arguments)["weight_scale"][2]
            made = self.convert("--select", "lm_head", *arguments, "--tp-size", "2", "--tp-rank", "1", src=self.folder / "small",
                                dst=self.folder / "part")
            self.assertEqual(made["lm_head.weight"][1], [32, small["lm_head.weight"][1][1]])
            self.assertEqual(set(made["lm_head.weight"][2]), {0})
            self.assertEqual(made["lm_head.weight_scale"][2], scale * len(made["lm_head.weight_scale"][2]))
            self.assertEqual(set(made["model.embed_tokens.weight"][2]), {0})
        # An MXFP8 head is cut and padded too, and made BF16 again.
        self.convert("--select", "lm_head", src=self.folder / "small", dst=self.folder / "mxfp8")
        for arguments in ((), ("--format", "bf16")):
            for rank in "01":
                made = self.convert(*arguments, "--tp-size", "2", "--tp-rank", rank, src=self.folder / "mxfp8",
                                    dst=self.folder / "part")
                filled = 20 if rank == "0" else 0
                head = made["lm_head.weight"]
                self.assertEqual(set(rows_of(head, filled, 32)), {0})
                self.assertEqual(len(set(rows_of(head, 0, filled))) > 1, rank == "0")
        # A trainer's padding is nobody's.
        padded = dict(small)
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            dtype, shape, data = padded[name]
            padded[name] = (dtype, [64, shape[1]], data + b"\x40" * (44 * shape[1] * 2))
        for file in (self.folder / "small").glob("*.safetensors*"):
            file.unlink()
        write_tensors(self.folder / "small/model.safetensors", padded)
        made = self.convert("--tp-size", "2", "--tp-rank", "0", src=self.folder / "small", dst=self.folder / "part")
        self.assertEqual(set(rows_of(made["lm_head.weight"], 20, 32)), {0})
        self.refused("20 rows, padded to 64, does not divide by 3", arguments=("--tp-size", "3"), dst=self.folder / "new",
                     src=self.three_heads())

    def three_heads(self):
        write_moe(self.folder / "three", num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=3, vocab_size=20)
        return self.folder / "three"

    def test_the_verifier_agrees_with_every_rank_of_an_odd_vocabulary(self):
        source = self.folder / "src"
        write_moe(source, num_hidden_layers=1, vocab_size=250)
        for rank in range(4):
            made = self.convert("--tp-size", "4", "--tp-rank", str(rank), "--recipe", "none", src=source, dst=self.folder / "part")
            done = run("refit-verify", "engine", source, self.folder / "part", "--model", source, "--recipe", "none",
                       "--tp-size", "4", "--tp-rank", str(rank), "--json", "-")
            report = json.loads(done.stdout)
            # What the engine fuses is missing under its name; all else is equal.
            self.assertEqual({finding["fault"] for finding in report["findings"]}, {"missing"})
            judged = set(made) - set(report["not_judged"])
            self.assertLessEqual({"model.embed_tokens.weight", "lm_head.weight"}, judged)

    def huge_source(self):
        """2 GB of zeros that take no room on the disk."""
        header = json.dumps({"weight": {"dtype": "BF16", "shape": [1 << 18, 1 << 12], "data_offsets": [0, 1 << 31]}}).encode()
        with open(self.src, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + (1 << 31))

    def test_an_interrupted_conversion_leaves_nothing(self):
        self.huge_source()
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                process = subprocess.Popen([BIN / "refit-convert", self.src, self.dst, "--threads", "1"],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(process.kill)
                wait_until(lambda: len(os.listdir(self.folder)) > 1 or process.poll() is not None, 60, "the first byte")
                process.send_signal(number)
                _, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, 3, err)
                self.assertIn("interrupted", err)
                self.assertEqual(os.listdir(self.folder), [self.src.name])

    def test_a_signal_that_comes_twice_leaves_nothing(self):
        self.huge_source()
        process = subprocess.Popen([BIN / "refit-convert", self.src, self.dst, "--threads", "1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        wait_until(lambda: len(os.listdir(self.folder)) > 1 or process.poll() is not None, 60, "the first byte")
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            process.send_signal(number)
            time.sleep(0.001)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 3, err)
        self.assertEqual(os.listdir(self.folder), [self.src.name])

    def test_a_result_in_its_source_is_not_mentioned_while_it_has_another_name(self):
        source = self.folder / "src"
        write_moe(source, num_hidden_layers=1)
        done = run("refit-convert", source, source / "mxfp8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("note", done.stdout)

    def test_a_machine_that_has_no_more_to_give_is_no_bad_input(self):
        self.huge_source()
        command = f'ulimit -v 1000000; exec "{BIN}/refit-convert" "{self.src}" "{self.dst}"'
        if b"asan" in (BIN / "refit-convert").read_bytes():
            self.skipTest("a sanitizer needs more address space than the limit")
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"{self.src}: cannot map the", done.stderr)

    def test_nothing_to_quantize_is_said(self):
        write_moe(self.folder / "src", num_hidden_layers=1)
        for arguments, words in ((("--recipe", "mlp", "--ignore", "experts"), "the recipe mlp chooses and --ignore leaves"),
                                 (("--ignore", "*"), "the recipe routed-experts chooses and --ignore leaves")):
            self.convert(*arguments, src=self.folder / "src", dst=self.folder / "out")
            self.assertIn("nothing in the result is MXFP8", self.warned)
            self.assertIn(words, self.warned)
        self.convert("--recipe", "none", src=self.folder / "src", dst=self.folder / "out")
        self.assertEqual(self.warned, "")
        write_tensors(self.src, {"norm": ("BF16", [32], bytes(64))})
        self.convert()
        self.assertIn("nothing in the result is MXFP8", self.warned)

    def test_a_rank_of_a_tensor_of_other_dimensions_is_refused(self):
        source = self.folder / "src"
        tensors = write_moe(source, num_hidden_layers=1)
        for file in source.glob("*.safetensors*"):
            file.unlink()
        name = "model.layers.0.self_attn.q_proj.weight"
        dtype, shape, data = tensors[name]
        for other in ([1, *shape], [1, 1, *shape], [math.prod(shape)]):
            write_tensors(source / "model.safetensors", tensors | {name: (dtype, other, data)})
            self.refused(name, f"it has {len(other)} dimensions, and in config.json's model 2", src=source,
                         arguments=("--tp-size", "2"), dst=self.folder / "new")
            self.assertEqual(self.convert(src=source, dst=self.folder / "out")[name], (dtype, other, data))

    def test_tensors_without_elements_may_have_any_other_dimensions(self):
        most = (1 << 64) - 1
        for shape in ([most, 0], [0, 1 << 63], [1 << 63, 0, 32], [most, most, 0], [most, 0, most], [0, 64, 32], [2, 3, 0, 32],
                      [most, most, 0, most]):
            write_tensors(self.src, {"a.weight": ("BF16", shape, b""), "b.weight": ("BF16", [1, 32], bytes(64))})
            for arguments in ((), ("--layout", "linear-128x4"), ("--format", "bf16"), ("--select", "b")):
                with self.subTest(shape=shape, arguments=arguments):
                    made = self.convert(*arguments)
                    self.assertEqual(made["a.weight"][1], shape)
                    subcommand = "files" if "bf16" in arguments else "quantized"
                    done = run("refit-verify", subcommand, self.src, self.dst)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_counts_are_whole_numbers_in_range(self):
        write_tensors(self.src, {"weight": ("BF16", [1, 32], bytes(64))})
        for option, text in (("--tp-size", "0"), ("--tp-size", "-1"), ("--tp-size", "1e3"),
                             ("--tp-rank", "-1"), ("--tp-size", str(1 << 64))):
            self.refused(f'{option}: "{text}" is not a whole number', arguments=(f"{option}={text}",))

    def test_a_full_disk_leaves_nothing(self):
        write_moe(self.folder / "src", num_hidden_layers=1)
        self.convert(src=self.folder / "src", dst=self.folder / "out", *("--recipe", "none"))
        before = read_tensors(self.folder / "out")
        command = f'ulimit -f 200; exec "{BIN}/refit-convert" "{self.folder}/src" "{self.folder}/out" --force'
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("out", done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["out", "src"])
        self.assertEqual(read_tensors(self.folder / "out"), before)


def documented_runs():
    """Of docs/verify.md: its Python program, and every command with what it is said to print."""
    text = (TESTS.parent / "docs/verify.md").read_text()
    program = text.split("## demo.py\n\n```python\n")[1].split("```\n")[0]
    runs = []
    for block in re.findall(r"```console\n(.*?)```\n", text, re.S):
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            runs.append((command, output))
    return program, runs


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, **tensors):
        write_tensors(self.folder / name, tensors)
        return str(self.folder / name)

    def demo(self, fault):
        (self.folder / "demo.py").write_text(documented_runs()[0])
        subprocess.run([sys.executable, "demo.py", "demo", fault], cwd=self.folder, check=True, timeout=PATIENCE)
        demo = self.folder / "demo"
        return [str(demo / "src.safetensors"), str(demo / "dump.safetensors"), "--model", str(demo)]

    def test_a_report_never_replaces_what_is_read(self):
        a = self.write("a.safetensors", x=("F32", [1], struct.pack("<f", 1)))
        os.symlink(a, self.folder / "link")
        before = pathlib.Path(a).read_bytes()
        for option, path in (("--json", a), ("--junit", a), ("--json", str(self.folder / "link"))):
            done = run("refit-verify", "files", a, a, option, path)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("would replace it", done.stderr)
        done = run("refit-convert", a, str(self.folder / "b.safetensors"), "--json", a)
        self.assertEqual(done.returncode, 2, done.stderr)
        model = self.folder.parent / (self.folder.name + "-model")
        write_moe(model, num_hidden_layers=1)
        self.addCleanup(shutil.rmtree, model)
        index, link = model / "model.safetensors.index.json", self.folder / "model"
        link.symlink_to(model)
        files = {path.name: path.read_bytes() for path in model.iterdir()}
        for source in (model, index, link):
            for name in ("config.json", "tokenizer.json", index.name, "model-00001-of-00002.safetensors"):
                for arguments in (("refit-convert", source, self.folder / "new", "--json", model / name),
                                  ("refit-verify", "files", source, a, "--json", model / name),
                                  ("refit-verify", "quantized", a, source, "--junit", model / name)):
                    done = run(*arguments)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn("would replace it", done.stderr)
        done = run("refit-verify", "engine", a, a, "--model", model / "config.json", "--json", model / "config.json")
        self.assertIn("would replace it", done.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in model.iterdir()}, files)
        link.unlink()
        self.assertEqual(pathlib.Path(a).read_bytes(), before)
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.safetensors", "link"])

    def test_no_verdict_about_nothing(self):
        a = self.write("a.safetensors", **{"x.weight": ("BF16", [1, 32], bytes(64))})
        done = run("refit-verify", "quantized", a, a)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("holds no MXFP8 tensor", done.stderr)

    def test_a_router_bias_in_bf16_is_no_quantization(self):
        name = "model.layers.0.mlp.gate.e_score_correction_bias"
        weight = {"x.weight": ("BF16", [1, 32], bytes(64)), "norm": ("F32", [1], bytes(4))}
        mxfp8 = {"x.weight": ("F8_E4M3", [1, 32], bytes(32)), "x.weight_scale": ("U8", [1, 1], bytes(1)),
                 "norm": ("BF16", [1], bytes(2))}
        a = self.write("a", **weight, **{name: ("F32", [2], struct.pack("<2f", 3, 3.0007))})
        b = self.write("b", **mxfp8, **{name: ("BF16", [2], b"\x40\x40\x40\x40")})
        done = run("refit-verify", "quantized", a, b)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(f"{name}: is BF16, expected F32", done.stdout)
        self.assertIn("norm is a cast of F32 to BF16", done.stdout)

    def test_a_tied_head_is_judged_where_it_is_there(self):
        model = self.folder / "model"
        tensors = write_moe(model, num_hidden_layers=1, tie_word_embeddings=True, without=("lm_head.weight",))
        embedding = tensors["model.embed_tokens.weight"]
        for head, code in ((None, 0), (embedding, 0), ((*embedding[:2], bytes(len(embedding[2]))), 1)):
            with self.subTest(code=code):
                dump = {"model.embed_tokens.weight": embedding} | ({"lm_head.weight": head} if head else {})
                write_tensors(self.folder / "dump", dump)
                done = run("refit-verify", "engine", model, self.folder / "dump", "--model", model, "--max-report", "100")
                self.assertEqual(done.returncode, 1, done.stderr)  # the other parameters are missing
                self.assertNotIn("not judged", done.stdout)
                self.assertNotIn("model.embed_tokens.weight:", done.stdout)
                self.assertEqual("lm_head.weight: " in done.stdout, code == 1, done.stdout)

    def test_counts_of_the_verifier_are_whole_numbers_in_range(self):
        for option, text in (("--tp-size", "0"), ("--tp-size", "-1"), ("--ep-size", "0"), ("--ep-rank", "-1"),
                             ("--max-report", "-1"), ("--tp-size", "4294967297")):
            done = run("refit-verify", "engine", "a", "b", "--model", "c", f"{option}={text}")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f'{option}: "{text}" is not a whole number', done.stderr)

    def test_every_documented_command_prints_what_the_document_says(self):
        program, runs = documented_runs()
        self.assertGreater(len(runs), 20)
        (self.folder / "demo.py").write_text(program)
        options = "demo/src.safetensors demo/dump.safetensors --model demo --layout flashinfer-trtllm"
        found = set()
        for command, output in runs:
            with_json = "refit-verify engine" in command
            with self.subTest(command=command):
                done = subprocess.run(["bash", "-c", command + (" --json report.json" if with_json else "")],
                                      cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE,
                                      env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "DEMO": options})
                self.assertEqual(done.stdout + done.stderr, output)
                if with_json:
                    report = json.loads((self.folder / "report.json").read_text())
                    found.update(finding["diagnosis"]["name"] for finding in report["findings"])
        # Every diagnosis is documented with a command.
        schema = json.loads((TESTS.parent / "scenarios/schema/refit-verify-1.schema.json").read_text())
        wanted = set(schema["definitions"]["finding"]["properties"]["diagnosis"]["properties"]["name"]["oneOf"][1]["enum"])
        self.assertEqual(wanted - found, set())

    def test_equal_files_exit_0_and_different_ones_1(self):
        a = self.write("a.safetensors", x=("F32", [2, 2], struct.pack("<4f", 1, 2, 3, 4)))
        b = self.write("b.safetensors", x=("F32", [2, 2], struct.pack("<4f", 1, 2, -0.0, 4)))
        self.assertEqual(run("refit-verify", "files", a, a).returncode, 0)
        done = run("refit-verify", "files", a, b)
        self.assertEqual(done.returncode, 1)
        self.assertIn("x: 1 of 4 elements differ, the first at [1, 0] is -0 (0x80000000), expected 3 (0x40400000)",
                      done.stdout)

    def test_a_difference_of_dtype_names_tensor_and_both_dtypes(self):
        a = self.write("a.safetensors", x=("BF16", [2], b"\0" * 4))
        b = self.write("b.safetensors", x=("F16", [2], b"\0" * 4))
        done = run("refit-verify", "files", a, b)
        self.assertEqual(done.returncode, 1)
        self.assertIn("x: is F16, expected BF16", done.stdout)

    def test_shards_do_not_matter(self):
        tensors = write_moe(self.folder / "sharded")
        write_tensors(self.folder / "one.safetensors", tensors)
        done = run("refit-verify", "files", self.folder / "one.safetensors", self.folder / "sharded")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_max_report_shortens_the_list(self):
        a = self.write("a.safetensors", **{f"t{i}": ("U8", [1], b"a") for i in range(9)})
        b = self.write("b.safetensors", **{f"t{i}": ("U8", [1], b"b") for i in range(9)})
        done = run("refit-verify", "files", a, b, "--max-report", "2")
        self.assertIn("and 7 more tensors", done.stdout)
        self.assertEqual(done.stdout.count("elements differ"), 2)
        done = run("refit-verify", "files", a, b, "--tensor", "t3", "t5")
        self.assertIn("2 tensors, 2 bytes: 2 differ", done.stdout)

    def test_bad_input_exits_2_with_one_line(self):
        a = self.write("a.safetensors", x=("U8", [1], b"a"))
        source, dump, *model = self.demo("none")
        for arguments, word in ((("files", a, str(self.folder / "nothing.safetensors")), "nothing.safetensors"),
                                (("files", a, a, "--tensor", "y"), "y"),
                                (("engine", a, dump, *model), "a.safetensors"),
                                (("engine", source, dump, *model, "--layout", "sideways"), "linear-128x4"),
                                (("engine", source, dump, *model, "--engine", "trt"), "sglang"),
                                (("engine", source, dump, *model, "--rounding", "up"), "torchao-rceil"),
                                (("engine", source, dump, *model, "--tp-size", "3"), "2 attention heads"),
                                (("engine", source, dump, *model, "--tp-rank", "1"), "--tp-rank"),
                                (("engine", source, dump, *model, "--ep-size", "3"), "4 experts")):
            with self.subTest(arguments=arguments):
                done = run("refit-verify", *arguments)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(word, done.stderr)

    def test_json_validates_and_says_the_same(self):
        schema = TESTS.parent / "scenarios/schema/refit-verify-1.schema.json"
        path = self.folder / "report.json"
        for fault, code, name in (("none", 0, None), ("rows-not-shuffled", 1, "rows-not-shuffled"),
                                  ("transposed", 1, "transposed"), ("unknown", 1, None)):
            with self.subTest(fault=fault):
                done = run("refit-verify", "engine", *self.demo(fault), "--layout", "flashinfer-trtllm", "--json", path)
                self.assertEqual(done.returncode, code, done.stderr)
                report = json.loads(path.read_text())
                self.assertEqual(report["status"], "different" if code else "equal")
                for finding in report["findings"]:
                    self.assertEqual(finding["diagnosis"]["name"], name)
                validate(self, path, schema)
        source = self.write("s.safetensors", **{"w.weight": ("BF16", [4, 64], ordinary_bf16(256, 1))})
        quantized = self.write("q.safetensors", **{"w.weight": ("F8_E4M3", [4, 64], bytes(256)),
                                                   "w.weight_scale": ("U8", [4, 2], bytes(8))})
        done = run("refit-verify", "quantized", source, quantized, "--json", path)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(json.loads(path.read_text())["quantized"]["modes"], [])
        validate(self, path, schema)
        done = run("refit-verify", "files", source, quantized, "--json", "-")
        self.assertEqual(json.loads(done.stdout)["status"], "different")
        path.write_text(done.stdout)
        validate(self, path, schema)

    def test_a_source_may_be_f32_or_mxfp8_already(self):
        source, dump, *model = self.demo("none")
        tensors = read_tensors(source)
        wide = {name: ("F32", shape, b"".join(b"\0\0" + data[at:at + 2] for at in range(0, len(data), 2)))
                if dtype == "BF16" else (dtype, shape, data) for name, (dtype, shape, data) in tensors.items()}
        experts = {name: tensor for name, tensor in wide.items() if ".experts." in name}
        arguments = [dump, *model, "--layout", "flashinfer-trtllm"]
        for name, made in (("wide", wide), ("experts", tensors | experts)):
            with self.subTest(source=name):
                done = run("refit-verify", "engine", self.write(name + ".safetensors", **made), *arguments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("12 tensors of F32 or F16 rounded to BF16", done.stdout)
        for suffix in ("_scale", "_scale_from_checkpoint"):
            with self.subTest(suffix=suffix):
                quantized = str(self.folder / "q.safetensors")
                done = run("refit-convert", source, quantized, "--select", "*.experts.*", "--zero-scale", "one",
                           "--scale-suffix", suffix, "--force", "--quiet")
                self.assertEqual(done.returncode, 0, done.stderr)
                done = run("refit-verify", "engine", quantized, *arguments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("12 tensors of the source already MXFP8", done.stdout)
                # Diagnoses need the source's bytes alone.
                done = run("refit-verify", "engine", quantized, self.demo("shuffled-twice")[1], *arguments[1:])
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(done.stdout.count("shuffled twice"), 2, done.stdout)
                done = run("refit-verify", "engine", quantized, *arguments, "--recipe", "none")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn("--recipe", done.stderr)
                self.demo("none")

    def test_a_parameter_under_two_names_is_judged_twice(self):
        source, dump, *model = self.demo("none")
        tensors = read_tensors(dump)
        name = "model.layers.0.mlp.experts.w13_weight"
        nested = name.replace(".w13", ".routed_experts.w13")
        dtype, shape, data = tensors[name]
        for copy, code in ((data, 0), (data[:-1] + bytes([data[-1] ^ 1]), 1)):
            write_tensors(dump, tensors | {nested: (dtype, shape, copy)})
            done = run("refit-verify", "engine", source, dump, *model, "--layout", "flashinfer-trtllm")
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertIn("16 tensors", done.stdout)
            self.assertEqual([line.split(":")[0] for line in done.stdout.splitlines() if "differ, " in line],
                             [nested] * code)

    def test_names_cannot_forge_a_line_or_reach_the_terminal(self):
        name = "w\n2 tensors, 2 bytes: every byte equal\x1b]0;x\x07\u009b2J\u202e\ufffe\uffff"
        a = self.write("a.safetensors", **{name: ("U8", [1], b"a"), name + "2": ("U8", [1], b"a")})
        b = self.write("b.safetensors", **{name: ("U8", [1], b"b"), name + "2": ("U8", [1], b"a")})
        path = self.folder / "report.xml"
        done = run("refit-verify", "files", a, b, "--junit", path)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 2, done.stdout)
        self.assertTrue(all(c.isprintable() or c == "\n" for c in done.stdout), ascii(done.stdout))
        self.assertIn(r"w\n2 tensors, 2 bytes: every byte equal\x1b]0;x\x07\u009b2J\u202e\ufffe\uffff: 1 of 1", done.stdout)
        cases = xml.etree.ElementTree.parse(path).getroot().findall("testcase")
        self.assertEqual(len({case.get("name") for case in cases}), 2)
        done = run("refit-verify", "files", a, b, "--tensor", "no\nsuch\x1b[2Jname")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(r"no\nsuch\x1b[2Jname", done.stderr)

    def test_nothing_finite_is_not_exact(self):
        source = self.write("s.safetensors", **{"w.weight": ("BF16", [2, 32], b"\xc0\x7f" * 64)})
        quantized, path = str(self.folder / "q.safetensors"), self.folder / "report.json"
        done = run("refit-convert", source, quantized, "--non-finite", "as-producer", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run("refit-verify", "quantized", source, quantized, "--json", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("exact", done.stdout)
        self.assertIn("64 NaN and 0 infinite in SRC; no finite element", done.stdout)
        tensor, = json.loads(path.read_text())["quantized"]["tensors"]
        self.assertEqual((tensor["max_abs_error"], tensor["source_nan_elements"]), (None, 64))
        validate(self, path, TESTS.parent / "scenarios/schema/refit-verify-1.schema.json")

    def test_junit_has_a_case_for_every_tensor(self):
        path = self.folder / "report.xml"
        run("refit-verify", "engine", *self.demo("through-bf16"), "--layout", "flashinfer-trtllm", "--junit", path)
        suite = xml.etree.ElementTree.parse(path).getroot()
        self.assertEqual((suite.get("failures"), suite.get("tests")), ("1", str(len(suite.findall("testcase")))))
        failed = [case for case in suite if case.find("failure") is not None]
        self.assertIn("router bias went through BF16", failed[0].find("failure").get("message"))


class Verify(unittest.TestCase):
    def test_self_passes_on_a_clean_refit_of_every_pipeline(self):
        done = run("refit-verify", "self", "--scenario", "tiny-moe")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertEqual(done.stdout.count("passed"), 12)

    def test_self_passes_with_a_fused_shuffle(self):
        done = run("refit-verify", "self", "--scenario", "tiny-moe", "--control", "shuffle=fused",
                   "--treatment", "shuffle=fused")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertEqual(done.stdout.count("passed"), 12)

    def test_self_passes_on_a_gpu(self):
        need_gpu(self)
        done = run("refit-verify", "self", *CUDA)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertEqual(done.stdout.count("passed"), 12)

    def test_self_finds_a_rounded_router_bias_on_exactly_the_bias_tensors(self):
        done = run("refit-verify", "self", "--scenario", "tiny-moe", "--control", "router_bias=bf16",
                   "--treatment", "router_bias=bf16", "--max-report", "100")
        self.assertEqual(done.returncode, 1, done.stderr)
        named = [line for line in done.stdout.splitlines() if "] is " in line]
        self.assertGreater(len(named), 0)
        for line in named:
            self.assertIn("e_score_correction_bias", line)

    def check_killed(self, done):
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        last = done.stdout.strip().splitlines()[-1]
        killed, total = last.removeprefix("killed ").split("/")
        self.assertEqual(killed, total)
        self.assertGreaterEqual(int(total), 15)

    def test_mutants_are_all_killed(self):
        self.check_killed(run("refit-verify", "mutants"))

    def test_mutants_are_all_killed_on_a_gpu(self):
        need_gpu(self)
        self.check_killed(run("refit-verify", "mutants", "--backend", "cuda"))

    def test_without_a_check_some_mutant_survives(self):
        # Sanitizers see the same code whichever it is, and tests/run_test.cpp does without each of them.
        for check in ("coverage",) if SANITIZED else ("wire", "quantizer", "layout", "coverage"):
            with self.subTest(check=check):
                done = run("refit-verify", "mutants", "--without", check)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("SURVIVED", done.stdout)

    def test_faults_without_a_victim_are_not_counted(self):
        done = run("refit-verify", "mutants", "--recipe", "none")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("no victim", done.stdout)
        self.assertNotIn("SURVIVED", done.stdout)

    def test_a_defect_of_one_arm_is_not_booked_on_the_other(self):
        done, report = report_of("--scenario", "tiny-moe", "--steps", "2", "--verify", "every", "--control",
                                 "router_bias=bf16")
        self.assertEqual(done.returncode, 1)
        for check, result in report["arms"]["treatment"]["verify"].items():
            if isinstance(result, dict):
                self.assertEqual(result["mismatches"], 0, check)

    def test_unknown_check_is_refused(self):
        done = run("refit-verify", "mutants", "--without", "luck")
        self.assertEqual(done.returncode, 2)
        self.assertIn("luck", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
