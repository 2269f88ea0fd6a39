"""The page of a result: how it is written, and what a real browser makes of it."""
import html.parser
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

from apps_test import BIN, PATIENCE, TESTS, bench, run

RESULTS = TESTS.parent / "results"
GPU = RESULTS / "2026-11-30-h200-qwen3-30b/control-direct.json"
RANKS = RESULTS / "2026-11-30-2xh200-qwen3-30b/tp2-nccl.json"
CPU = RESULTS / "baselines/tiny-moe.json"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ATTACK = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>\"'\u202e"


class Parsed(html.parser.HTMLParser):
    """Text of the title and of every script, and the addresses that elements name."""

    def __init__(self, text):
        super().__init__()
        self.title, self.scripts, self.addresses, self.inside = "", {}, [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.addresses += [values[name] for name in ("src", "href", "data", "action") if name in values]
        self.inside = values.get("id", "own") if tag == "script" else tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "title":  # the document's comes first, those in pictures later
            self.title = self.title or data
        elif self.inside in ("own", "result"):
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data


class PageCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def page(self, result, name="page.html"):
        path = self.folder / name
        done = run("refit-gate", "--report", str(path), str(result))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        return path

    def changed(self, source, change):
        report = json.loads(source.read_text())
        change(report)
        path = self.folder / "changed.json"
        path.write_text(json.dumps(report))
        return path


class PageFiles(PageCase):
    def test_every_committed_result_has_a_page_that_holds_it(self):
        files = [path for path in RESULTS.rglob("*.json") if '"refit-bench/1"' in path.read_text()[:200]]
        self.assertGreater(len(files), 8)
        for path in files:
            with self.subTest(path=path.name):
                parsed = Parsed(self.page(path).read_text())
                self.assertEqual(json.loads(parsed.scripts["result"]), json.loads(path.read_text()))
                self.assertEqual(parsed.addresses, [])

    def test_a_bench_writes_its_page_beside_its_json_and_before_its_table(self):
        page, report = self.folder / "r.html", self.folder / "r.json"
        done = bench("--scenario", "tiny-moe", "--steps", "4", "--report", str(page), "--json", str(report))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tiny-moe", done.stdout)
        parsed = Parsed(page.read_text())
        self.assertEqual(parsed.title, "refit-bench: tiny-moe, ok")
        self.assertEqual(json.loads(parsed.scripts["result"]), json.loads(report.read_text()))
        command = f"'{BIN}/refit-bench' --scenario tiny-moe --steps 3 --report '{page}' > /dev/full"
        page.unlink()
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("Verified", page.read_text())

    def test_a_sweep_has_a_page_of_all_its_points_which_a_gate_draws_again(self):
        page, again, sweep = self.folder / "s.html", self.folder / "again.html", self.folder / "s.json"
        arguments = ("--scenario", "tiny-moe", "--steps", "2", "--sweep", "prequantize=off,on", "--sweep", "pipeline=staged,direct")
        done = bench(*arguments, "--report", str(page), "--json", str(sweep), "--quiet")
        self.assertEqual((done.returncode, done.stdout), (2, ""))  # direct takes no prequantize=off
        parsed = Parsed(page.read_text())
        self.assertEqual(parsed.title, "refit-bench: tiny-moe, sweep of prequantize")
        self.assertEqual(json.loads(parsed.scripts["result"]), json.loads(sweep.read_text()))
        self.assertEqual(parsed.addresses, [])
        self.assertEqual(run("refit-gate", "--report", str(again), str(sweep)).returncode, 0)
        self.assertEqual(again.read_text(), page.read_text())
        done = bench(*arguments, "--dry-run", "--report", "-")
        self.assertTrue(done.stdout.startswith("<!DOCTYPE html>"))
        self.assertIn("points; seconds of", done.stderr)
        for done in (bench(*arguments, "--json", str(page), "--report", str(page)), bench(*arguments, "--json", "-", "--report", "-"),
                     run("refit-gate", "--report", str(again), str(CPU), str(sweep))):
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)

    def test_a_page_goes_to_standard_output_and_the_table_to_standard_error(self):
        done = bench("--scenario", "tiny-moe", "--dry-run", "--report", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("<!DOCTYPE html>"))
        self.assertTrue(done.stdout.endswith("</html>\n"))
        self.assertIn("Dry run", done.stdout)
        self.assertIn("tiny-moe", done.stderr)

    def test_refusals_have_a_page_too(self):
        page = self.folder / "r.html"
        done = bench("--scenario", "qwen3-30b", "--memory-budget", "1MiB", "--report", str(page))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("<strong>Refused</strong>", page.read_text())

    def test_nothing_is_replaced_that_is_read_or_written_otherwise(self):
        kept = self.folder / "kept.json"
        kept.write_bytes(CPU.read_bytes())
        page = self.folder / "r.html"
        for done in (run("refit-gate", "--report", str(kept), str(kept)),
                     run("refit-gate", "--report", str(kept), str(CPU), str(kept)),
                     run("refit-gate", "--report", "-", "--json", "-", str(CPU), str(CPU)),
                     bench("--scenario", "tiny-moe", "--dry-run", "--json", str(page), "--report", str(page)),
                     bench("--scenario", "tiny-moe", "--dry-run", "--json", "-", "--report", "-"),
                     bench("--scenario", "tiny-moe", "--dry-run", "--report", str(self.folder / "none" / "r.html"))):
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertEqual(kept.read_bytes(), CPU.read_bytes())
        self.assertEqual([path.name for path in self.folder.iterdir()], ["kept.json"])
        done = run("refit-gate", "--report", "/dev/full", str(CPU))
        self.assertEqual(done.returncode, 5, done.stderr)

    def test_what_is_no_result_of_a_bench_exits_2_and_leaves_nothing(self):
        page, broken = self.folder / "r.html", self.folder / "broken.json"
        broken.write_text(CPU.read_text()[:4000])
        for path, word in ((RESULTS / "baselines/gate.json", "/schema"), (broken, "line"), (self.folder, "directory"),
                           (self.changed(CPU, lambda r: r["arms"].pop("treatment")), "/arms/treatment")):
            done = run("refit-gate", "--report", str(page), str(path))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(path.name, done.stderr)
            self.assertIn(word, done.stderr)
            self.assertFalse(page.exists())

    def test_a_gate_draws_its_candidate_and_judges_it_all_the_same(self):
        page = self.folder / "r.html"
        slower = self.changed(CPU, lambda r: [
            phase.update(samples_s=[1.5 * s for s in phase["samples_s"]])
            for phase in r["arms"]["treatment"]["phases"].values()])
        done = run("refit-gate", "--report", str(page), str(CPU), str(slower))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(json.loads(Parsed(page.read_text()).scripts["result"]), json.loads(slower.read_text()))
        done = run("refit-gate", "--report", str(page), "--baseline", str(CPU), "--candidate", str(CPU), str(slower))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("one candidate", done.stderr)


