// Parallelisms as people type them: what is left out, what is refused.
#include "refit/reshard/parallelism.hpp"

#include <fmt/format.h>

#include <random>
#include <string>

#include "refit/reshard/layout.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"

using namespace refit::reshard;

namespace {

Parallelism trainer(const std::string& text) {
  return parse_parallelism(text, Side::trainer);
}

template <typename... Parts>
void check_refused(const std::string& text, Side side, const Parts&... parts) {
  check_input_error([&] { (void)parse_parallelism(text, side); }, text, parts...);
}

}  // namespace

TEST_CASE("sizes that are left out follow from those that are given") {
  CHECK(trainer("") == Parallelism{});
  CHECK(trainer("").ranks() == 1);

  const Parallelism dense = trainer("tp=4,pp=2,dp=3");
  CHECK(dense.etp == 4);  // without expert parallelism experts are divided as everything else is
  CHECK(dense.ranks() == 24);
  CHECK(dense.edp() == 3);

  const Parallelism experts = trainer("tp=2,pp=8,ep=32");
  CHECK(experts.etp == 1);
  CHECK(experts.dp == 16);  // the least for which 32 divides 2 * dp
  CHECK(experts.ranks() == 256);
  CHECK(experts.edp() == 1);

  CHECK(trainer("tp=4,ep=6").dp == 3);
  CHECK(trainer("ep=8,etp=2,tp=4").dp == 4);
  CHECK(trainer("ep=2,dp=8").edp() == 4);
  CHECK(trainer("fsdp=8,dp=2").ranks() == 16);
  CHECK(trainer("tp=2,etp=1").etp == 1);
}

TEST_CASE("a list of layers gives the number of stages") {
  const Parallelism stages = trainer("tp=2,pp-layers=8:8:7");
  CHECK(stages.pp == 3);
  CHECK(stages.pp_layers == std::vector<std::uint32_t>{8, 8, 7});
  CHECK(trainer("pp=3,pp-layers=8:8:7").pp == 3);
}

TEST_CASE("a parallelism is written with what is not 1") {
  CHECK(to_string({}) == "tp=1");
  CHECK(to_string(trainer("ep=32,pp=8,tp=2")) == "tp=2,pp=8,dp=16,ep=32");
  CHECK(to_string(trainer("tp=4")) == "tp=4,etp=4");
  CHECK(to_string(trainer("fsdp=8")) == "fsdp=8");
  CHECK(to_string(trainer("pp-layers=8:8:7")) == "pp=3,pp-layers=8:8:7");
  CHECK(to_string(trainer("pp-layers=8:8")) == "pp=2");
}

TEST_CASE("a parallelism that is written and read again is the same") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 500; ++i) {
    const auto size = [&] { return 1 + random() % 6; };
    const std::string text =
        fmt::format("tp={},pp={},dp={},ep={},etp={}", size(), size(), size(), size(), size());
    Parallelism parallelism;
    try {
      parallelism = trainer(text);
    } catch (const refit::Error&) {
      continue;
    }
    CAPTURE(text, to_string(parallelism));
    CHECK(trainer(to_string(parallelism)) == parallelism);
  }
}

TEST_CASE("unknown keys are refused with the one that was meant") {
  check_refused("tpp=2", Side::trainer, "trainer", "\"tpp\"", "did you mean \"tp\"?");
  check_refused("pplayers=2", Side::generator, "generator", "did you mean \"pp-layers\"?");
  check_refused("fsdp=2", Side::generator, "there is no \"fsdp\"");
  check_refused("tp=2,context-parallel=2", Side::trainer, "tp, pp, dp, ep, etp, fsdp, pp-layers");
}

TEST_CASE("values that are no number from 1 to 65536 are refused by key") {
  for (const std::string value : {"", "0", "-1", "2x", "1.5", "65537", "99999999999", " 2"}) {
    check_refused("pp=2,tp=" + value, Side::trainer, "tp is \"" + value + "\"", "from 1 to 65536");
  }
  check_refused("pp-layers=8::7", Side::trainer, "pp-layers is \"\"");
  check_refused("tp", Side::trainer, "\"tp\" is not key=number");
  check_refused("tp=2,", Side::trainer, "\"\" is not key=number");
  check_refused("tp=2,pp=1,tp=2", Side::trainer, "tp is given twice");
}

TEST_CASE("sizes that do not go together are refused with their numbers") {
  check_refused("tp=2,dp=3,ep=4", Side::trainer, "etp=1 times ep=4 is 4", "tp=2 times dp=3");
  check_refused("tp=2,etp=3,dp=1", Side::generator, "etp=3 times ep=1 is 3", "tp=2 times dp=1");
  for (const std::string key : {"tp", "pp", "ep", "etp"}) {
    check_refused("fsdp=4," + key + "=2", Side::trainer, "fsdp=4", "cannot be combined with", "=2");
  }
  check_refused("pp=2,pp-layers=8:8:7", Side::trainer, "gives 3 stages, but pp=2");
  check_refused("tp=65536,pp=2", Side::trainer, "tp=65536, pp=2, dp=1 and fsdp=1 are more than 65536 ranks");
  check_refused("tp=65536,pp=65536,dp=65536", Side::trainer, "more than 65536 ranks");
  check_refused("ep=65536,etp=65536", Side::trainer, "needs dp=4294967296, more than 65536");
}

TEST_CASE("text from outside cannot move the cursor") {
  const refit::Error error = error_of([] { (void)parse_parallelism("t\x1b[2Jp=2", Side::trainer); });
  CHECK(std::string(error.what()).find('\x1b') == std::string::npos);
}

TEST_CASE("boxes meet where both their rows and their columns do") {
  const Box a{.row = 2, .rows = 4, .col = 0, .cols = 8};
  CHECK(intersection(a, {.row = 4, .rows = 9, .col = 6, .cols = 9}) ==
        Box{.row = 4, .rows = 2, .col = 6, .cols = 2});
  CHECK(intersection(a, {.row = 6, .rows = 1, .col = 0, .cols = 8}) == Box{});
  CHECK(intersection(a, {.row = 2, .rows = 4, .col = 8, .cols = 1}) == Box{});
}
