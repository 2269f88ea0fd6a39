"""refit-bench under mpirun: four processes on one machine, right, wrong and killed."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from apps_test import BIN, wait_until
from rank_checks import RankChecks

MPIRUN = os.environ.get("REFIT_MPIRUN") or shutil.which("mpirun")
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def command(ranks, *arguments):
    return [MPIRUN, "-np", str(ranks), "--oversubscribe", BIN / "refit-bench", *map(str, arguments)]


def mpirun(ranks, *arguments, seconds=300):
    return subprocess.run(command(ranks, *arguments), env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=seconds)


def ranks_of(mpirun_process):
    """Process numbers of the ranks that a launcher started, by rank."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            parent = int(stat.rsplit(")", 1)[1].split()[1])
            if parent != mpirun_process.pid or "refit-bench" not in stat:
                continue
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for word in environment:
            if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(word.split(b"=")[1])] = int(entry.name)
    return found


@unittest.skipIf(MPIRUN is None, "there is no mpirun here")
class Ranks(RankChecks):
    def launch(self, ranks, *arguments):
        return mpirun(ranks, *arguments)

    def test_every_byte_arrives_at_every_step(self):
        self.check(self.report("--scenario", "tiny-moe-ep4", "--transport", "mpi", "--verify", "every", "--steps", "4"))

    def test_staged_against_direct(self):
        # Each rank of EP4 on EP4 has all that it needs already.
        for gen, meets in (("tp=2,dp=2", True), ("ep=4,tp=4", False)):
            with self.subTest(gen=gen):
                self.check(self.report("--scenario", "tiny-moe-ep4", "--train", "ep=4", "--gen", gen, "--treatment",
                                       "pipeline=direct", "--verify", "every", "--steps", "3", "--warmup", "1"), meets)

    def test_a_broadcast_to_everybody_gives_the_same_parameters(self):
        asked = ("--scenario", "tiny-moe-ep4", "--treatment", "pipeline=direct", "--verify", "every", "--steps", "3", "--warmup", "1")
        exact = self.report(*asked)
        report = self.report(*asked, "--transport", "mpi-broadcast")
        self.check(report)
        self.assertEqual(report["ranks"]["exchange"], "mpi-broadcast")
        self.assertGreater(report["arms"]["control"]["wire_bytes"], 2 * exact["arms"]["control"]["wire_bytes"])
        self.assertEqual(report["arms"]["treatment"]["wire_bytes"], exact["arms"]["treatment"]["wire_bytes"])
        for arm in ("control", "treatment"):
            self.assertEqual([row[arm]["parameters_digest"] for row in report["ranks"]["rows"]],
                             [row[arm]["parameters_digest"] for row in exact["ranks"]["rows"]])

    def test_a_round_is_under_way_while_others_are_packed_and_placed(self):
        for row in self.report("--scenario", "tiny-moe-ep4", "--steps", "3", "--warmup", "1")["ranks"]["rows"]:
            timeline = row["control"]["timeline"]
            rounds = timeline["rounds"]
            self.assertGreater(len(rounds), 3)
            for one, next_one in zip(rounds, rounds[1:]):
                self.assertLessEqual(one["start_s"], next_one["pack_s"])
                # Handed over, packed the next one beside it, and only then waited for.
                self.assertLess(next_one["start_s"], one["arrived_s"])
            self.assertGreater(timeline["hidden_s"], 0)
            self.assertLessEqual(timeline["hidden_s"], timeline["exchanging_s"])

    def test_a_simulated_rank_has_the_bytes_of_the_real_one(self):
        asked = ("--scenario", "tiny-moe-ep4", "--steps", "2", "--warmup", "1", "--verify", "every")
        real = self.report(*asked)["ranks"]["rows"][3]
        done = subprocess.run([BIN / "refit-bench", *asked, "--simulate-ranks", "4", "--simulate-rank", "3", "--json", "-", "--quiet"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["ranks"]["simulated_rank"], report["ranks"]["count"], len(report["ranks"]["rows"])), (3, 4, 1))
        row = report["ranks"]["rows"][0]
        for arm in ("control", "treatment"):
            for key in ("sent_bytes", "received_bytes", "parameters_digest", "most_extra_bytes", "link_bytes", "floor_bytes"):
                self.assertEqual(row[arm][key], real[arm][key], key)

    def test_a_simulation_that_cannot_be_is_refused(self):
        for words, part in ((["--scenario", "tiny-moe-ep4", "--simulate-ranks", "8"], "--simulate-ranks 8"),
                            (["--scenario", "tiny-moe-ep4", "--simulate-ranks", "0"], "--simulate-ranks"),
                            (["--scenario", "tiny-moe-ep4", "--simulate-ranks", "4", "--simulate-rank", "4"], "counted from 0"),
                            (["--scenario", "tiny-moe-ep4", "--simulate-rank", "1"], "--simulate-ranks N"),
                            (["--scenario", "tiny-moe", "--simulate-ranks", "4"], "--train"),
                            (["--scenario", "tiny-moe-ep4", "--separate", "--simulate-ranks", "8", "--simulate-rank", "2"], "only sends"),
                            (["--scenario", "tiny-moe-ep4", "--simulate-ranks", "4", "--transport", "mpi"], "leave it out")):
            with self.subTest(words=words):
                done = subprocess.run([BIN / "refit-bench", *words], capture_output=True, text=True, timeout=60)
                self.refused(done, part)
                self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_started_alone_or_as_others_it_says_how_to_start_it(self):
        done = subprocess.run([BIN / "refit-bench", "--scenario", "tiny-moe-ep4"], capture_output=True, text=True)
        self.refused(done, "mpirun -np 4", "torchrun --nproc-per-node 4")
        self.assertEqual(len(done.stderr.splitlines()), 1)
        done = mpirun(2, "--scenario", "tiny-moe-ep4")
        self.refused(done, "2 ranks were started", "4")
        self.assertEqual(done.stderr.count("2 ranks were started"), 1)
        self.refused(mpirun(4, "--scenario", "tiny-moe-ep4", "--transport", "tcp"), "--transport tcp", "say mpi")

    def test_ranks_that_were_asked_for_different_things_name_the_difference(self):
        words = [MPIRUN, "--oversubscribe"]
        for rank, seed in enumerate(("1", "1", "7", "1")):
            words += [":"] if rank else []
            words += ["-np", "1", BIN / "refit-bench", "--scenario", "tiny-moe-ep4", "--seed", seed]
        done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        self.refused(done, "ranks disagree: seed is 1 on rank 0 and 7 on rank 2")

    def test_ranks_with_less_memory_replay_the_same_part(self):
        words = [MPIRUN, "--oversubscribe"]
        for rank, budget in enumerate(("1GiB", "1GiB", "50MiB", "2GiB")):
            words += [":"] if rank else []
            words += ["-np", "1", BIN / "refit-bench", "--scenario", "tiny-moe-ep4", "--memory-budget", budget, "--steps", "2",
                      "--warmup", "1", "--buffer-size", "256KiB"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            words += ["--quiet"]
            words[words.index("--steps"):words.index("--steps")] = ["--json", path]  # rank 0's
            done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(path.read_text())
        self.check(report)
        self.assertEqual(report["replayed"]["memory_budget_bytes"], 50 << 20)
        self.assertLess(report["replayed"]["layers"], report["model"]["layers"])

    def end_of(self, process, seconds=20):
        try:
            output = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"the others were still there {seconds} s later")
        self.assertNotEqual(process.returncode, 0)
        return output

    def test_a_killed_rank_ends_all_and_is_named_with_what_it_did(self):
        number = random.Random(5)
        for moment in range(6):
            victim = number.randrange(4)
            with self.subTest(moment=moment, victim=victim), tempfile.TemporaryDirectory() as folder:
                process = subprocess.Popen(
                    command(4, "--scenario", "tiny-moe-ep4", "--steps", "100000", "--time-budget", "600", "--verify",
                            "every" if moment % 2 else "first", "--json", pathlib.Path(folder, "report.json"), "--timeout", "30"),
                    env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                ranks = wait_until(lambda: (found := ranks_of(process)) and len(found) == 4 and found, 60, "the start of four ranks")
                time.sleep(0.5 + number.random() * 2)
                os.kill(ranks[victim], signal.SIGKILL)
                _, stderr = self.end_of(process)
                self.assertRegex(stderr, f"rank {victim} is gone; the last it did: [a-z ]+")
                self.assertEqual(ranks_of(process), {})
                self.assertEqual(os.listdir(folder), [])

    def test_a_rank_that_hangs_before_mpi_has_begun_ends_all_when_the_time_is_over(self):
        words = [MPIRUN, "--oversubscribe", "-np", "1", "sh", "-c", "kill -STOP $$", ":", "-np", "3", BIN / "refit-bench",
                 "--scenario", "tiny-moe-ep4", "--timeout", "2"]
        process = subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _, stderr = self.end_of(process, 60)
        self.assertRegex(stderr, "refit-bench: rank [123]: waited too long for all ranks to begin with MPI")

    def test_a_rank_that_hangs_is_named_when_the_time_is_over(self):
        process = subprocess.Popen(command(4, "--scenario", "tiny-moe-ep4", "--steps", "100000", "--time-budget", "600",
                                           "--timeout", "3"),
                                   env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ranks = wait_until(lambda: (found := ranks_of(process)) and len(found) == 4 and found, 60, "the start of four ranks")
        time.sleep(1.5)
        os.kill(ranks[1], signal.SIGSTOP)
        _, stderr = self.end_of(process, 60)
        self.assertRegex(stderr, r"waited too long for .*rank 1")


def available_memory():
    return int(next(line for line in open("/proc/meminfo") if line.startswith("MemAvailable")).split()[1]) << 10


@unittest.skipIf(MPIRUN is None, "there is no mpirun here")
class TwoLayers(RankChecks):
    """Qwen3-30B-A3B with all experts of two layers, embeddings and head: every byte, staged and direct."""

    BUDGET = 16 << 30

    def launch(self, ranks, *arguments):
        return mpirun(ranks, *arguments, seconds=800)

    def test_expert_parallel_trainers_to_both_generators(self):
        if available_memory() < self.BUDGET:
            self.skipTest(f"{available_memory() >> 30} GiB of memory are free, and this takes 16")
        for gen, meets in (("tp=2,dp=2", True), ("ep=4,tp=4", False)):
            with self.subTest(gen=gen):
                report = self.report("--scenario", "qwen3-30b", "--layers", "2", "--memory-budget", str(self.BUDGET), "--buffer-size",
                                     "128MiB", "--train", "ep=4", "--gen", gen, "--treatment", "pipeline=direct", "--verify", "every",
                                     "--steps", "1", "--no-host-traffic")
                self.check(report, meets)
                self.assertEqual(report["replayed"]["experts"], 128)
                self.assertLessEqual(report["replayed"]["memory_needed_bytes"], self.BUDGET)
                for arm in ("control", "treatment"):
                    for row in report["ranks"]["rows"]:
                        self.assertGreater(row[arm]["verified"]["quantizer"]["bytes"], 500 << 20)


if __name__ == "__main__":
    unittest.main()
