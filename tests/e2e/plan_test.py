"""refit-plan as a user meets it: what it prints, its JSON, and what it refuses."""
import json
import os
import pathlib
import shutil
import tempfile
import unittest

from apps_test import TESTS, run, validate

SCHEMA = TESTS.parent / "scenarios/schema/refit-plan-1.schema.json"
CONFIGS = TESTS / "cases/configs"
SIDES = ("--train", "tp=2,pp=2,ep=4", "--gen", "tp=4,dp=2,ep=8")
QUERY = "model.layers.0.self_attn.q_proj.weight"
EXPERT = "model.layers.3.mlp.experts.5.up_proj.weight"


def plan(*arguments, **options):
    return run("refit-plan", *arguments, **options)


class Plan(unittest.TestCase):
    def planned(self, *arguments):
        done = plan(*arguments, "--json", "-", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def refused(self, arguments, *words):
        done = plan(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_help_and_version_answer_on_standard_output(self):
        for option, word in (("--help", "refit-plan qwen3-235b"), ("--version", "refit-plan")):
            done = plan(option)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(word, done.stdout)
            self.assertEqual(done.stderr, "")

    def test_a_scenario_without_a_cluster_takes_its_published_sizes(self):
        scenario = json.loads((TESTS.parent / "scenarios/qwen3-30b.json").read_text())
        del scenario["cluster"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "mine.json")
            path.write_text(json.dumps(scenario))
            done = plan(str(path))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("dp=16 (16 ranks), megatron", done.stdout)
        self.assertIn("does not give the trainer's tensor_parallel, pipeline_parallel, expert_parallel: 1 is assumed",
                      done.stdout)

    def test_a_scenario_that_knows_its_cluster_takes_that_and_says_where_it_comes_from(self):
        done = plan("qwen3-235b")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tp=8,dp=8,etp=8 (64 ranks)", done.stdout)
        self.assertRegex(done.stdout, r"tp=2,pp=4,dp=8,ep=16\S* \(64 ranks\), megatron")
        self.assertIn("grpo-qwen3-235b-16n4g.yaml", done.stdout)
        self.assertNotIn("1 is assumed", done.stdout)

    def test_every_scenario_plans(self):
        for path in sorted((TESTS.parent / "scenarios").glob("*.json")):
            with self.subTest(scenario=path.stem):
                report = self.planned(path.stem)
                self.assertEqual(report["schema"], "refit-plan/1")
                self.assertEqual(self.planned(str(path)), report)

    def test_the_json_validates_and_adds_up(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "plan.json")
            for arguments in (SIDES, (*SIDES, "--separate"), (*SIDES, "--gpus-per-node", "0", "--rank", "3"),
                              (*SIDES, "--explain", EXPERT, "--copy-gbps", "2000", "--nvlink-gbps", "400",
                               "--network-gbps", "50"), ("--train", "fsdp=8", "--gen", "tp=2,dp=4")):
                with self.subTest(arguments=arguments):
                    done = plan("qwen3-30b", *arguments, "--json", str(path))
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("qwen3-30b", done.stdout)
                    validate(self, path, SCHEMA)
                    report = json.loads(path.read_text())
                    bytes_ = report["bytes"]
                    if bytes_["same_host"] is not None:
                        self.assertEqual(bytes_["same_host"] + bytes_["between_hosts"], bytes_["other_process"])
                    self.assertLessEqual(bytes_["replicated"], bytes_["other_process"])
                    self.assertLessEqual(bytes_["peak_extra"], 4 * report["options"]["round_bytes"])

    def test_every_generator_rank_gets_its_part_once(self):
        # BF16 everywhere: a replica of the generator is the model, whatever the trainer's sizes.
        for train in ("tp=4", "tp=2,pp=3,dp=2", "fsdp=7"):
            with self.subTest(train=train):
                report = self.planned(str(CONFIGS / "Qwen3-32B"), "--train", train, "--gen", "dp=3", "--recipe", "none")
                bytes_ = report["bytes"]
                self.assertEqual(bytes_["same_process"] + bytes_["other_process"], 3 * report["model"]["bytes"])

    def test_separate_processes_keep_nothing(self):
        same = ("qwen3-30b", "--train", "ep=8", "--gen", "dp=8,ep=8", "--trainer-form", "hf")
        together, apart = self.planned(*same), self.planned(*same, "--separate")
        self.assertEqual(together["bytes"]["other_process"], 0)
        self.assertIsNone(together["imbalance"])
        self.assertEqual(apart["bytes"]["same_process"], 0)
        self.assertEqual(apart["bytes"]["other_process"], together["bytes"]["same_process"])

    def test_a_rank_and_its_peers_agree(self):
        three = self.planned("qwen3-30b", *SIDES, "--rank", "3")
        self.assertEqual(three["rank"]["rank"], 3)
        for peer in three["rank"]["sends"]:
            with self.subTest(peer=peer["rank"]):
                other = self.planned("qwen3-30b", *SIDES, "--rank", str(peer["rank"]))
                mine = [entry for entry in other["rank"]["receives"] if entry["rank"] == 3]
                self.assertEqual(mine, [{**peer, "rank": 3}])
                self.assertEqual(other["digest"], three["digest"])

    def test_a_tensor_is_explained_down_to_both_tensors(self):
        segments = self.planned("qwen3-30b", *SIDES, "--explain", EXPERT)["explained"]["segments"]
        # 768 x 2048: one of 4 expert ranks to one of 8, whose 16 experts begin with this one's layer-mates.
        self.assertEqual(len(segments), 1)
        segment = segments[0]
        self.assertEqual(segment["form"], "quantized")
        self.assertEqual(segment["box"], {"row": 0, "rows": 768, "col": 0, "cols": 2048})
        self.assertEqual(segment["to"]["tensor"], "model.layers.3.mlp.experts.w13_weight")
        self.assertEqual((segment["to"]["matrix"], segment["to"]["row"]), (5, 768))
        self.assertIn("linear_fc1", segment["from"]["tensor"])
        self.assertEqual(segment["from"]["row"], 768)
        done = plan("qwen3-30b", *SIDES, "--explain", EXPERT)
        self.assertIn("w13_weight[5] row 768", done.stdout)

    def test_query_rows_are_found_among_the_fused_ones(self):
        segments = self.planned("qwen3-30b", *SIDES, "--explain", QUERY)["explained"]["segments"]
        self.assertEqual({segment["to"]["tensor"] for segment in segments},
                         {"model.layers.0.self_attn.qkv_proj.weight"})
        rows = {}
        for segment in segments:
            self.assertIn("linear_qkv", segment["from"]["tensor"])
            box = segment["box"]
            for row in range(box["row"], box["row"] + box["rows"]):
                rows.setdefault(segment["to"]["rank"], []).append(row)
        # 4096 query rows over tp=4, twice.
        self.assertEqual(sorted(rows), list(range(8)))
        for rank, got in rows.items():
            self.assertEqual(sorted(got), list(range(rank % 4 * 1024, rank % 4 * 1024 + 1024)))

    def test_bandwidths_become_seconds(self):
        floors = self.planned("qwen3-30b", *SIDES, "--copy-gbps", "2000")["floors"]
        self.assertAlmostEqual(floors["memory"]["seconds"], floors["memory"]["bytes"] / 2e12)
        self.assertIsNone(floors["same_host"]["seconds"])

    def test_the_same_question_has_the_same_answer(self):
        self.assertEqual(plan("qwen3-30b", *SIDES).stdout, plan("qwen3-30b", *SIDES).stdout)
        digests = {self.planned("qwen3-30b", *SIDES, *more)["digest"]
                   for more in ((), ("--separate",), ("--prequantize", "off"), ("--round-size", "64MiB"),
                                ("--gpus-per-node", "4"), ("--recipe", "none"))}
        self.assertEqual(len(digests), 6)

    def test_without_quantizing_before_more_travels_and_the_plan_says_so(self):
        on = self.planned("qwen3-30b", *SIDES, "--separate")
        off = self.planned("qwen3-30b", *SIDES, "--separate", "--prequantize", "off")
        self.assertEqual(on["model"]["late_quantized_tensors"], 0)
        self.assertEqual(off["model"]["late_quantized_tensors"], off["model"]["quantized_tensors"])
        self.assertGreater(off["bytes"]["other_process"], 1.5 * on["bytes"]["other_process"])
        self.assertTrue(any("quantized by the receiver" in note for note in off["notes"]))

    def test_a_large_model_on_many_ranks_plans(self):
        report = self.planned(str(CONFIGS / "DeepSeek-V3"), "--train", "tp=2,pp=8,ep=32", "--gen", "tp=16,dp=16")
        self.assertEqual(report["trainer"]["ranks"], 256)
        self.assertEqual(report["generator"]["ranks"], 256)
        self.assertGreater(report["transfers"], 11_000_000)

    def test_what_does_not_divide_is_refused_with_its_sentence(self):
        self.refused(("qwen3-30b", "--train", "tp=3", "--gen", "tp=1"), "3")
        self.refused(("qwen3-30b", "--train", "tp=1", "--gen", "dp=7,ep=7"), "7")
        self.refused(("qwen3-30b", "--train", "tp=2,fsdp=4", "--gen", "tp=1"), "--train", "fsdp")
        self.refused(("qwen3-30b", "--train", "tp=2", "--gen", "fsdp=4"), "--gen", "fsdp")
        self.refused(("qwen3-30b", "--train", "pp=49", "--gen", "tp=1"), "49")

    def test_hostile_options_are_refused_by_name(self):
        for arguments, *words in (
                (("--train", "tp=0"), "--train", "tp"), (("--train", "tp=99999999999999999999"), "--train", "tp"),
                (("--train", "tp"), "--train"), (("--gen", "xp=2"), "--gen", "xp"), (("--train", "tp=2,tp=2"), "tp"),
                (("--train", "dp=65536", "--gen", "dp=65536"), "65536"), (("--rank", "99"), "--rank 99"),
                (("--rank", "-1"), "--rank"), (("--round-size", "1"), "--round-size 1"), (("--round-size", "0"), "0"),
                (("--explain", "nothing\x1b[2J"), "--explain", "\\x1b"), (("--copy-gbps", "0"), "--copy-gbps"),
                (("--nvlink-gbps", "nan"), "--nvlink-gbps"), (("--network-gbps", "-1"), "--network-gbps"),
                (("--gpus-per-node", "-8"), "--gpus-per-node"), (("--trainer-form", "torch"), "torch"),
                (("--prequantize", "maybe"), "maybe"), (("--recipe", "some"), "some"), (("--json", "/"), "/")):
            with self.subTest(arguments=arguments):
                self.refused(("qwen3-30b", *arguments), *words)
        self.refused((), "MODEL")
        self.refused(("qwen3-30",), "qwen3-30b")
        self.refused(("no/such/config.json",), "no/such/config.json")
        self.refused(("no/such.json",), "no/such.json")

    def test_a_plan_never_replaces_what_it_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "config.json")
            config.write_bytes((CONFIGS / "Qwen3-30B-A3B/config.json").read_bytes())
            before = config.read_bytes()
            self.refused((folder, "--json", str(config)), "would replace it")
            self.assertEqual(config.read_bytes(), before)
            self.assertEqual(os.listdir(folder), ["config.json"])
            # A scenario found by name is a file, too, and so is its model's configuration.
            scenarios = pathlib.Path(folder, "scenarios")
            shutil.copytree(TESTS.parent / "scenarios", scenarios)
            for name in ("tiny-moe.json", "models/tiny-moe/config.json"):
                done = plan("tiny-moe", "--json", str(scenarios / name),
                            env={**os.environ, "REFIT_SCENARIO_DIR": str(scenarios)})
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("would replace it", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
