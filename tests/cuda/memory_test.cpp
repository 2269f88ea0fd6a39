// Memory of the GPU: limits, what two owners share, waiting, and numbers back.
#include <cuda_runtime_api.h>

#include <cmath>

#include "cuda/both.hpp"
#include "kernels/launch.hpp"
#include "refit/base/error.hpp"
#include "refit/quant/mxfp8.hpp"
#include "support/catch.hpp"

using namespace refit;
using test::gpu;
using test::soon;

TEST_CASE("more memory than there is is refused with what was asked and what is free") {
  const auto transport = GENERATE(device::Transport::cuda_ipc, device::Transport::cuda_vmm);
  const auto backend = cuda::make_backend({device::Kind::cuda, transport, 1, 0});
  const std::uint64_t free = backend->available_memory();
  try {
    (void)backend->allocate(free * 2, "the parameters of a test");
    FAIL("twice the free memory was given");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::runtime);
    CHECK(std::string(error.what()).find("the parameters of a test") != std::string::npos);
    CHECK(std::string(error.what()).find("free") != std::string::npos);
  }
  // The failure left nothing behind.
  const auto small = backend->allocate(1 << 20, "a small one");
  backend->fill(small->bytes(), std::byte{7});
  CHECK_NOTHROW(backend->finish(soon()));
}

TEST_CASE("a device that does not exist is one clear line") {
  try {
    (void)cuda::make_backend({device::Kind::cuda, device::Transport::cuda_ipc, 1, 4096});
    FAIL("device 4096 exists");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::runtime);
    CHECK(std::string(error.what()).find("4096") != std::string::npos);
  }
}

TEST_CASE("waiting ends at the deadline, not for ever") {
  gpu().delay(1.0);
  CHECK_THROWS_AS(gpu().finish(Deadline::after(std::chrono::milliseconds(50))), Error);
  CHECK_NOTHROW(gpu().finish(soon()));
}

TEST_CASE("work runs in order: what is written after a delay is what a later copy reads") {
  const auto a = gpu().scratch(1 << 20, "a"), b = gpu().scratch(1 << 20, "b");
  gpu().delay(0.05);
  gpu().fill(a->bytes(), std::byte{0x31});
  gpu().copy(b->bytes().data(), a->bytes().data(), 1 << 20);
  gpu().fill(a->bytes(), std::byte{0x32});
  std::vector<std::byte> read(1 << 20);
  gpu().read(read, b->bytes().data());
  CHECK(std::all_of(read.begin(), read.end(), [](std::byte v) { return v == std::byte{0x31}; }));
}

TEST_CASE("stages are timed on the device") {
  gpu().profile(true);
  gpu().stage("first");
  gpu().delay(0.05);
  gpu().stage("second");
  gpu().delay(0.02);
  gpu().stage("first");
  gpu().delay(0.05);
  gpu().stage({});
  double first = 0, second = 0;
  for (const device::StageTime& time : gpu().stage_times()) {
    (time.name == "first" ? first : second) += time.seconds;
  }
  gpu().profile(false);
  CHECK(first > 0.095);
  CHECK(first < 0.3);
  CHECK(second > 0.018);
  CHECK(second < 0.2);
}

TEST_CASE("copies are measured in every direction, and host traffic takes time") {
  const auto from = gpu().scratch(64 << 20, "from"), to = gpu().scratch(64 << 20, "to");
  const device::CopySamples samples = gpu().measure_copy(from->bytes(), to->bytes());
  CHECK(samples.within.size() >= 3);
  for (const auto* direction : {&samples.within, &samples.to_host, &samples.from_host}) {
    for (const double rate : *direction) CHECK(rate > 1e8);
  }
  CHECK(gpu().move_to_host(300 << 20, true) > 0);
  CHECK(gpu().move_from_host(300 << 20, false) > 0);
  CHECK(gpu().move_to_host(0, true) < 0.001);
}

TEST_CASE("dequantized values are the format's, for every element and scale") {
  std::vector<std::uint8_t> elements, scales;
  for (int scale = 0; scale < 256; ++scale) {
    for (int first = 0; first < 256; first += 32) {
      for (int i = 0; i < 32; ++i) elements.push_back(static_cast<std::uint8_t>(first + i));
      scales.push_back(static_cast<std::uint8_t>(scale));
    }
  }
  const auto e = gpu().scratch(elements.size(), "elements"), s = gpu().scratch(scales.size(), "scales"),
             out = gpu().scratch(elements.size() * 4, "values");
  gpu().write(e->bytes().data(), std::as_bytes(std::span(elements)));
  gpu().write(s->bytes().data(), std::as_bytes(std::span(scales)));
  kernels::dequantize(reinterpret_cast<const std::uint8_t*>(e->bytes().data()),
                      reinterpret_cast<const std::uint8_t*>(s->bytes().data()),
                      reinterpret_cast<float*>(out->bytes().data()), scales.size(), nullptr);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  std::vector<float> values(elements.size());
  gpu().read(std::as_writable_bytes(std::span(values)), out->bytes().data());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto want = static_cast<float>(quant::mx_value(elements[i], scales[i / 32]));
    wrong += std::isnan(want) ? !std::isnan(values[i])
                              : std::bit_cast<std::uint32_t>(want) != std::bit_cast<std::uint32_t>(values[i]);
  }
  CHECK(wrong == 0);
}
