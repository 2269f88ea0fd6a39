"""The jobs of docs/ci.md: their shell parts, without the builds, run on the CPU with a tiny scenario."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import textwrap
import unittest

from apps_test import BIN, PATIENCE, TESTS

DOCUMENT = (TESTS.parent / "docs/ci.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT, re.M | re.S)


def document_block(language, word):
    [found] = [text for kind, text in BLOCKS if kind == language and word in text]
    return found


def shell_parts(yaml):
    """Every block scalar of a job that is a script, in order, but for those that build."""
    parts, lines = [], yaml.splitlines()
    for number, line in enumerate(lines):
        if re.fullmatch(r" *(run:|-) \|", line):
            indent = len(line) - len(line.lstrip())
            body = []
            for later in lines[number + 1:]:
                if later.strip() and len(later) - len(later.lstrip()) <= indent:
                    break
                body.append(later)
            parts.append(textwrap.dedent("\n".join(body)) + "\n")
    return [part for part in parts if "cmake" not in part]


def job(yaml, name):
    """The part of a workflow that is one job."""
    [found] = re.findall(rf"^  {name}:\n((?:    .*\n|\n)+)", yaml, re.M)
    return found


class Ci(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.baseline = self.folder / "stored" / "baseline"
        self.baseline.parent.mkdir()
        self.summary = self.folder / "summary-page.md"

    def run_parts(self, parts, **variables):
        """As a job runs them: one shell each, the first failure ends it. Returns its exit code and what it printed."""
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "SCENARIO": "tiny-moe", "BACKEND": "cpu",
                       "STARTS": "2", "STEPS": "10", "ALLOWED": "900%", "BASELINE": str(self.baseline), "IS_MAIN": "false",
                       "GITHUB_STEP_SUMMARY": str(self.summary), **variables}
        printed = ""
        for part in parts:
            done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", part], cwd=self.folder, env=environment, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
            printed += done.stdout
            if done.returncode != 0:
                return done.returncode, printed
        return 0, printed

    def page(self):
        """The run's summary as it is read: an underscore is an underscore."""
        return self.summary.read_text().replace("\\_", "_")

    def make_baseline_faster(self):
        """The stored results, so much faster that no noise makes up for it."""
        for path in self.baseline.glob("*.json"):
            result = json.loads(path.read_text())
            for arm in result["arms"].values():
                for phase in arm["phases"].values():
                    phase["samples_s"] = [sample / 1e6 for sample in phase["samples_s"]]
            path.write_text(json.dumps(result))

    def test_every_job_of_the_document_is_here(self):
        self.assertEqual([kind for kind, _ in BLOCKS], ["yaml", "json", "yaml", "sh"])
        try:
            import yaml
        except ImportError:
            return
        for kind, text in BLOCKS:
            if kind == "yaml":
                self.assertIsInstance(yaml.safe_load(text), dict)

    def test_the_job_with_limits_measures_and_writes_its_summary(self):
        (self.folder / "ci").mkdir()
        (self.folder / "ci/gate.json").write_text(document_block("json", "refit-gate-limits/1"))
        parts = shell_parts(job(document_block("yaml", "jobs:"), "cpu"))
        self.assertEqual(len(parts), 2)
        code, printed = self.run_parts(parts)
        # How fast a machine is that does other things beside is not judged here; that it was judged is.
        self.assertIn(code, (0, 1), printed)
        self.assertIn("x_floor treatment", self.page())
        self.assertIn("2 files", self.page())
        self.assertIn("25 of 25 killed", self.page())

    def test_the_job_with_a_baseline_stores_compares_and_fails(self):
        parts = shell_parts(job(document_block("yaml", "jobs:"), "gpu"))
        self.assertEqual(len(parts), 2)
        code, printed = self.run_parts(parts, IS_MAIN="true")
        self.assertEqual(code, 0, printed)
        self.assertIn("No baseline yet", self.page())
        self.assertEqual(len(list(self.baseline.glob("*.json"))), 2)
        self.assertTrue((self.folder / "trace.json").exists())
        self.assertTrue((self.folder / "report.html").exists())

        code, printed = self.run_parts(parts[1:], IS_MAIN="true")
        self.assertEqual(code, 0, printed)
        self.assertIn("treatment: prepare_for_generation/total", self.page())

        self.make_baseline_faster()
        stored = sorted((path.name, path.read_text()) for path in self.baseline.iterdir())
        code, printed = self.run_parts(parts[1:], IS_MAIN="true", ALLOWED="5%")
        self.assertEqual(code, 1, printed)
        self.assertIn("::error", printed)
        self.assertEqual(stored, sorted((path.name, path.read_text()) for path in self.baseline.iterdir()))

    def test_a_baseline_that_cannot_be_read_ends_with_the_gates_own_code(self):
        self.baseline.mkdir()
        (self.baseline / "1.json").write_text("{")
        (self.folder / "results").mkdir()
        (self.folder / "results/1.json").write_text("{")
        gate = shell_parts(job(document_block("yaml", "jobs:"), "gpu"))[1]
        code, printed = self.run_parts([gate], IS_MAIN="true")
        self.assertEqual(code, 2, printed)
        self.assertEqual((self.baseline / "1.json").read_text(), "{")

    def test_the_other_jobs_end_as_the_gate_does(self):
        for kind, word in (("yaml", ".gitlab-ci.yml"), ("sh", "#SBATCH")):
            with self.subTest(kind=kind):
                text = document_block(kind, word)
                parts = shell_parts(text) if kind == "yaml" else [text]
                code, printed = self.run_parts(parts)
                self.assertEqual(code, 2, printed)  # there is no baseline
                if not self.baseline.exists():
                    (self.folder / "results").rename(self.baseline)
                code, printed = self.run_parts(parts)
                self.assertIn(code, (0, 3), printed)  # too noisy to say, where a machine does other things beside
                self.make_baseline_faster()
                code, printed = self.run_parts(parts, ALLOWED="5%")
                self.assertEqual(code, 1, printed)
                if kind == "yaml":
                    self.assertIn("<testsuite", (self.folder / "refit.xml").read_text())
                subprocess.run(["rm", "-r", self.baseline], check=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