def pixels(path):
    """Width, height and rows of RGB(A) bytes of an 8-bit PNG without interlacing."""
    data = path.read_bytes()
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert depth == 8 and colour in (2, 6), (depth, colour)
    packed, at = b"", 8
    while at < len(data):
        length = struct.unpack(">I", data[at:at + 4])[0]
        if data[at + 4:at + 8] == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += length + 12
    raw, step = zlib.decompress(packed), 3 if colour == 2 else 4
    rows, before, stride = [], bytearray(width * step), width * step + 1
    for y in range(height):
        kind, row = raw[y * stride], bytearray(raw[y * stride + 1:(y + 1) * stride])
        for i in range(len(row)):
            left = row[i - step] if i >= step else 0
            above, corner = before[i], before[i - step] if i >= step else 0
            if kind == 1:
                row[i] = (row[i] + left) & 255
            elif kind == 2:
                row[i] = (row[i] + above) & 255
            elif kind == 3:
                row[i] = (row[i] + (left + above) // 2) & 255
            elif kind == 4:
                guess = left + above - corner
                best = min((abs(guess - left), 0, left), (abs(guess - above), 1, above), (abs(guess - corner), 2, corner))
                row[i] = (row[i] + best[2]) & 255
        rows.append(bytes(row))
        before = row
    return width, height, step, rows


@unittest.skipIf(BROWSER is None, "there is no chromium")
class PageBrowser(PageCase):
    def chromium(self, path, *options):
        """Standard output, and what the page's console says."""
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--v=0",
             f"--user-data-dir={self.folder}/profile", *options, path.as_uri()],
            capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout.decode(), re.findall(r".*CONSOLE.*", done.stderr.decode(errors="replace"))

    def measured(self, page, width, paper=False):
        """What a script sees in the page; the page's own policy would not let it run. On paper: with its rules."""
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
        if paper:
            text = text.replace("@media print", "@media all")
        script = """<script>
          const box = (e) => e.getBoundingClientRect();
          const hidden = (e) => getComputedStyle(e).display == "none";
          const overlaps = [];
          for (const svg of document.querySelectorAll("main svg")) {
            const texts = [...svg.querySelectorAll("text")].filter((t) => !hidden(t)).map((t) => [box(t), t.textContent]);
            texts.forEach(([a, s], i) => texts.slice(i + 1).forEach(([b, t]) => {
              if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
                overlaps.push(s + " / " + t);
            }));
          }
          parent.postMessage(JSON.stringify({
            inner: innerWidth, scroll: document.documentElement.scrollWidth, overlaps,
            outside: [...document.querySelectorAll("main *")].filter((e) => !e.closest(".wide") && !hidden(e) &&
              (box(e).right > innerWidth + 1 || box(e).left < -1)).map((e) => e.outerHTML.slice(0, 120)),
            marks: [...document.querySelectorAll("#curve .plot .point")].map((e) => [e.textContent, (box(e).left + box(e).right) / 2,
              (box(e).top + box(e).bottom) / 2]),
            lines: [...document.querySelectorAll(".stretched path:not(.grid)")].map((e) => [e.getAttribute("class"),
              box(e).left - box(e.ownerSVGElement).left, box(e).right - box(e.ownerSVGElement).left, box(e.ownerSVGElement).width]),
            bars: [...document.querySelectorAll("#bars .lane svg[aria-label]")].map((e) => [e.getAttribute("aria-label"),
              [...e.querySelectorAll("rect")].reduce((sum, r) => sum + box(r).width, 0)]),
            banner: parseFloat(getComputedStyle(document.querySelector("#verdict strong")).fontSize),
            save: document.getElementById("save").href.slice(0, 5)}), "*");
        </script></body>"""
        head, _, tail = text.rpartition("</body>")
        (self.folder / "measured.html").write_text(head + script + tail)
        # A window is never narrower than 500 pixels; a frame is.
        frame = self.folder / "frame.html"
        frame.write_text("<body><script>onmessage = (e) => { document.body.dataset.seen = e.data; };</script>"
                         f'<iframe src="measured.html" width="{width}" height="1000" style="border:0"></iframe>')
        dom, console = self.chromium(frame, "--window-size=1300,1100", "--virtual-time-budget=5000", "--dump-dom")
        self.assertEqual(console, [])
        seen = re.search(r'data-seen="([^"]*)"', dom).group(1)
        return json.loads(html.unescape(seen))

    def with_times(self):
        """A result with rounds and with memory over time, which the committed ones have not."""
        def add(report):
            report["ranks"]["rows"][0]["control"]["timeline"] = {"exchanging_s": 0.7, "hidden_s": 0.1, "rounds": [
                dict(zip(("pack_s", "start_s", "arrived_s", "placed_s"), times)) for times in ((0, .1, .5, .6), (.1, .2, .8, 1))]}
            for arm, most in (("control", 123456789012), ("treatment", 999)):
                report["arms"][arm]["memory_timeline"] = {"trainer": [[0, 0], [.1, most], [.2, 0]], "generator": [[0, 7], [.15, 7]]}

        return self.changed(RANKS, add)

    def sweep(self):
        """A sweep of two axes with names that are too long for their place, points without a result, odd times."""
        report = json.loads(CPU.read_text())
        points = []
        for number in range(12):
            for name in ("short", "a-name-that-is-much-longer-than-any-panel-of-a-page-is-wide-on-a-telephone"):
                result = json.loads(json.dumps(report))
                transfer = result["arms"]["treatment"]["phases"]["prepare_for_generation/transfer_and_update_weights"]
                transfer["median_s"] *= 1 + number
                if number % 5 == 1:
                    result.update(status="failed", error="the generator " + "is gone " * 40)
                points.append({"set": {"buffer_size": f"{3 ** number}MiB", "name": name}, "result": result})
        path = self.folder / "sweep.json"
        path.write_text(json.dumps({"schema": "refit-sweep/1", "points": points}))
        return path

    def test_pages_load_without_a_word_on_the_console_and_without_overflow(self):
        for result in (GPU, RANKS, CPU, self.with_times(), self.sweep()):
            page = self.page(result)
            dom, console = self.chromium(page, "--dump-dom")
            self.assertEqual(console, [])
            self.assertIn("<title>refit-bench: ", dom)
            for width in (400, 760, 1200):
                with self.subTest(result=result.name, width=width):
                    seen = self.measured(page, width)
                    self.assertEqual(seen["inner"], width)
                    self.assertLessEqual(seen["scroll"], width)
                    self.assertEqual(seen["outside"], [])
                    self.assertEqual(seen["overlaps"], [])
                    self.assertEqual(seen["save"], "blob:")

    def test_curves_stand_where_their_sizes_and_times_are(self):
        sweep = self.folder / "s.json"
        sizes = {"256KiB": 0, "1MiB": 1 / 3, "4MiB": 2 / 3, "16MiB": 1}
        done = bench("--scenario", "tiny-moe", "--steps", "3", "--sweep", "buffer_size=" + ",".join(sizes), "--json", str(sweep))
        self.assertEqual(done.returncode, 0, done.stderr)
        medians = {}
        for point in json.loads(sweep.read_text())["points"]:
            for arm, part in point["result"]["arms"].items():
                key = f"buffer_size {point['set']['buffer_size']}, {arm}:"
                medians[key] = part["phases"]["prepare_for_generation/transfer_and_update_weights"]["median_s"]
        marks = {}
        for title, x, y in self.measured(self.page(sweep), 1200)["marks"]:
            marks[title[:title.index(":") + 1]] = (x, y)
        self.assertEqual(set(marks), set(medians))
        for arm in ("control", "treatment"):
            left, right = (marks[f"buffer_size {size}, {arm}:"][0] for size in ("256KiB", "16MiB"))
            for size, share in sizes.items():
                x, y = marks[f"buffer_size {size}, {arm}:"]
                self.assertAlmostEqual((x - left) / (right - left), share, delta=0.01)
        slower_is_higher = sorted(medians, key=medians.get)
        heights = [marks[key][1] for key in slower_is_higher]
        for below, above in zip(heights, heights[1:]):
            self.assertGreaterEqual(below, above - 0.2)

    def test_rounds_and_memory_are_as_long_as_their_times(self):
        for width in (400, 1200):
            seen = self.measured(self.page(self.with_times()), width)
            (_, left, right, whole), = (line for line in seen["lines"] if line[0] == "held-line control trainer")
            self.assertAlmostEqual(left, 0, delta=1)
            self.assertAlmostEqual(right, whole, delta=1)
            under_way = [line for line in seen["lines"] if line[0] == "c4"]
            self.assertEqual(len(under_way), 2)
            for (_, left, right, whole), (begin, end) in zip(under_way, ((0.1, 0.5), (0.2, 0.8))):
                self.assertAlmostEqual(left / whole, begin, delta=0.005)
                self.assertAlmostEqual(right / whole, end, delta=0.005)

    def test_bars_are_as_long_as_their_times(self):
        seen = dict(self.measured(self.page(CPU), 1200)["bars"])
        ratio = seen["treatment, trainer"] / seen["control, trainer"]
        arms = json.loads(CPU.read_text())["arms"]
        transfer = {arm: arms[arm]["phases"]["prepare_for_generation/transfer_and_update_weights"]["median_s"] for arm in arms}
        self.assertAlmostEqual(ratio, transfer["treatment"] / transfer["control"], delta=0.02)

    def test_a_failed_verification_is_larger_than_any_other(self):
        def spoil(report):
            report["status"] = "mismatch"
            report["arms"]["treatment"]["verify"]["layout"]["mismatches"] = 12

        good = self.measured(self.page(CPU), 1200)["banner"]
        bad = self.measured(self.page(self.changed(CPU, spoil), "bad.html"), 1200)["banner"]
        self.assertGreater(bad, 1.5 * good)

    def test_hostile_names_stay_text(self):
        def attack(report):
            report["scenario"].update(name=ATTACK, title=ATTACK + "x" * 5000, description=ATTACK)
            arm = report["arms"]["control"]
            arm["stages"][ATTACK + "y" * 3000] = dict(arm["stages"]["pack"])
            arm["phases"][ATTACK] = dict(arm["phases"]["generation"], published_s=1.5)
            report["environment"]["argv"] = [ATTACK]

        page = self.page(self.changed(CPU, attack))
        dom, console = self.chromium(page, "--dump-dom")
        self.assertEqual(console, [])
        self.assertNotIn("<title>run", dom)
        self.assertNotIn("<img", dom)
        for width in (400, 1200):
            seen = self.measured(page, width)
            self.assertLessEqual(seen["scroll"], width)
            self.assertEqual(seen["outside"], [])

    def test_the_policy_stops_what_escaping_would_have_let_through_and_the_console_is_heard(self):
        page = self.page(CPU)
        page.write_text(page.read_text().replace("<body>", "<body><script>document.title = 'run'</script>"))
        dom, console = self.chromium(page, "--dump-dom")
        self.assertNotIn("<title>run", dom)
        self.assertRegex("\n".join(console), "Content Security Policy")

    def test_light_dark_and_narrow_screens_show_a_picture(self):
        page = self.page(RANKS)
        brightness = {}
        for name, options in (("light", ("--window-size=700,1100",)), ("dark", ("--window-size=700,1100", "--force-dark-mode")),
                              ("narrow", ("--window-size=400,1100",))):
            shot = self.folder / f"{name}.png"
            _, console = self.chromium(page, f"--screenshot={shot}", *options)
            self.assertEqual(console, [])
            width, height, step, rows = pixels(shot)
            self.assertEqual((width, height), (400 if name == "narrow" else 700, 1100))
            seen = {row[i:i + 3] for row in rows for i in range(0, len(row), step)}
            self.assertGreater(len(seen), 100, name)
            brightness[name] = sum(sum(row[::step]) for row in rows) / (width * height)
        self.assertGreater(brightness["light"], 200)
        self.assertLess(brightness["dark"], 80)

    def test_it_prints(self):
        printed = self.folder / "page.pdf"
        page = self.page(GPU)
        self.assertLessEqual(self.measured(page, 718, paper=True)["scroll"], 718)  # A4 in pixels of CSS, without margins
        _, console = self.chromium(page, f"--print-to-pdf={printed}", "--no-pdf-header-footer")
        self.assertEqual(console, [])
        self.assertGreater(printed.stat().st_size, 20_000)
        self.assertTrue(printed.read_bytes().startswith(b"%PDF"))


if __name__ == "__main__":
    if sys.argv[1:] == ["PageBrowser"] and BROWSER is None:
        print("skipped: there is no chromium")
        sys.exit(77)
    unittest.main(verbosity=2)
