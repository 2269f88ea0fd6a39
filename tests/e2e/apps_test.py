"""The programs as a user meets them: arguments, exit codes, output, killed processes, full disks."""
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["REFIT_BIN"])
TESTS = pathlib.Path(os.environ["REFIT_TESTS"])
SCHEMA = TESTS.parent / "scenarios/schema/refit-bench-1.schema.json"
QWEN = TESTS / "cases/configs/Qwen3-30B-A3B"
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


def generators():
    """Process ids of generators that run now."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--generator-role" in command and str(BIN).encode() in command[0]:
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
        for app in ("refit-bench", "refit-verify"):
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


def validate(test, path):
    script = TESTS.parent / "scripts/validate-json"
    done = subprocess.run([sys.executable, script, SCHEMA, path], capture_output=True, text=True)
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
        done, report = report_of("--scenario", "moonlight-16b", "--layers", "2", "--experts", "2", "--steps", "1",
                                 "--memory-budget", "6GiB", "--control", "router_bias=bf16")
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
        for check in ("wire", "quantizer", "layout", "coverage"):
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
