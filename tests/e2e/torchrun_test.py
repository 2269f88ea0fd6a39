"""refit-bench as torchrun starts it, without torch: four processes and their variables; right, wrong and killed."""
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
import types
import unittest

from apps_test import BIN, wait_until
from rank_checks import RankChecks

FOREIGN = re.compile("^(OMPI_|PMI|SLURM_|MASTER_|TORCHELASTIC_|LOCAL_|RANK$|WORLD_SIZE$|REFIT_MASTER_PORT$)")
PLAIN = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
LONG = ("--scenario", "tiny-moe-ep4", "--steps", "100000", "--time-budget", "600")
NAMES = "rank {} is gone; the last it did: [a-z ]+"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """Processes with the variables of torchrun; `of_rank` are more arguments of single ranks."""

    def __init__(self, ranks, *arguments, port=None, start=None, of_rank=None, address="127.0.0.1", closed=False):
        self.folder = tempfile.TemporaryDirectory()
        self.ranks = []
        port = port or free_port()
        for rank in range(ranks) if start is None else start:
            variables = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
                         "MASTER_ADDR": address, "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none"}
            words = [BIN / "refit-bench", *map(str, arguments), *(of_rank or {}).get(rank, ())]
            if closed:  # standard output
                words = ["sh", "-c", 'exec "$@" >&-', "sh", *words]
            with open(self.path("out", rank), "w") as out, open(self.path("err", rank), "w") as err:
                self.ranks.append(subprocess.Popen(words, env=PLAIN | {k: str(v) for k, v in variables.items()},
                                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err))

    def path(self, kind, rank):
        return pathlib.Path(self.folder.name, f"{kind}{rank}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.kill()
            rank.wait()
        self.folder.cleanup()

    def wait(self, seconds=60, but=None):
        """Exit codes and what each rank said, when all but one have ended."""
        end = time.monotonic() + seconds
        for number, rank in enumerate(self.ranks):
            if number != but:
                rank.wait(max(0.1, end - time.monotonic()))
        said = [self.path("err", rank).read_text() for rank in range(len(self.ranks))]
        return [rank.poll() for rank in self.ranks], said


class Torchrun(RankChecks):
    def launch(self, ranks, *arguments, **options):
        with Job(ranks, *arguments, **options) as job:
            codes, said = job.wait(300)
            return types.SimpleNamespace(returncode=max(codes, key=abs), codes=codes, stderr="".join(said),
                                         stdout="".join(job.path("out", rank).read_text() for rank in range(len(codes))))

    def alone(self, *arguments, **variables):
        return subprocess.run([BIN / "refit-bench", "--scenario", "tiny-moe-ep4", *arguments], env=PLAIN | variables,
                              capture_output=True, text=True, timeout=60)

    def test_every_byte_arrives_at_every_step(self):
        report = self.report("--scenario", "tiny-moe-ep4", "--transport", "tcp", "--verify", "every", "--steps", "3", "--warmup", "1")
        self.check(report)
        self.assertEqual(report["ranks"]["exchange"], "tcp")

    def test_staged_against_direct_and_into_each_others_memory(self):
        for transport in ("auto", "peer"):
            with self.subTest(transport=transport):
                self.check(self.report("--scenario", "tiny-moe-ep4", "--transport", transport, "--treatment", "pipeline=direct",
                                       "--verify", "every", "--steps", "2", "--warmup", "1"))

    def test_what_cannot_be_started_like_this_says_how_to_start_it(self):
        self.refused(self.alone(), "torchrun --nproc-per-node 4 --no-python refit-bench")
        self.refused(self.alone(SLURM_PROCID="1", SLURM_NTASKS="4"), "srun --mpi=pmix", "MASTER_ADDR")
        self.refused(self.launch(4, "--scenario", "tiny-moe-ep4", "--transport", "mpi"), "--transport mpi", "say tcp")
        done = self.launch(2, "--scenario", "tiny-moe-ep4")
        self.refused(done, "2 ranks were started", "4")
        self.assertEqual(done.stderr.count("2 ranks were started"), 1)
        self.assertEqual(done.codes, [2, 2])

    def test_bad_variables_are_refused_by_name_and_value(self):
        good = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        for name, value in (("RANK", "4"), ("RANK", "one"), ("WORLD_SIZE", "0"), ("MASTER_PORT", "0"), ("MASTER_PORT", "65536"),
                            ("LOCAL_RANK", "x"), ("LOCAL_WORLD_SIZE", "5"), ("REFIT_MASTER_PORT", "-1")):
            with self.subTest(name=name, value=value):
                done = self.alone(**(good | {name: value}))
                self.refused(done, f'{name} is "{value}"')
                self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_a_port_in_use_is_named_and_another_can_be_chosen(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with Job(4, "--scenario", "tiny-moe-ep4", "--timeout", "2", port=port) as job:
                codes, said = job.wait()
            self.assertEqual(codes[0], 2, said)
            self.assertIn(f"port {port} of 127.0.0.1 cannot be listened at: Address already in use; set REFIT_MASTER_PORT", said[0])
            for rank in (1, 2, 3):
                self.assertEqual(codes[rank], 3)
                self.assertIn(f"rank {rank} waited too long for rank 0 at 127.0.0.1:{port} to answer", said[rank])

    def test_ranks_that_do_not_come_are_named(self):
        with Job(4, "--scenario", "tiny-moe-ep4", "--timeout", "3", start=(0, 1, 2)) as job:
            codes, said = job.wait()
        self.assertEqual(codes, [3, 3, 3], said)
        self.assertRegex(said[0], "waited too long .* for .*rank 3")

    def test_ranks_that_were_asked_for_different_things_name_the_difference(self):
        done = self.launch(4, "--scenario", "tiny-moe-ep4", of_rank={2: ("--seed", "7")})
        self.refused(done, "ranks disagree: seed is 1 on rank 0 and 7 on rank 2")
        self.assertEqual(done.stderr.count("ranks disagree"), 1)
        self.assertEqual(done.codes, [2] * 4)

    def test_what_changes_the_parameters_is_agreed_on_too(self):
        for words, part in ((("--moe-layout", "checkpoint"), "MoE layout is flashinfer-trtllm on rank 0 and checkpoint on rank 3"),
                            (("--recipe", "none"), "recipe is routed-experts on rank 0 and none on rank 3"),
                            (("--trainer-form", "hf"), "trainer form is megatron on rank 0 and hf on rank 3"),
                            (("--no-host-traffic",), "host traffic is")):
            with self.subTest(words=words):
                done = self.launch(4, "--scenario", "tiny-moe-ep4", of_rank={3: words})
                self.refused(done, "ranks disagree: " + part)
                self.assertEqual(done.codes, [2] * 4)

    def test_a_table_that_nobody_takes_costs_no_report_and_reaches_no_other_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            with Job(4, "--scenario", "tiny-moe-ep4", "--steps", "2", "--warmup", "1", "--json", path, closed=True) as job:
                codes, said = job.wait(120)
            self.assertEqual(codes, [3] * 4, said)
            self.assertIn("rank 0: cannot write to standard output: Bad file descriptor", said[0])
            for rank in (1, 2, 3):
                self.assertRegex(said[rank], NAMES.format(0))
            self.assertEqual(json.loads(path.read_text())["status"], "ok")

    def meeting(self, job):
        """Waits until the ranks have met: each then has two connections to each other, and no longer listens."""
        def sockets(rank):
            count = 0
            for entry in pathlib.Path(f"/proc/{rank.pid}/fd").iterdir():
                try:
                    count += os.readlink(entry).startswith("socket:")
                except FileNotFoundError:  # closed meanwhile
                    pass
            return count

        def met():
            return all(sockets(rank) == 2 * (len(job.ranks) - 1) for rank in job.ranks)
        wait_until(met, 30, "the meeting of the ranks")

    def test_a_killed_rank_ends_all_and_is_named_with_what_it_did(self):
        number = random.Random(5)
        for moment in range(6):
            victim = number.randrange(4)
            # Every other time the launcher ends the rest, as torchrun does.
            with self.subTest(moment=moment, victim=victim), tempfile.TemporaryDirectory() as folder, \
                    Job(4, *LONG, "--verify", "every" if moment % 3 else "first", "--json", pathlib.Path(folder, "report.json"),
                        "--timeout", "30") as job:
                self.meeting(job)
                time.sleep(number.random() * 1.2)
                job.ranks[victim].kill()
                if moment % 2:
                    job.ranks[victim].wait()
                    for rank in job.ranks:
                        rank.terminate()
                codes, said = job.wait(20)
                for rank, (code, words) in enumerate(zip(codes, said)):
                    if rank == victim:
                        continue
                    self.assertEqual(code, 3)
                    self.assertEqual(len(words.splitlines()), 1, words)
                    self.assertRegex(words, f"refit-bench: rank {rank}: " + NAMES.format(victim))
                self.assertEqual(os.listdir(folder), [])

    def test_a_rank_that_is_asked_to_end_says_so_and_the_others_name_it(self):
        with Job(4, *LONG) as job:
            self.meeting(job)
            job.ranks[1].terminate()
            codes, said = job.wait(20)
            self.assertEqual(codes, [3] * 4)
            self.assertIn("rank 1: ended by its launcher (SIGTERM)", said[1])
            for rank in (0, 2, 3):
                self.assertRegex(said[rank], NAMES.format(1))

    def test_a_rank_that_hangs_is_named_by_all_when_the_time_is_over(self):
        with Job(4, *LONG, "--timeout", "2") as job:
            self.meeting(job)
            time.sleep(0.5)
            os.kill(job.ranks[1].pid, signal.SIGSTOP)
            codes, said = job.wait(60, but=1)
            for rank in (0, 2, 3):
                self.assertEqual(codes[rank], 3)
                self.assertRegex(said[rank], r"waited too long for .*rank 1 \([a-z ]+\)")


if __name__ == "__main__":
    unittest.main()
