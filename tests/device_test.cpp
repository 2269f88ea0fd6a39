// The host backend: weights, tasks, memory of two owners.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "refit/base/error.hpp"
#include "refit/device/backend.hpp"
#include "refit/device/weights.hpp"
#include "refit/verify/verify.hpp"
#include "support/catch.hpp"
#include "support/column_tasks.hpp"
#include "support/row_quantizer.hpp"
#include "support/tiny_model.hpp"
#include "support/weight_boxes.hpp"

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
  device::fill_weights(device::weight_boxes(plan, one), 7, single);
  device::fill_weights(device::weight_boxes(plan, four), 7, several);
  CHECK(one == four);
  const std::vector<std::byte> before = one;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    device::update_weights(device::weight_boxes(plan, one), 7, step, single);
    device::update_weights(device::weight_boxes(plan, four), 7, step, several);
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

TEST_CASE("a box of a tensor has the tensor's values, wherever it begins, and touches nothing else") {
  ThreadPool pool(2);
  for (const test::BoxCase& box : test::weight_box_cases()) {
    const TensorSpec& tensor = box.tensor;
    const std::uint64_t size = size_of(tensor.dtype), row_bytes = tensor.cols() * size;
    std::vector<std::byte> whole(tensor.bytes());
    const device::WeightBox all{.tensor = &tensor,
                                .rows = tensor.rows(),
                                .cols = tensor.cols(),
                                .data = whole.data(),
                                .pitch = row_bytes};
    std::vector<std::byte> part(box.bytes(), std::byte{0xAB}), expected = part;
    const device::WeightBox some = box.in(part.data());
    device::fill_weights({&all, 1}, 5, pool);
    device::fill_weights({&some, 1}, 5, pool);
    for (std::uint64_t step = 0; step <= 2; ++step) {
      if (step > 0) {
        device::update_weights({&all, 1}, 5, step, pool);
        device::update_weights({&some, 1}, 5, step, pool);
      }
      for (std::uint64_t r = 0; r < box.rows; ++r) {
        std::memcpy(box.in(expected.data()).data + r * some.pitch,
                    whole.data() + (box.row + r) * row_bytes + box.col * size, box.cols * size);
      }
      CAPTURE(name_of(tensor.dtype), box.row, box.rows, box.col, box.cols, step);
      REQUIRE(part == expected);
    }
  }
}

TEST_CASE("an FP32 router bias does not survive a cast to BF16") {
  const plan::Plan plan = plan_with(quant::NonFinite::refuse);
  std::vector<std::byte> weights(plan.source_arena_bytes);
  ThreadPool pool(1);
  device::fill_weights(device::weight_boxes(plan, weights), 1, pool);
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
  device::fill_weights(device::weight_boxes(plan, weights), 1, pool);
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

TEST_CASE("rows quantized by a backend are what the quantizer gives, call after call") {
  device::RowQuantizer by_backend(device::make_host_backend(2));
  CHECK(by_backend.device() == "cpu");
  test::check_row_quantizer(by_backend);
}

TEST_CASE("column pieces of a task do what the whole does, and write nothing else") {
  const std::unique_ptr<device::Backend> backend = device::make_host_backend(2);
  std::mt19937_64 random(3);
  std::vector<std::uint32_t> map(150);
  std::iota(map.begin(), map.end(), 0u);
  std::shuffle(map.begin(), map.end(), random);
  const std::string tensor = "a test's tensor";
  // Finite as BF16 and as FP32.
  std::vector<std::byte> input(map.size() * 2048 * 4);
  for (std::byte& byte : input) byte = static_cast<std::byte>(random() & 0x3F);
  std::uint64_t seed = 0;
  for (const test::WholeTask& whole : test::whole_tasks(map, tensor)) {
    for (int repetition = 0; repetition < 4; ++repetition) {
      std::vector<std::byte> expected(1 << 20, std::byte{0xAB}), got = expected;
      const auto run_into = [&](std::vector<std::byte>& out, std::vector<device::Task> tasks) {
        for (device::Task& task : tasks) {
          const bool has_values = task.op != device::Op::scales && task.op != device::Op::zero;
          const bool has_scales = task.op != device::Op::copy && task.op != device::Op::round_bf16;
          if (has_values) task.values = out.data() + 64;
          if (has_scales) task.scales = out.data() + (3 << 18);
        }
        backend->run(tasks);
        backend->finish(Deadline::after(std::chrono::seconds(10)));
      };
      device::Task task = whole.task;
      if (task.op != device::Op::zero) task.from = input.data();
      run_into(expected, {task});
      test::WholeTask placed = whole;
      placed.task = task;
      run_into(got, test::column_pieces(placed, ++seed));
      CAPTURE(static_cast<int>(task.op), task.cols, task.row_map != nullptr,
              static_cast<int>(task.scale_layout));
      REQUIRE(got == expected);
    }
  }
}
