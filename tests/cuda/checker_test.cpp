// Verification on the GPU says what verification on the host says, right or wrong.
#include "cuda/both.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/plan/wire.hpp"
#include "support/catch.hpp"
#include "support/tiny_model.hpp"

using namespace refit;
using test::Copied;
using test::gpu;
using test::host;
using ByteVector = std::vector<std::byte>;

namespace {

void check_same(const verify::Result& got, const verify::Result& want) {
  CHECK(got.bytes == want.bytes);
  CHECK(got.mismatches == want.mismatches);
  REQUIRE(got.findings.size() == want.findings.size());
  for (std::size_t i = 0; i < got.findings.size(); ++i) {
    const verify::Finding &g = got.findings[i], &w = want.findings[i];
    CAPTURE(w.tensor, w.what);
    CHECK(g.tensor == w.tensor);
    CHECK(g.index == w.index);
    CHECK(g.expected == w.expected);
    CHECK(g.got == w.got);
    CHECK(g.count == w.count);
    CHECK(g.what == w.what);
  }
}

/// Weights and the parameters that a refit makes of them, on the host.
struct Refitted {
  plan::Plan plan;
  ByteVector sources, destinations;

  explicit Refitted(quant::Rounding rounding)
      : plan(test::tiny_plan(rounding, quant::ZeroScale::one)),
        sources(plan.source_arena_bytes),
        destinations(plan.destination_arena_bytes) {
    host().fill_weights(device::weight_boxes(plan, sources), 11);
    host().checker().fill_guards(verify::source_extents(plan), sources);
    host().checker().fill_guards(verify::destination_extents(plan), destinations);
    host().run(test::all_tasks(plan, sources.data(), destinations.data()));
  }
};

}  // namespace

TEST_CASE("digests are the host's at every size and alignment") {
  const ByteVector bytes = test::random_bytes(3 << 20, 1);
  const Copied on_gpu(gpu(), bytes);
  std::vector<std::span<const std::byte>> ranges;
  for (const std::size_t begin : {0, 1, 3, 8, 16, 777}) {
    for (const std::size_t size :
         {0, 1, 7, 8, 9, 15, 16, 17, 255, 4096, 65535, 65536, 65537, 1 << 20, 2000003}) {
      ranges.push_back(on_gpu.bytes().subspan(begin, size));
    }
  }
  const std::vector<std::uint64_t> digests = gpu().checker().digests(ranges);
  REQUIRE(digests.size() == ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    CAPTURE(ranges[i].size());
    const std::size_t begin = static_cast<std::size_t>(ranges[i].data() - on_gpu.data());
    CHECK(digests[i] == digest(std::span(bytes).subspan(begin, ranges[i].size())));
  }
}

TEST_CASE("poison and guards are the host's bytes, and a guard that was written to is found") {
  const Refitted made(quant::Rounding::flashinfer);
  const std::vector<verify::Extent> extents = verify::destination_extents(made.plan);
  const auto poisoned_on = [&](device::Backend& backend) {
    const Copied arena(backend, made.destinations);
    backend.checker().poison(extents, arena.bytes(), std::byte{0x5A});
    backend.checker().fill_guards(extents, arena.bytes());
    return arena.read();
  };
  ByteVector arena = poisoned_on(host());
  CHECK(test::difference(poisoned_on(gpu()), arena) == "");
  check_same(gpu().checker().check_guards(extents, Copied(gpu(), arena).bytes()),
             host().checker().check_guards(extents, arena));
  arena[3] ^= std::byte{1};
  arena[extents[2].offset + extents[2].bytes + 1] ^= std::byte{0xFF};
  arena[extents[2].offset + extents[2].bytes + 2] ^= std::byte{0xFF};
  arena.back() ^= std::byte{0x10};
  const verify::Result want = host().checker().check_guards(extents, arena);
  CHECK(want.mismatches == 4);
  check_same(gpu().checker().check_guards(extents, Copied(gpu(), arena).bytes()), want);
}

