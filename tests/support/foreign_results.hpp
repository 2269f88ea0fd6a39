// Result files of others, small but as their programs write them.
#pragma once

namespace refit::test {

/// Google Benchmark 1.7 with --benchmark_repetitions=3.
inline constexpr const char* kGoogleBenchmark = R"({
  "context": {"date": "2026-12-01T10:00:00+00:00", "executable": "x", "num_cpus": 2},
  "benchmarks": [
    {"name": "pack/64", "run_name": "pack/64", "run_type": "iteration", "repetition_index": 0, "real_time": 2.0, "cpu_time": 1.0, "time_unit": "us"},
    {"name": "pack/64", "run_name": "pack/64", "run_type": "iteration", "repetition_index": 1, "real_time": 3.0, "cpu_time": 1.0, "time_unit": "us"},
    {"name": "pack/64_mean", "run_name": "pack/64", "run_type": "aggregate", "aggregate_name": "mean", "real_time": 2.5, "cpu_time": 1.0, "time_unit": "us"},
    {"name": "load", "run_name": "load", "run_type": "iteration", "real_time": 1.5, "cpu_time": 1.0, "time_unit": "ms"}
  ]
})";

/// nccl-tests with -J and -I; the second line has no single iterations.
inline constexpr const char* kNcclTests = R"({
  "version": 3, "start_time": "2026-12-01 10:00:00", "args": [], "env": [], "nccl_version": 22703,
  "config": {}, "devices": [],
  "results": [
    {"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": "    -1",
     "out_of_place": {"time": 20.5, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": 0.000000},
     "out_of_place_per_iter": {"min_us": 20.0, "times_us": [20.0, 21.0, 20.5]},
     "in_place": {"time": 19.0, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": null},
     "actual_iterations": 3},
    {"size": 2048, "count": 512, "type": "float", "redop": "sum", "root": "    -1",
     "out_of_place": null, "in_place": {"cpu_time": 30.0, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": 0.0}}
  ]
})";

/// NeMo-RL's metrics by step; steps are not in the order of the alphabet.
inline constexpr const char* kNemoRl = R"({
  "timing/train/prepare_for_generation/total": {"1": 40.0, "2": 30.0, "3": 17.2, "10": 17.4, "4": 17.3},
  "timing/train/total_step_time": {"1": 500, "2": 300, "3": 256.3, "4": 256.5, "10": 256.1},
  "timing/train/valid_tokens_per_sec_per_gpu": {"1": 10.0, "2": 10.0, "3": 10.0},
  "timing/validation/generation": {"5": 12.0, "10": 12.5},
  "train/loss": {"1": -0.01, "2": -0.02}
})";

}  // namespace refit::test
