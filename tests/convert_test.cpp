// What a conversion plans and what it writes: targets, refusals, and bytes against the reference functions.
#include "refit/convert/convert.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "convert/experts.hpp"
#include "convert/patterns.hpp"
#include "convert/values.hpp"
#include "refit/base/digest.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"
#include "support/quant_golden.hpp"
#include "support/temp_dir.hpp"

using namespace refit;
using namespace refit::convert;

namespace {

struct NamedTensor {
  TensorSpec spec;
  std::string bytes;
};

/// Bytes that as BF16 are all finite and differ in magnitude.
std::string weight_bytes(std::uint64_t elements, std::uint32_t seed) {
  std::string bytes(elements * 2, '\0');
  for (std::uint64_t i = 0; i < elements; ++i) {
    const std::uint64_t random = mix64(i + (std::uint64_t{seed} << 40));
    const auto word = static_cast<std::uint16_t>(0x3900 + (random & 0x83FF));
    std::memcpy(bytes.data() + 2 * i, &word, 2);
  }
  return bytes;
}

NamedTensor weight(const std::string& name, Shape shape, std::uint32_t seed = 1) {
  const std::uint64_t elements = num_elements(shape);
  return {{.name = name, .shape = std::move(shape), .dtype = DType::bf16}, weight_bytes(elements, seed)};
}

NamedTensor filled(const std::string& name, DType dtype, Shape shape) {
  NamedTensor tensor{{.name = name, .shape = std::move(shape), .dtype = dtype}, {}};
  for (std::uint64_t i = 0; i < tensor.spec.bytes(); ++i) tensor.bytes += static_cast<char>(i * 7 % 0x7E);
  return tensor;
}

std::string file_of(const TempDir& dir, const std::vector<NamedTensor>& tensors, std::size_t odd = 0) {
  std::vector<TensorSpec> specs;
  std::string data;
  if (odd > 0) {
    specs.push_back({.name = "!", .shape = {odd}, .dtype = DType::u8});
    data.append(odd, '\0');
  }
  for (const NamedTensor& tensor : tensors) {
    specs.push_back(tensor.spec);
    data += tensor.bytes;
  }
  return dir.write("src.safetensors", checkpoint::make_header(specs, {}) + data);
}

std::vector<NamedTensor> experts(std::uint64_t count, std::uint64_t width, std::uint64_t hidden) {
  std::vector<NamedTensor> tensors;
  for (std::uint64_t e = 0; e < count; ++e) {
    const std::string prefix = "m.layers.0.mlp.experts." + std::to_string(e) + ".";
    const auto seed = static_cast<std::uint32_t>(3 * e);
    tensors.push_back(weight(prefix + "gate_proj.weight", {width, hidden}, seed));
    tensors.push_back(weight(prefix + "up_proj.weight", {width, hidden}, seed + 1));
    tensors.push_back(weight(prefix + "down_proj.weight", {hidden, width}, seed + 2));
  }
  return tensors;
}

Conversion planned(const std::string& path, const Options& options = {}) {
  return conversion_of(checkpoint::Checkpoint::open(path), nullptr, options);
}

/// The result of a conversion, by name.
std::map<std::string, test::Bytes> converted(const TempDir& dir, const std::string& path,
                                             const Options& options, unsigned threads = 2) {
  const std::string destination = dir.path("dst.safetensors");
  (void)convert::convert(
      {.source = path, .destination = destination, .options = options, .overwrite = true, .threads = threads},
      {});
  const auto result = checkpoint::Checkpoint::open(destination);
  std::map<std::string, test::Bytes> bytes;
  for (const auto& tensor : result.tensors()) {
    const auto data = result.data(tensor);
    const auto* first = reinterpret_cast<const std::uint8_t*>(data.data());
    bytes[tensor.spec.name] = test::Bytes(first, first + data.size());
  }
  return bytes;
}

test::Quantized reference_of(const NamedTensor& tensor, const quant::Options& options) {
  test::Words words(tensor.bytes.size() / 2);
  std::memcpy(words.data(), tensor.bytes.data(), tensor.bytes.size());
  return test::quantized_by_reference(words, options);
}

}  // namespace

