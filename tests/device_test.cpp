// The host backend: weights, tasks, memory of two owners.
#include <algorithm>
#include <cstring>

#include "refit/base/error.hpp"
#include "refit/device/backend.hpp"
#include "refit/device/weights.hpp"
#include "refit/verify/verify.hpp"
#include "support/catch.hpp"
#include "support/tiny_model.hpp"

using namespace refit;

namespace {

plan::Plan plan_with(quant::NonFinite non_finite) {
  return test::tiny_plan(quant::Rounding::flashinfer, quant::ZeroScale::one, non_finite);
}

/// Everything that a plan does, in one launch.
void run_all(device::Backend& backend, const plan::Plan& plan, std::span<const std::byte> sources,
             std::span<std::byte> destinations) {
  backend.run(test::all_tasks(plan, sources.data(), destinations.data()));
}

}  // namespace

TEST_CASE("weights are the same for any number of threads, change every step, and stay finite") {
  const plan::Plan plan = plan_with(quant::NonFinite::refuse);
  std::vector<std::byte> one(plan.source_arena_bytes), four(plan.source_arena_bytes);
  ThreadPool single(1), several(4);
  device::fill_weights(plan, one, 7, single);
  device::fill_weights(plan, four, 7, several);
  CHECK(one == four);
  const std::vector<std::byte> before = one;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    device::update_weights(plan, one, 7, step, single);
    device::update_weights(plan, four, 7, step, several);
  }
  CHECK(one == four);
  for (const plan::Source& source : plan.sources) {
    CAPTURE(source.spec.name);
    CHECK(std::memcmp(before.data() + source.offset, one.data() + source.offset, source.spec.bytes()) != 0);
    if (source.spec.dtype == DType::bf16) {
      const auto* bits = reinterpret_cast<const std::uint16_t*>(one.data() + source.offset);
      CHECK_FALSE(quant::find_non_finite({bits, num_elements(source.spec.shape)}).has_value());
    }
  }
}

TEST_CASE("an FP32 router bias does not survive a cast to BF16") {
  const plan::Plan plan = plan_with(quant::NonFinite::refuse);
  std::vector<std::byte> weights(plan.source_arena_bytes);
  ThreadPool pool(1);
  device::fill_weights(plan, weights, 1, pool);
  unsigned biases = 0;
  for (const plan::Source& source : plan.sources) {
    if (source.kind != model::Kind::router_bias) continue;
    ++biases;
    for (std::uint64_t i = 0; i < num_elements(source.spec.shape); ++i) {
      float value;
      std::memcpy(&value, weights.data() + source.offset + i * 4, 4);
      CHECK(value >= 3.0f);
      CHECK(quant::bf16_value(quant::bf16_from_float(value)) == 3.0f);
    }
  }
  CHECK(biases == 2);
}

TEST_CASE(
    "an infinite or NaN weight is refused by tensor and index, unless the producer's bytes are asked for") {
  const plan::Plan plan = plan_with(quant::NonFinite::refuse);
  std::vector<std::byte> weights(plan.source_arena_bytes), parameters(plan.destination_arena_bytes);
  ThreadPool pool(2);
  const auto backend = device::make_host_backend(2);
  device::fill_weights(plan, weights, 1, pool);
  const auto victim = std::find_if(plan.sources.begin(), plan.sources.end(), [](const plan::Source& s) {
    return s.spec.name == "model.layers.2.mlp.experts.5.down_proj.weight";
  });
  REQUIRE(victim != plan.sources.end());
  const std::uint64_t row = 5, column = 17;
  const std::uint16_t nan = 0x7FC1;
  std::memcpy(weights.data() + victim->offset + (row * victim->spec.cols() + column) * 2, &nan, 2);
  try {
    run_all(*backend, plan, weights, parameters);
    FAIL("a NaN passed");
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(error.kind() == ErrorKind::input);
    CHECK(text.find(victim->spec.name) != std::string::npos);
    CHECK(text.find("[5, 17]") != std::string::npos);
  }
  const plan::Plan permissive = plan_with(quant::NonFinite::as_producer);
  run_all(*backend, permissive, weights, parameters);
  const verify::InPlace result = verify::check_in_place(permissive, weights, parameters, pool);
  CHECK(result.quantizer.mismatches == 0);
  CHECK(result.layout.mismatches == 0);
}
