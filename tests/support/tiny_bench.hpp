// A bench of the tiny model, every refit verified, between this program and the test generator.
#pragma once

#include <string>

#include "refit/run/bench.hpp"
#include "support/backends.hpp"
#include "support/tiny_model.hpp"

namespace refit::test {

/// Two steps of the control arm alone: the published treatment with `switches` on top.
inline run::BenchSpec tiny_bench(const std::string& switches, const device::Choice& backend) {
  run::BenchSpec spec;
  spec.config_json = kTinyConfig;
  spec.config_place = "test config";
  spec.control = plan::published_treatment();
  spec.control.buffer_size = 1u << 20;
  plan::set_switches(spec.control, switches);
  spec.treatment = spec.control;
  spec.control_alone = true;
  spec.backend = backend;
  spec.steps = 2;
  spec.warmup = 0;
  spec.timeout_s = 20;
  spec.verify = run::VerifyWhen::every;
  spec.measure_copy = false;
  spec.generator_program = REFIT_TEST_GENERATOR;
  return spec;
}

inline run::BenchResult bench(const run::BenchSpec& spec) {
  return run::run_bench(spec, make_backend);
}

}  // namespace refit::test