TEST_CASE("A pattern without wildcards is a part of a name, one with them the whole") {
  CHECK(matches("model.layers.0.mlp.gate.weight", "mlp.gate"));
  CHECK(matches("a.b", "*"));
  CHECK(matches("model.layers.11.k", "model.layers.?1.k"));
  CHECK(matches("aXbXc", "a*X*c"));
  CHECK(matches("abab", "*ab"));
  CHECK(matches("", "*"));
  CHECK_FALSE(matches("model.layers.0.mlp", "layers.*"));
  CHECK_FALSE(matches("ab", "a?b"));
  CHECK_FALSE(matches("abc", "*b"));
  CHECK_FALSE(matches("", "?"));
  check_input_error([] { check_patterns({"a", ""}, "--ignore"); }, "--ignore", "empty");
}

TEST_CASE("Names of experts are taken apart, others are not experts") {
  const auto expert = parse_expert("model.layers.3.mlp.experts.17.w3.weight");
  REQUIRE(expert);
  CHECK(expert->stack == "model.layers.3.mlp.experts");
  CHECK(expert->expert == 17);
  CHECK(expert->projection == Projection::up);
  for (const char* name :
       {"m.experts.gate_up_proj", "m.experts.1.gate_proj.bias", "m.experts.x.gate_proj.weight",
        "m.experts.1.other.weight", "m.experts.1.weight", "m.experts..up_proj.weight",
        "m.experts.99999999999999999999.up_proj.weight", "m.experts.weight"}) {
    CAPTURE(name);
    CHECK_FALSE(parse_expert(name));
  }
}

