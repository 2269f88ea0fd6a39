"""How much of a difference is due to which switch: refit-bench --ablation, measured on small models and projected."""
import json
import os
import statistics
import unittest

from apps_test import TESTS, validate
from results_test import Base, TRANSFER

SCHEMA = TESTS.parent / "scenarios/schema/refit-ablation-1.schema.json"
TOTAL = "prepare_for_generation/total"
SWAP = "policy_and_reference_logprobs/reference_swap"
TINY = ("--scenario", "tiny-moe")
THREE = ("prequantize", "loader", "shuffle")
SIX = ("prequantize", "ipc_buffers", "loader", "shuffle", "offload", "reference_swap")


def value(estimate):
    return estimate["value_s"]


class Ablations(Base):
    def ablate(self, code, *arguments):
        path = self.folder / "ablation.json"
        done = self.check(code, *arguments, "--json", path)
        validate(self, path, SCHEMA)
        return done, json.loads(path.read_text())

    def measured(self, method, *arguments, steps=7):
        done, result = self.ablate(0, *TINY, "--steps", steps, "--ablation", method, *arguments)
        self.assertEqual(result["method"], method)
        self.assertIsNone(result["projected"])
        self.assertEqual(result["measured"]["missing"], [])
        self.assertIn("MEASURED", done.stdout)
        self.assertNotIn("PROJECTED", done.stdout)
        return done, result["measured"]

    def effects(self, phase, kind):
        return {effect["factor"]: effect[kind] for effect in phase["effects"]}

    def close(self, a, b):
        self.assertAlmostEqual(a, b, delta=1e-9 * max(1, abs(a)))

    def test_one_on_turns_each_switch_on_alone_and_all_together(self):
        done, measured = self.measured("one-on", "--factors", ",".join(THREE), "--no-host-traffic")
        self.assertEqual([bench["factors"] for bench in measured["benches"]], [[name] for name in THREE] + [list(THREE)])
        self.assertEqual(done.stdout.count("equal"), 4)
        [(name, phase)] = measured["phases"].items()
        self.assertEqual(name, TRANSFER)
        alone = self.effects(phase, "alone")
        self.close(value(phase["sum"]), sum(map(value, alone.values())))
        self.close(value(phase["interaction"]), value(phase["whole"]) - value(phase["sum"]))
        self.assertEqual(set(self.effects(phase, "shapley").values()), {None})
        for bench in measured["benches"]:
            self.assertEqual(bench["result"]["status"], "ok")
            arms = bench["result"]["arms"]
            for switch in SIX:
                on = arms["treatment"]["switches"][switch] != arms["control"]["switches"][switch]
                self.assertEqual(on, switch in bench["factors"])
            seconds = [arms[arm]["phases"][TRANSFER]["samples_s"] for arm in ("control", "treatment")]
            pairs = [on - off for off, on in zip(*seconds)]
            self.assertEqual(len(pairs), 5)
            either_order = (statistics.median(pairs[0::2]) + statistics.median(pairs[1::2])) / 2
            change = next(c["change"] for c in phase["combinations"] if c["factors"] == bench["factors"])
            self.close(value(change), either_order)
            self.assertLessEqual(change["low_s"], value(change))
            self.assertGreaterEqual(change["high_s"], value(change))

    def test_one_off_turns_each_switch_off_alone(self):
        _, measured = self.measured("one-off", "--factors", ",".join(THREE), "--no-host-traffic")
        self.assertEqual([bench["factors"] for bench in measured["benches"]],
                         [["prequantize", "loader"], ["prequantize", "shuffle"], ["loader", "shuffle"], list(THREE)])
        phase = measured["phases"][TRANSFER]
        without = {tuple(c["factors"]): value(c["change"]) for c in phase["combinations"]}
        for name, effect in self.effects(phase, "last").items():
            self.close(value(effect), value(phase["whole"]) - without[tuple(each for each in THREE if each != name)])
        self.assertEqual(set(self.effects(phase, "alone").values()), {None})

    def test_shapley_values_sum_to_the_whole_in_every_phase(self):
        _, measured = self.measured("shapley", "--factors", "prequantize,loader+shuffle,offload+reference_swap")
        self.assertEqual(len(measured["benches"]), 7)
        self.assertEqual(list(measured["phases"]), [TRANSFER, TOTAL, SWAP])
        for name, phase in measured["phases"].items():
            with self.subTest(phase=name):
                shapley = self.effects(phase, "shapley")
                self.assertEqual(list(shapley), ["prequantize", "loader+shuffle", "offload+reference_swap"])
                self.close(sum(map(value, shapley.values())), value(phase["whole"]))
                self.close(value(phase["sum"]), value(phase["whole"]))
                self.close(sum(value(pair["interaction"]) for pair in phase["pairs"]), value(phase["interaction"]))
                for effect in shapley.values():
                    self.assertLessEqual(effect["low_s"], value(effect))
                    self.assertGreaterEqual(effect["high_s"], value(effect))

    def test_every_switch_that_differs_is_a_factor_where_it_acts(self):
        for arguments, factors in (((), SIX), (("--no-host-traffic",), SIX[:4]),
                                   (("--control", "pipeline=direct,prequantize=on", "--treatment", "pipeline=direct"), SIX[4:])):
            _, result = self.ablate(0, *TINY, "--dry-run", "--ablation", "one-on", *arguments)
            self.assertEqual([factor["name"] for factor in result["factors"]], list(factors))
        self.assertEqual([left["name"] for left in result["left_as_in_control"]], ["ipc_buffers", "loader", "shuffle"])

    def test_what_did_not_run_is_missing_and_nothing_rests_on_it(self):
        done, result = self.ablate(0, *TINY, "--dry-run", "--ablation", "one-on", "--factors", "loader,shuffle")
        self.assertEqual(result["measured"]["missing"], [["loader"], ["shuffle"], ["loader", "shuffle"]])
        phase = result["measured"]["phases"][TRANSFER]
        self.assertEqual((phase["whole"], phase["sum"], phase["control_s"], phase["combinations"]), (None, None, None, []))
        self.assertIn("MISSING", done.stdout)

    def test_a_combination_with_wrong_bytes_is_missing_and_gives_the_exit_code(self):
        done, result = self.ablate(1, *TINY, "--no-host-traffic", "--steps", 7, "--treatment", "router_bias=bf16", "--ablation", "one-on",
                                   "--factors", "loader,router_bias", "--verify", "every")
        measured = result["measured"]
        self.assertEqual(measured["missing"], [["router_bias"], ["loader", "router_bias"]])
        self.assertEqual([bench["result"]["status"] for bench in measured["benches"]], ["ok", "mismatch", "mismatch"])
        phase = measured["phases"][TRANSFER]
        self.assertIsNone(phase["whole"])
        self.assertIsNone(phase["sum"])
        self.assertIsNone(self.effects(phase, "alone")["router_bias"])
        self.assertIsNotNone(self.effects(phase, "alone")["loader"])
        self.assertIn("MISSING, and with it whatever rests on it: router_bias; all", done.stdout)

    def test_projections_alone_run_nothing_and_sum_to_the_whole(self):
        for scenario, platform, factors in (("qwen3-30b", "b200", SIX), ("deepseek-v3-h100", "h100", ("metadata", "handle_encoding"))):
            with self.subTest(scenario=scenario):
                done, result = self.ablate(0, "--scenario", scenario, "--ablation", "one-on", "--platform", platform, "--project-only")
                self.assertEqual([factor["name"] for factor in result["factors"]], list(factors))
                self.assertIsNone(result["measured"])
                self.assertNotIn("MEASURED", done.stdout)
                projected = result["projected"]
                self.assertEqual((projected["platform"], projected["stack"]), (platform, "nemo-rl"))
                self.assertTrue(any("fitted" in sentence for sentence in projected["rests_on"]))
                self.assertEqual(list(projected["phases"]), [TRANSFER, TOTAL, SWAP])
                phase = projected["phases"][TRANSFER]
                self.assertIsNone(phase["whole"]["low_s"])
                self.close(value(phase["interaction"]) + value(phase["sum"]), value(phase["whole"]))

    def test_a_projected_split_has_the_whole_of_the_projection_itself(self):
        path = self.folder / "whole.json"
        self.check(0, "--scenario", "deepseek-v3-h100", "--platform", "h100", "--project-only", "--json", path)
        arms = [json.loads(path.read_text())["arms"][arm]["phases"][TRANSFER]["projected_s"] for arm in ("control", "treatment")]
        _, result = self.ablate(0, "--scenario", "deepseek-v3-h100", "--platform", "h100", "--project-only", "--ablation", "shapley")
        phase = result["projected"]["phases"][TRANSFER]
        self.close(phase["control_s"], arms[0])
        self.close(value(phase["whole"]), arms[1] - arms[0])
        self.close(value(phase["sum"]), arms[1] - arms[0])

    def test_measured_and_projected_stand_side_by_side_and_share_no_number(self):
        done, result = self.ablate(0, *TINY, "--steps", 2, "--no-host-traffic", "--ablation", "one-on", "--factors", "loader",
                                   "--platform", "h100")
        self.assertIsNone(result["measured"]["phases"][TRANSFER]["whole"]["low_s"])  # a single pair
        self.assertNotEqual(result["measured"]["phases"][TRANSFER]["control_s"], result["projected"]["phases"][TRANSFER]["control_s"])
        self.assertLess(done.stdout.index("MEASURED"), done.stdout.index("PROJECTED"))

    def test_what_cannot_be_attributed_is_refused_first(self):
        path = str(self.folder / "out")
        nine = "metadata=offset-map,handle_encoding=with-function,handles=per-tensor"
        direct = ("--treatment", "pipeline=direct")
        for arguments, words in (((*TINY, "--ablation", "one"), ("--ablation", "one-on", "shapley")),
                                 ((*TINY, "--ablation", ""), ("--ablation", "one-on")),
                                 ((*TINY, "--factors", "loader"), ("--factors", "--ablation")),
                                 ((*TINY, "--ablation", "one-on", "--factors", "lodaer"), ("--factors", "loader")),
                                 ((*TINY, "--ablation", "one-on", "--factors", "handles"), ("handles", "both arms")),
                                 ((*TINY, "--ablation", "one-on", "--factors", "offload", "--no-host-traffic"), ("offload", "host traffic")),
                                 (("--scenario", "deepseek-v3-h100", "--treatment", "metadata=offset-map,handle_encoding=with-function",
                                   "--ablation", "one-on"), ("nothing to attribute",)),
                                 ((*TINY, "--control", nine, "--ablation", "shapley"), ("9 factors", "511 benches", "'+'")),
                                 ((*TINY, *direct, "--ablation", "one-on"), ("\"pipeline\"", "prequantize=off", "'+'")),
                                 ((*TINY, *direct, "--ablation", "one-off"), ("all but prequantize", "prequantize=off")),
                                 ((*TINY, "--ablation", "one-on", "--sweep", "threads=1"), ("--sweep", "--ablation")),
                                 ((*TINY, "--ablation", "one-on", "--trace", path), ("--trace", "--json")),
                                 ((*TINY, "--ablation", "one-on", "--report", path), ("--report", "--json")),
                                 ((*TINY, "--ablation", "one-on", "--platform", "this"), ("--platform this",)),
                                 (("--scenario", "tiny-moe-ep4", "--ablation", "one-on"), ("4 ranks", "--simulate-ranks 4"))):
            with self.subTest(arguments=arguments):
                self.refused(*arguments, words=words)

    def test_combinations_of_different_parts_of_a_model_are_refused_first(self):
        # A second set of parameters takes memory for a layer.
        arguments = ("--scenario", "qwen3-30b", "--dry-run", "--ablation", "one-on", "--factors", "loader,commit", "--treatment", "commit=shadow")
        self.refused(*arguments, "--memory-budget", "6GiB", words=("one part", "\"loader\"", "\"commit\"", "--layers"))
        self.check(0, *arguments, "--memory-budget", "12GiB", "--layers", 2)

    def test_switches_that_cannot_move_apart_move_together(self):
        _, result = self.ablate(0, *TINY, "--no-host-traffic", "--steps", 3, "--treatment", "pipeline=direct", "--ablation", "one-on",
                                "--factors", "prequantize+pipeline")
        [factor] = result["factors"]
        self.assertEqual([switch["name"] for switch in factor["switches"]], ["prequantize", "pipeline"])
        self.assertEqual(len(result["measured"]["benches"]), 1)

    def test_one_simulated_rank_of_many_is_taken_apart_too(self):
        done, result = self.ablate(0, "--scenario", "tiny-moe-ep4", "--simulate-ranks", 4, "--steps", 2, "--ablation", "one-on",
                                   "--factors", "prequantize")
        self.assertEqual(result["measured"]["missing"], [])
        self.assertEqual(list(result["measured"]["phases"]), [TRANSFER, TOTAL, SWAP])

    def test_json_on_standard_output_leaves_the_table_to_standard_error(self):
        arguments = (*TINY, "--no-host-traffic", "--steps", 2, "--ablation", "one-on", "--factors", "loader", "--json", "-")
        done = self.check(0, *arguments)
        self.assertEqual(json.loads(done.stdout)["schema"], "refit-ablation/1")
        self.assertIn("MEASURED", done.stderr)
        self.assertEqual(self.check(0, *arguments, "--quiet").stderr, "")
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
