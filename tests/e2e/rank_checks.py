"""What is asked of refit-bench on many ranks, whoever starts them."""
import json
import pathlib
import tempfile
import unittest

from apps_test import validate


class RankChecks(unittest.TestCase):
    """Those who derive from it have launch(ranks, *arguments): a finished process, or what looks like one."""

    def report(self, *arguments, ranks=4):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.json")
            done = self.launch(ranks, *arguments, "--json", path, "--quiet")
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

    def refused(self, done, *words, code=2):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