TEST_CASE("Every half becomes the BF16 that the cast of its value is") {
  std::vector<std::uint16_t> halves(65536), words(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  to_bf16(DType::f16, reinterpret_cast<const std::byte*>(halves.data()), halves.size(), words.data());
  for (const auto& [half, word] : {std::pair{0x3C00, 0x3F80},
                                   {0xC000, 0xC000},
                                   {0x7BFF, 0x4780},
                                   {0x0001, 0x3380},
                                   {0x8000, 0x8000},
                                   {0x7C00, 0x7F80},
                                   {0x03FF, 0x3880}}) {
    CAPTURE(half);
    CHECK(words[static_cast<std::size_t>(half)] == word);
  }
  CHECK((words[0x7E00] & 0x7FFF) > 0x7F80);
}

TEST_CASE("Dequantizing gives the exact value to nearest even for every element and scale") {
  std::vector<std::byte> values(256), scales(8);
  std::vector<std::uint16_t> words(256);
  for (std::size_t i = 0; i < 256; ++i) values[i] = static_cast<std::byte>(i);
  for (int scale = 0; scale < 256; ++scale) {
    std::fill(scales.begin(), scales.end(), static_cast<std::byte>(scale));
    dequantize(values.data(), scales.data(), scales.size(), words.data());
    for (std::size_t i = 0; i < 256; ++i) {
      const double exact = quant::mx_value(static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(scale));
      if (exact != exact) {
        REQUIRE((words[i] & 0x7FFF) > 0x7F80);
      } else {
        REQUIRE(words[i] == quant::bf16_from_float(static_cast<float>(exact)));
      }
    }
  }
}

TEST_CASE("A lone file's matrices named weight are quantized where blocks fit") {
  const TempDir dir;
  const std::string path =
      file_of(dir, {weight("a.weight", {2, 64}), weight("odd.weight", {2, 48}), weight("vector.weight", {64}),
                    weight("a.bias", {2, 64}), weight("stack.weight", {2, 3, 32})});
  const Conversion conversion = planned(path);
  CHECK(conversion.count(Op::quantize) == 2);
  CHECK(conversion.count(Op::copy) == 3);
  REQUIRE(conversion.outputs.size() == 7);
  CHECK(conversion.outputs[1] == TensorSpec{"a.weight_scale", {2, 2}, DType::u8});
  CHECK(conversion.outputs.back() == TensorSpec{"stack.weight_scale", {2, 3, 1}, DType::u8});
  CHECK(conversion.source_bytes == 2 * (2 * 64 + 2 * 48 + 64 + 2 * 64 + 2 * 3 * 32));
}

TEST_CASE("Bytes are those of the reference whatever the alignment, size and number of threads") {
  const TempDir dir;
  const std::vector<NamedTensor> tensors = {
      weight("a.weight", {130, 96}, 1), weight("b.weight", {1, 32}, 2), weight("c.weight", {5000, 1056}, 3),
      weight("d.weight", {3, 130, 32}, 4), filled("e", DType::i64, {7})};
  for (const std::size_t odd : {0u, 1u}) {
    const std::string path = file_of(dir, tensors, odd);
    for (const unsigned threads : {1u, 3u}) {
      for (const bool tiled : {false, true}) {
        Options options{.layout = tiled ? Layout::linear_128x4 : Layout::checkpoint};
        options.quant.rounding = quant::Rounding::torchao_floor;
        auto bytes = converted(dir, path, options, threads);
        for (const NamedTensor& tensor : tensors) {
          CAPTURE(tensor.spec.name, odd, threads, tiled);
          if (tensor.spec.dtype != DType::bf16) {
            CHECK(std::memcmp(bytes[tensor.spec.name].data(), tensor.bytes.data(), tensor.bytes.size()) == 0);
            continue;
          }
          auto expected = reference_of(tensor, options.quant);
          CHECK(bytes[tensor.spec.name] == expected.q);
          if (tiled) {
            const std::uint64_t matrices = tensor.spec.shape.size() == 3 ? tensor.spec.shape[0] : 1;
            const std::uint64_t rows = tensor.spec.rows() / matrices, cols = tensor.spec.cols() / 32;
            test::Bytes all;
            for (std::uint64_t m = 0; m < matrices; ++m) {
              const auto one = layout::tile_scales_128x4_reference(
                  std::span(expected.scales).subspan(m * rows * cols, rows * cols), rows, cols);
              all.insert(all.end(), one.begin(), one.end());
            }
            expected.scales = all;
          }
          CHECK(bytes[tensor.spec.name + "_scale"] == expected.scales);
        }
      }
    }
  }
}

TEST_CASE("Stacked experts are those of the per-expert reference steps") {
  const TempDir dir;
  const std::uint64_t width = 192, hidden = 256;
  const auto tensors = experts(3, width, hidden);
  Options options{.layout = Layout::flashinfer_trtllm};
  options.quant.zero_scale = quant::ZeroScale::one;
  auto bytes = converted(dir, file_of(dir, tensors, 1), options);
  REQUIRE(bytes.size() == 5);
  test::Bytes w13, w13_scale, w2, w2_scale;
  const auto append = [](test::Bytes& to, const test::Bytes& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (std::size_t e = 0; e < 3; ++e) {
    auto gate = reference_of(tensors[3 * e], options.quant);
    const auto up = reference_of(tensors[3 * e + 1], options.quant),
               down = reference_of(tensors[3 * e + 2], options.quant);
    append(gate.q, up.q);
    append(gate.scales, up.scales);
    const auto one =
        layout::shuffle_w13_expert_reference(gate.q, gate.scales, 2 * width, hidden, hidden / 32, true);
    const auto two = layout::shuffle_w2_expert_reference(down.q, down.scales, hidden, width, width / 32);
    append(w13, one.weight);
    append(w13_scale, one.scales);
    append(w2, two.weight);
    append(w2_scale, two.scales);
  }
  CHECK(bytes["m.layers.0.mlp.experts.w13_weight"] == w13);
  CHECK(bytes["m.layers.0.mlp.experts.w13_weight_scale"] == w13_scale);
  CHECK(bytes["m.layers.0.mlp.experts.w2_weight"] == w2);
  CHECK(bytes["m.layers.0.mlp.experts.w2_weight_scale"] == w2_scale);
}

TEST_CASE("A slab of all experts becomes what its experts become, on every rank") {
  const TempDir dir;
  const std::uint64_t count = 2, width = 128, hidden = 128;
  const auto apart = experts(count, width, hidden);
  NamedTensor gate_up{{"m.layers.0.mlp.experts.gate_up_proj", {count, 2 * width, hidden}, DType::bf16}, {}};
  NamedTensor down{{"m.layers.0.mlp.experts.down_proj", {count, hidden, width}, DType::bf16}, {}};
  for (std::size_t e = 0; e < count; ++e) {
    gate_up.bytes += apart[3 * e].bytes + apart[3 * e + 1].bytes;
    down.bytes += apart[3 * e + 2].bytes;
  }
  model::Inventory model;
  model.dims = {
      .hidden = hidden, .heads = 2, .kv_heads = 2, .experts = count, .slabs = model::SlabForm::rows};
  constexpr std::array kinds = {model::Kind::expert_gate, model::Kind::expert_up, model::Kind::expert_down};
  for (std::size_t i = 0; i < apart.size(); ++i) {
    model.tensors.push_back(
        {.spec = apart[i].spec, .kind = kinds[i % 3], .layer = 0, .expert = static_cast<int>(i / 3)});
  }
  model::Inventory slabs = model;
  slabs.tensors = {{.spec = gate_up.spec, .kind = model::Kind::expert_gate_up_slab, .layer = 0},
                   {.spec = down.spec, .kind = model::Kind::expert_down_slab, .layer = 0}};
  const auto made = [&](const std::string& path, const model::Inventory& inventory, const Options& options) {
    const auto source = checkpoint::Checkpoint::open(path);
    const Conversion conversion = conversion_of(source, &inventory, options);
    auto writer =
        checkpoint::Writer::file(dir.path("dst.safetensors"), conversion.outputs, {.overwrite = true});
    ThreadPool pool(2);
    execute(conversion, source, writer, pool, {});
    writer.commit();
    std::ifstream file(dir.path("dst.safetensors"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (const std::uint64_t size : {1, 2}) {
    for (std::uint64_t rank = 0; rank < size; ++rank) {
      CAPTURE(size, rank);
      Options options{.layout = Layout::flashinfer_trtllm, .tp_size = size, .tp_rank = rank};
      CHECK(made(file_of(dir, apart), model, options) == made(file_of(dir, {gate_up, down}), slabs, options));
    }
  }
  slabs.dims.slabs = model::SlabForm::columns;
  const std::string path = file_of(dir, {gate_up, down});
  check_input_error([&] { (void)made(path, slabs, {}); }, path, "gate_up_proj", "K in the middle");
}

TEST_CASE("The embedding and head of a prediction layer are cut and padded like the model's") {
  const TempDir dir;
  const std::string layer = "model.layers.4.";
  const std::vector<NamedTensor> tensors = {weight(layer + "embed_tokens.weight", {20, 32}),
                                            weight(layer + "shared_head.head.weight", {20, 32}),
                                            weight(layer + "eh_proj.weight", {32, 64})};
  model::Inventory model;
  model.dims.vocab = 20;
  model.dims.heads = 2;
  for (const NamedTensor& tensor : tensors) {
    model.mtp.push_back({.spec = tensor.spec, .kind = model::Kind::mtp_other});
  }
  const auto source = checkpoint::Checkpoint::open(file_of(dir, tensors));
  Options options{.recipe = model::RecipeKind::none};
  options.tp_size = 2;
  for (options.tp_rank = 0; options.tp_rank < 2; ++options.tp_rank) {
    const Conversion conversion = conversion_of(source, &model, options);
    REQUIRE(conversion.targets.size() == 3);
    for (std::size_t t = 0; t < 2; ++t) {
      CHECK(conversion.outputs[t].shape == Shape{32, 32});
      const std::vector<Piece>& pieces = conversion.targets[t].pieces;
      REQUIRE(pieces.size() == (options.tp_rank == 0 ? 2 : 1));
      CHECK(pieces.back().source == kNone);
      CHECK(pieces.back().rows == (options.tp_rank == 0 ? 12 : 32));
    }
    CHECK(conversion.outputs[2].shape == Shape{32, 64});
    CHECK(conversion.source_bytes == (options.tp_rank == 0 ? 2 * 20 * 64 : 0) + 32 * 128);
  }
  model.dims.vocab = 21;
  check_input_error(
      [&] { (void)conversion_of(source, &model, {.recipe = model::RecipeKind::none, .tp_size = 2}); },
      "embed_tokens", "20 rows are fewer than the 21");
}

TEST_CASE("Stacks that are not whole are refused by what is missing or different") {
  const TempDir dir;
  const Options options{.layout = Layout::flashinfer_trtllm};
  const auto refused = [&](const std::vector<NamedTensor>& tensors, auto... parts) {
    const std::string path = file_of(dir, tensors);
    check_input_error([&] { (void)planned(path, options); }, path, parts...);
  };
  auto tensors = experts(3, 128, 128);
  tensors.erase(tensors.begin() + 5);  // down of expert 1
  refused(tensors, "expert 1 of 3", "down");
  tensors = experts(3, 128, 128);
  tensors.erase(tensors.begin() + 3);  // gate of expert 1
  refused(tensors, "expert 1 of 3", "gate");
  tensors = experts(2, 128, 128);
  tensors[4] = weight(tensors[4].spec.name, {64, 128});
  refused(tensors, "experts.1.up_proj", "[64, 128]", "[128, 128]");
  tensors = experts(2, 128, 128);
  tensors[4] = filled(tensors[4].spec.name, DType::i8, {128, 128});
  refused(tensors, "experts.1.up_proj", "alike");
  refused(experts(1, 96, 128), "w13_weight", "192", "128");
}

TEST_CASE("The tensors of a result have different names") {
  const TempDir dir;
  const std::string path =
      file_of(dir, {weight("a.weight", {2, 64}), filled("a.weight_scale", DType::f32, {1})});
  check_input_error([&] { (void)planned(path); }, path, "a.weight_scale", "--scale-suffix");
  CHECK(planned(path, {.scale_suffix = "_scale_from_checkpoint"}).outputs.size() == 3);
}

TEST_CASE("A conversion that is stopped leaves nothing") {
  const TempDir dir;
  const std::string path = file_of(dir, {weight("a.weight", {64, 64})}), out = dir.path("out.safetensors");
  const Error error = error_of([&] {
    (void)convert::convert({.source = path, .destination = out, .options = {}},
                           {.progress = {}, .stop = [] { return true; }});
  });
  CHECK(error.kind() == ErrorKind::runtime);
  CHECK(contains(error.what(), "interrupted"));
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path("")), {}) == 1);
}

TEST_CASE("What an earlier conversion did is said no longer, but a slice stays one") {
  const TempDir dir;
  const NamedTensor values = filled("a.weight", DType::f8_e4m3, {4, 64});
  const NamedTensor scales = filled("a.weight_scale", DType::u8, {4, 2});
  const std::map<std::string, std::string> before = {{"format", "pt"},
                                                     {"step", "7"},
                                                     {"refit.format", "mxfp8"},
                                                     {"refit.layout", "checkpoint"},
                                                     {"refit.rounding", "vllm-floor"},
                                                     {"refit.tp", "1/2"},
                                                     {"refit.other", "x"}};
  const std::string source =
      dir.write("src.safetensors",
                checkpoint::make_header({values.spec, scales.spec}, before) + values.bytes + scales.bytes);
  const auto metadata_after = [&](const Options& options, const std::string& from) {
    const std::string out = dir.path("out.safetensors");
    (void)convert::convert({.source = from, .destination = out, .options = options, .overwrite = true}, {});
    return checkpoint::Checkpoint::open(out).shards().front().metadata();
  };
  using Metadata = std::map<std::string, std::string>;
  CHECK(metadata_after({.layout = Layout::linear_128x4}, source) == Metadata{{"format", "pt"},
                                                                             {"step", "7"},
                                                                             {"refit.format", "mxfp8"},
                                                                             {"refit.layout", "linear-128x4"},
                                                                             {"refit.rounding", "vllm-floor"},
                                                                             {"refit.tp", "1/2"}});
  CHECK(metadata_after({.format = Format::bf16}, source) ==
        Metadata{{"format", "pt"}, {"step", "7"}, {"refit.format", "bf16"}, {"refit.tp", "1/2"}});
  std::filesystem::rename(dir.path("out.safetensors"), dir.path("bf16.safetensors"));
  CHECK(metadata_after({.quant = {.rounding = quant::Rounding::torchao_even}}, dir.path("bf16.safetensors"))
            .at("refit.rounding") == "torchao-even");
  check_input_error([&] { (void)metadata_after({.tp_size = 2}, source); }, source, "--tp-size 2",
                    "is a slice already", "1/2");
}

TEST_CASE("A source that changes while it is converted leaves no result") {
  const TempDir dir;
  const std::string path = file_of(dir, {weight("a.weight", {2048, 2048}), weight("b.weight", {2048, 2048})});
  for (const bool overwrites : {false, true}) {
    CAPTURE(overwrites);
    std::filesystem::last_write_time(path,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::seconds(9));
    const Error error = error_of([&] {
      bool first = true;
      (void)convert::convert({.source = path, .destination = dir.path("out.safetensors"), .options = {}},
                             {.progress =
                                  [&](std::uint64_t, std::uint64_t) {
                                    if (!std::exchange(first, false)) return;
                                    if (overwrites) {
                                      std::ofstream(path, std::ios::in | std::ios::out).write("\xff\xff", 2);
                                    } else {
                                      std::filesystem::resize_file(path, 4096);
                                    }
                                  },
                              .stop = {}});
    });
    CHECK(error.kind() == ErrorKind::runtime);
    CHECK(contains(error.what(),
                   path + (overwrites ? ": changed" : ": became shorter") + " while it was read"));
    CHECK(std::distance(std::filesystem::directory_iterator(dir.path("")), {}) == 1);
    (void)file_of(dir, {weight("a.weight", {2048, 2048}), weight("b.weight", {2048, 2048})});
  }
}

TEST_CASE("A lone file does not become a directory's name") {
  const TempDir dir;
  const std::string path = file_of(dir, {weight("a.weight", {4, 64})});
  std::filesystem::create_directory(dir.path("there"));
  for (const bool overwrite : {false, true}) {
    for (const char* name : {"there", "there/", "new/"}) {
      check_input_error(
          [&] {
            (void)convert::convert(
                {.source = path, .destination = dir.path(name), .options = {}, .overwrite = overwrite}, {});
          },
          dir.path(name), "is one file");
    }
  }
  CHECK_FALSE(std::filesystem::exists(dir.path("new")));
}

TEST_CASE("An error before the commit leaves nothing, and the report is complete by then") {
  const TempDir dir;
  const std::string path = file_of(dir, {weight("a.weight", {4, 64})});
  std::string json;
  (void)error_of([&] {
    (void)convert::convert({.source = path, .destination = dir.path("out.safetensors"), .options = {}}, {},
                           [&](const Report& report) {
                             json = to_json(report);
                             fail_runtime("no room for the report");
                           });
  });
  CHECK(contains(json, "\"quantized\": 1"));
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path("")), {}) == 1);
}

TEST_CASE("Progress ends with every byte") {
  const TempDir dir;
  const std::string path = file_of(dir, {weight("a.weight", {4096, 2048}), weight("b", {3, 3})});
  std::uint64_t last = 0, whole = 0;
  bool rises = true;
  (void)convert::convert(
      {.source = path, .destination = dir.path("out.safetensors"), .options = {}, .threads = 2},
      {.progress =
           [&](std::uint64_t done, std::uint64_t total) {
             rises = rises && done > last;
             last = done;
             whole = total;
           },
       .stop = {}});
  CHECK(rises);
  CHECK(last == whole);
  CHECK(whole == 4096 * 2048 + 4096 * 2048 / 32 + 18);
}
