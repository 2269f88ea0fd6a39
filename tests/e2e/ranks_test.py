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

from apps_test import BIN, validate, wait_until

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
class Ranks(unittest.TestCase):
    def report(self, *arguments, ranks=4):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            done = mpirun(ranks, *arguments, "--json", path, "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr)
            validate(self, path)
            return json.loads(path.read_text())

    def check(self, report, meets=True):
        self.assertEqual(report["status"], "ok")
        ranks = report["ranks"]
        self.assertEqual(ranks["count"], 4)
        self.assertEqual([row["rank"] for row in ranks["rows"]], [0, 1, 2, 3])
        for arm in ("control", "treatment"):
            for row in ranks["rows"]:
                for peer, received in enumerate(row[arm]["received_bytes"]):
                    self.assertEqual(received, ranks["rows"][peer][arm]["sent_bytes"][row["rank"]])
                # Four refits beside each other would send nothing to one another.
                others = sum(n for peer, n in enumerate(row[arm]["received_bytes"]) if peer != row["rank"])
                self.assertEqual(others > 0, meets)
                self.assertLessEqual(row[arm]["peak_extra_bytes"], row[arm]["most_extra_bytes"])
            seconds = [row[arm]["seconds"] for row in ranks["rows"]]
            self.assertEqual(len({len(samples) for samples in seconds}), 1)
            self.assertGreater(len(seconds[0]), 0)

    def test_every_byte_arrives_at_every_step(self):
        self.check(self.report("--scenario", "tiny-moe-ep4", "--transport", "mpi", "--verify", "every", "--steps", "4"))

    def test_staged_against_direct(self):
        # Each rank of EP4 on EP4 has all that it needs already.
        for gen, meets in (("tp=2,dp=2", True), ("ep=4,tp=4", False)):
            with self.subTest(gen=gen):
                self.check(self.report("--scenario", "tiny-moe-ep4", "--train", "ep=4", "--gen", gen, "--treatment",
                                       "pipeline=direct", "--verify", "every", "--steps", "3", "--warmup", "1"), meets)

    def refused(self, done, *words, code=2):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_started_alone_or_as_others_it_says_how_to_start_it(self):
        done = subprocess.run([BIN / "refit-bench", "--scenario", "tiny-moe-ep4"], capture_output=True, text=True)
        self.refused(done, "mpirun -np 4")
        self.assertEqual(len(done.stderr.splitlines()), 1)
        done = mpirun(2, "--scenario", "tiny-moe-ep4")
        self.refused(done, "2 ranks were started", "4")
        self.assertEqual(done.stderr.count("2 ranks were started"), 1)

    def test_ranks_that_were_asked_for_different_things_name_the_difference(self):
        words = [MPIRUN, "--oversubscribe"]
        for rank, seed in enumerate(("1", "1", "7", "1")):
            words += [":"] if rank else []
            words += ["-np", "1", BIN / "refit-bench", "--scenario", "tiny-moe-ep4", "--seed", seed]
        done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        self.refused(done, "ranks disagree: seed is 1 on rank 0 and 7 on rank 2")

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

    def test_a_rank_that_hangs_is_named_when_the_time_is_over(self):
        process = subprocess.Popen(command(4, "--scenario", "tiny-moe-ep4", "--steps", "100000", "--time-budget", "600",
                                           "--timeout", "3"),
                                   env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ranks = wait_until(lambda: (found := ranks_of(process)) and len(found) == 4 and found, 60, "the start of four ranks")
        time.sleep(1.5)
        os.kill(ranks[1], signal.SIGSTOP)
        _, stderr = self.end_of(process, 30)
        self.assertRegex(stderr, r"waited too long for .*rank 1")


if __name__ == "__main__":
    unittest.main()