TEST_CASE("parameters in place are judged as the host judges them, clean and corrupted, in every mode") {
  const quant::Rounding rounding = GENERATE(from_range(quant::kRoundings));
  CAPTURE(quant::name_of(rounding));
  const Refitted made(rounding);
  const Copied sources(gpu(), made.sources);
  std::mt19937_64 random(17);
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    ByteVector damaged = made.destinations;
    for (int hits = 0; hits < round * 3; ++hits) {
      const plan::Destination& to = made.plan.destinations[random() % made.plan.destinations.size()];
      damaged[to.offset + random() % to.spec.bytes()] ^= static_cast<std::byte>(1 + random() % 255);
    }
    std::vector<bool> masked;
    if (round % 3 == 2) {
      masked.resize(made.plan.segments.size());
      for (int i = 0; i < 20; ++i) masked[random() % masked.size()] = true;
    }
    const Copied destinations(gpu(), damaged);
    const verify::InPlace want = host().checker().check_in_place(made.plan, made.sources, damaged, masked);
    if (round == 0) CHECK(want.quantizer.mismatches + want.layout.mismatches == 0);
    const verify::InPlace got =
        gpu().checker().check_in_place(made.plan, sources.bytes(), destinations.bytes(), masked);
    check_same(got.quantizer, want.quantizer);
    check_same(got.layout, want.layout);
    check_same(gpu().checker().check_layout(made.plan, sources.bytes(), destinations.bytes(), masked),
               host().checker().check_layout(made.plan, made.sources, damaged, masked));
  }
}

TEST_CASE("packed buckets are judged as the host judges them") {
  const bool prequantize = GENERATE(true, false);
  CAPTURE(prequantize);
  const Refitted made(quant::Rounding::flashinfer);
  const plan::Wire wire = plan::make_wire(made.plan, prequantize, 300 << 10);
  REQUIRE(wire.buckets.size() > 2);
  const Copied sources(gpu(), made.sources);
  std::mt19937_64 random(4);
  for (std::size_t b = 0; b < wire.buckets.size(); ++b) {
    CAPTURE(b);
    ByteVector packed = test::random_bytes(wire.largest_bucket, b);
    const plan::Bucket& bucket = wire.buckets[b];
    for (std::uint32_t e = bucket.first_entry; e < bucket.first_entry + bucket.entries; ++e) {
      const std::vector<std::byte> right = verify::reference_entry(made.plan, wire, e, made.sources);
      std::copy(right.begin(), right.end(), packed.begin() + static_cast<std::ptrdiff_t>(wire.offsets[e]));
    }
    for (std::size_t hits = 0; hits < b % 4; ++hits) {
      const std::uint32_t e = bucket.first_entry + static_cast<std::uint32_t>(random() % bucket.entries);
      packed[wire.offsets[e] + random() % wire.entries[e].bytes] ^= std::byte{0x21};
    }
    std::vector<bool> wrong_gpu, wrong_host;
    const verify::Result want =
        host().checker().check_packed(made.plan, wire, b, packed, made.sources, &wrong_host);
    const Copied on_gpu(gpu(), packed);
    check_same(gpu().checker().check_packed(made.plan, wire, b, on_gpu.bytes(), sources.bytes(), &wrong_gpu),
               want);
    CHECK(wrong_gpu == wrong_host);
  }
}

TEST_CASE("poison that is left in a parameter is found where it is") {
  const Refitted made(quant::Rounding::flashinfer);
  ByteVector arena = made.destinations;
  const std::vector<std::uint64_t> first = device::destination_digests(host().checker(), made.plan, arena);
  const plan::Destination& victim = made.plan.destinations[3];
  std::fill_n(arena.begin() + static_cast<std::ptrdiff_t>(victim.offset + 10), 20, std::byte{0x5A});
  const plan::Destination& other = made.plan.destinations[5];
  for (std::uint64_t i = 0; i < other.spec.bytes(); ++i) {
    if (arena[other.offset + i] == std::byte{0x5A}) arena[other.offset + i] = std::byte{0x5B};
  }
  arena[other.offset] ^= std::byte{1};
  const std::vector<std::uint64_t> second = device::destination_digests(host().checker(), made.plan, arena);
  const Copied on_gpu(gpu(), arena);
  CHECK(device::destination_digests(gpu().checker(), made.plan, on_gpu.bytes()) == second);
  const verify::Result want = host().checker().check_poison(made.plan, first, second, arena, std::byte{0x5A});
  CHECK(want.findings.size() >= 1);
  check_same(gpu().checker().check_poison(made.plan, first, second, on_gpu.bytes(), std::byte{0x5A}), want);
}
