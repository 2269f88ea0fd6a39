// Audits of dumps with at most one fault each, of random models whose weights are often alike: the verdict
// has to be that of the bytes, and what a diagnosis says has to make every byte when it is carried out here.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <regex>

#include "refit/base/digest.hpp"
#include "refit/layout/moe_shuffle.hpp"
#include "refit/layout/scale_128x4.hpp"
#include "support/catch.hpp"
#include "support/dumped.hpp"
#include "support/error_of.hpp"

using namespace refit;
using namespace refit::test;
using audit::Finding;
using audit::Report;

namespace {

constexpr std::uint32_t kFew = 4, kHeads = 2, kDim = 32, kSmall = 128, kRealVocab = 96, kPaddedVocab = 128;
constexpr const char* kSmallConfig = R"({
  "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_size": 128, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 128,
  "moe_intermediate_size": 64, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
  "first_k_dense_replace": 1, "use_qk_norm": true, "vocab_size": 96, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16"})";
const std::string kLayer = "model.layers.1.";

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix64(seed)) {}
  std::uint64_t below(std::uint64_t end) { return mix64(state_ += 0x9E37'79B9'7F4A'7C15) % end; }
  bool once_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

enum class Form { bf16, f32, mxfp8 };

struct Setup {
  quant::Options quant;
  plan::MoeLayout layout{};
  model::RecipeKind recipe{};
  Form form{};
  Tensors sources, previous;  ///< BF16

  [[nodiscard]] Tensors made(const Tensors& from, const quant::Options& by, plan::MoeLayout as) const {
    Refit refit(kSmallConfig, by, as, recipe);
    refit.set_sources(from);
    Tensors tensors = refit.parameters();
    for (const char* const name : {"lm_head.weight", "model.embed_tokens.weight"}) {  // as engines pad
      tensors[name].shape[0] = kPaddedVocab;
      tensors[name].bytes.resize(kPaddedVocab * kSmall * 2);
    }
    return tensors;
  }
  [[nodiscard]] Tensors made(const Tensors& from) const { return made(from, quant, layout); }
  [[nodiscard]] bool shuffled() const { return layout == plan::MoeLayout::flashinfer_trtllm; }

  /// The file that a trainer would have saved.
  [[nodiscard]] Tensors file_of(const Tensors& weights) const {
    if (form == Form::mxfp8) {
      const model::Inventory model = model::parse_inventory(kSmallConfig, "test config");
      const std::vector<bool> flags = model::select_quantized(model, {.kind = recipe, .ignore = {}});
      std::map<std::string, bool> chosen;
      for (std::size_t i = 0; i < flags.size(); ++i) chosen[model.tensors[i].spec.name] = flags[i];
      return quantized(
          weights, [&](const std::string& name) { return chosen.at(name); }, quant);
    }
    Tensors file = weights;
    for (auto& [name, tensor] : file.map) {
      if (form == Form::bf16 || tensor.dtype != DType::bf16) continue;
      const std::vector<std::uint16_t> words = words_of(tensor);
      std::vector<std::uint32_t> wide(words.begin(), words.end());
      for (std::uint32_t& bits : wide) bits <<= 16;
      tensor = tensor_of(DType::f32, tensor.shape, wide);
    }
    return file;
  }
};

Setup random_setup(Random& random) {
  Setup setup;
  setup.quant = {quant::kRoundings[random.below(quant::kRoundings.size())],
                 random.once_in(2) ? quant::ZeroScale::one : quant::ZeroScale::keep,
                 {}};
  setup.layout = random.once_in(3) ? plan::MoeLayout::checkpoint : plan::MoeLayout::flashinfer_trtllm;
  setup.recipe = random.once_in(3) ? model::RecipeKind::all_linear : model::RecipeKind::routed_experts;
  setup.form = std::array{Form::bf16, Form::f32, Form::mxfp8}[random.below(3)];
  Refit refit(kSmallConfig, setup.quant, setup.layout, setup.recipe);
  setup.previous = refit.sources();
  refit.step(1 + random.below(3));
  setup.sources = refit.sources();
  // Tensors that are alike: of one another, of the step before, or all zero.
  const auto alike = [&](const std::string& to, const std::string& from) {
    if (setup.sources.at(to).bytes.size() == setup.sources.at(from).bytes.size()) {
      setup.sources[to].bytes = setup.sources.at(from).bytes;
    }
  };
  if (random.once_in(2)) alike("lm_head.weight", "model.embed_tokens.weight");
  for (std::uint64_t e = 0; e < kFew; ++e) {
    for (const char* const part : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
      const std::string experts = kLayer + "mlp.experts.", name = experts + std::to_string(e) + "." + part;
      if (random.once_in(3)) alike(name, experts + std::to_string(random.below(kFew)) + "." + part);
      if (random.once_in(6)) alike(name, experts + std::to_string(e) + ".gate_proj.weight");
      if (random.once_in(8)) setup.sources[name].bytes = setup.previous.at(name).bytes;
      if (random.once_in(12)) std::ranges::fill(setup.sources[name].bytes, std::uint8_t{0});
    }
  }
  if (random.once_in(4)) alike(kLayer + "self_attn.v_proj.weight", kLayer + "self_attn.k_proj.weight");
  return setup;
}

/// A fault of one tensor.
struct Planted {
  std::string sentence;     ///< that it is known by; empty: by more than one, or none
  Octets bytes;             ///< of the whole tensor
  bool explainable = true;  ///< some sentence has to be found
};

/// All faults that are planted in one tensor, each made from sources and by the layouts' own functions.
class Faults {
 public:
  Faults(const Setup& setup, const std::string& name, const Tensors::Tensor& right, Random& random)
      : setup_(setup),
        name_(name),
        right_(right),
        random_(random),
        scales_(name.ends_with("_scale")),
        experts_(contains(name, ".experts.w")),
        quantized_(scales_ || right.dtype == DType::f8_e4m3) {}

  std::vector<Planted> all() {
    damage();
    constants();
    add("tensor is from the previous step", setup_.made(setup_.previous).at(name_).bytes);
    if (quantized_) modes();
    if (experts_) experts();
    if (contains(name_, "w13") || contains(name_, "gate_up_proj")) parts();
    if (contains(name_, "qkv_proj")) qkv();
    if (name_ == "lm_head.weight") head();
    return std::move(faults_);
  }

 private:
  void add(std::string sentence, Octets bytes, bool explainable = true) {
    if (bytes.size() == right_.bytes.size()) {
      faults_.push_back({std::move(sentence), std::move(bytes), explainable});
    }
  }

  void damage() {
    Octets bytes = right_.bytes;
    bytes[random_.below(bytes.size())] ^= static_cast<std::uint8_t>(1 + random_.below(255));
    add("", bytes, false);
    const std::uint64_t begin = random_.below(bytes.size()),
                        end = begin + random_.below(bytes.size() - begin);
    bytes = right_.bytes;
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
              bytes.begin() + static_cast<std::ptrdiff_t>(end), std::uint8_t{0});
    add("", bytes, false);
  }

  void constants() {
    for (const auto& [value, text] : {std::pair{0x00, "0x00"}, {0xA5, "0xa5"}}) {
      add(std::string("never written: every byte is ") + text,
          Octets(right_.bytes.size(), static_cast<std::uint8_t>(value)));
    }
  }

  [[nodiscard]] std::string zero_scale_sentence(quant::ZeroScale got) const {
    if (got == quant::ZeroScale::keep) {
      return scales_ ? "byte 0 not replaced" : "elements of blocks at scale byte 0 not zeroed";
    }
    return scales_ ? "byte 0 replaced by 1, expected kept" : "elements of blocks at scale byte 0 zeroed";
  }
  void modes() {
    const bool carried = setup_.form == Form::mxfp8;
    for (std::size_t i = 0; i < audit::kModes; ++i) {
      const audit::Mode by = audit::mode(i);
      const bool rounding = by.rounding != setup_.quant.rounding,
                 zero = by.zero_scale != setup_.quant.zero_scale;
      Octets bytes =
          setup_.made(setup_.sources, {by.rounding, by.zero_scale, {}}, setup_.layout).at(name_).bytes;
      std::string sentence;
      if (rounding) {
        sentence = "rounded " + std::string(quant::name_of(by.rounding)) + ", expected " +
                   std::string(quant::name_of(setup_.quant.rounding));
      }
      if (zero) sentence += (rounding ? ", and " : "") + zero_scale_sentence(by.zero_scale);
      // Of an MXFP8 source only scale bytes can be replaced.
      const bool known = !carried || (!rounding && scales_ && by.zero_scale == quant::ZeroScale::one);
      add(known ? sentence : "", std::move(bytes), known && (rounding || zero));
    }
  }

  void experts() {
    const std::string what = scales_ ? "scales" : "values";
    for (std::uint64_t a = 0; a < kFew; ++a) {
      for (std::uint64_t b = a + 1; b < kFew; ++b) {
        Octets bytes = right_.bytes;
        exchange(bytes, kFew, a, b);
        add(what + " of experts " + std::to_string(a) + " and " + std::to_string(b) + " exchanged", bytes);
        exchange(bytes, kFew, b, (b + 1) % kFew);
        add("", bytes);
      }
    }
    const Octets before = setup_.made(setup_.previous).at(name_).bytes;
    const std::size_t size = before.size() / kFew;
    for (std::uint64_t e = 0; e < kFew; ++e) {
      Octets bytes = right_.bytes;
      std::memcpy(bytes.data() + e * size, before.data() + e * size, size);
      add(what + " of expert " + std::to_string(e) + " are from the previous step", bytes);
    }
    row_orders();
  }

  /// Canonical rows, expert by expert.
  [[nodiscard]] Octets canonical(const Tensors& from) const {
    return setup_.made(from, setup_.quant, plan::MoeLayout::checkpoint).at(name_).bytes;
  }
  enum class Tiles { as_expected, no, yes };
  /// Canonical rows in an order, and scales in the layout.
  [[nodiscard]] Octets laid_out(const Octets& rows, const std::vector<std::uint32_t>& order,
                                Tiles tiles = Tiles::as_expected) const {
    const std::uint64_t row_bytes = rows.size() / kFew / kSmall;
    Octets ordered = rows;
    if (!order.empty()) layout::gather_rows_batched(rows, {kFew, kSmall, row_bytes}, order, ordered);
    const bool tiled = tiles == Tiles::as_expected ? setup_.shuffled() : tiles == Tiles::yes;
    if (!scales_ || !tiled) return ordered;
    Octets out;
    for (std::uint64_t e = 0; e < kFew; ++e) {
      const Octets one = layout::tile_scales_128x4_reference(
          {ordered.data() + e * kSmall * row_bytes, kSmall * row_bytes}, kSmall, row_bytes);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }
  void row_orders() {
    const bool gated = contains(name_, "w13");
    const Octets rows = canonical(setup_.sources);
    const auto engine = layout::trtllm_w13_rows(kSmall, gated);
    if (!setup_.shuffled()) {
      if (scales_) {
        add("scale rows in 128x4, not row-major order", laid_out(rows, {}, Tiles::yes));
        add("scale rows in 128x4 and permuted for the TRT-LLM kernels, not as in the checkpoint",
            laid_out(rows, engine, Tiles::yes));
      }
      add("rows shuffled for the TRT-LLM kernels, expected in the order of the checkpoint",
          laid_out(rows, engine));
      return;
    }
    std::vector<std::uint32_t> twice(kSmall), swapped_halves(kSmall);
    for (std::size_t i = 0; i < kSmall; ++i) twice[i] = engine[engine[i]];
    add(scales_ ? "scales not permuted with the rows" : "rows not shuffled", laid_out(rows, {}));
    add("shuffled twice (stale layout from the previous refit)", laid_out(rows, twice));
    add("shuffled twice, and from the previous step (not rewritten before the shuffle)",
        laid_out(canonical(setup_.previous), twice));
    if (scales_) {
      add("scale rows in row-major order, not 128x4", laid_out(rows, engine, Tiles::no));
      add("scale rows in row-major order, not 128x4, and not permuted with the rows",
          laid_out(rows, {}, Tiles::no));
    }
    if (!gated) return;
    add("rows shuffled, but w1 and w3 not interleaved", laid_out(rows, layout::shuffle_rows(kSmall)));
    for (std::uint32_t i = 0; i < kSmall; ++i) swapped_halves[i] = i / 2 + (i % 2 == 0 ? kSmall / 2 : 0);
    add("w1 and w3 interleaved, but rows not shuffled", laid_out(rows, swapped_halves));
    add("w1 and w3 exchanged, and rows not shuffled", laid_out(canonical(exchanged_parts()), {}));
  }

  /// Gate as up and up as gate.
  [[nodiscard]] Tensors exchanged_parts() const {
    Tensors from = setup_.sources;
    for (auto& [name, tensor] : from.map) {
      const std::size_t at = name.find("gate_proj.weight");
      if (at == name.npos) continue;
      std::swap(tensor, from[name.substr(0, at) + "up_proj.weight"]);
    }
    return from;
  }
  void parts() {
    add(experts_ ? "w1 and w3 exchanged" : "gate and up exchanged",
        setup_.made(exchanged_parts()).at(name_).bytes);
  }

  /// Rows of q, k and v, in the order of `rows`, as the layout of a linear layer has them.
  [[nodiscard]] Octets linear(const std::vector<std::uint32_t>& rows) const {
    const std::uint64_t count = rows.size();
    Octets in = right_.bytes;
    if (scales_) {
      in.resize(count * kSmall / quant::kBlock);
      layout::untile_scales_128x4(right_.bytes, count, kSmall / quant::kBlock, in);
    }
    const std::uint64_t row_bytes = in.size() / count;
    Octets out(in.size());
    layout::gather_rows_batched(in, {1, count, row_bytes}, rows, out);
    return scales_ ? layout::tile_scales_128x4_reference(out, count, row_bytes) : out;
  }
  void qkv() {
    // q has two heads for each KV head.
    const std::array<std::uint32_t, 4> begin = {0, 4 * kDim, 6 * kDim, 8 * kDim};
    std::array<std::size_t, 3> order = {0, 1, 2};
    const auto append = [](std::vector<std::uint32_t>& rows, std::uint32_t first, std::uint32_t end) {
      while (first < end) rows.push_back(first++);
    };
    while (std::next_permutation(order.begin(), order.end())) {
      std::vector<std::uint32_t> rows;
      std::string sentence = "q, k and v in the order ";
      for (std::size_t i = 0; i < order.size(); ++i) {
        append(rows, begin[order[i]], begin[order[i] + 1]);
        sentence += std::string(i == 0 ? "" : ", ") + "qkv"[order[i]];
      }
      add(sentence, linear(rows));
    }
    std::vector<std::uint32_t> rows;
    for (std::uint32_t group = 0; group < kHeads; ++group) {
      for (std::size_t part = 0; part < 3; ++part) {
        const std::uint32_t size = (begin[part + 1] - begin[part]) / kHeads;
        append(rows, begin[part] + group * size, begin[part] + (group + 1) * size);
      }
    }
    add("q, k and v rows alternate by KV head group (Megatron's order)", linear(rows));
  }

  void head() {
    add("holds the token embedding, which is another tensor in this model",
        setup_.made(setup_.sources).at("model.embed_tokens.weight").bytes);
    const std::uint64_t row = kRealVocab + random_.below(kPaddedVocab - kRealVocab);
    Octets bytes = right_.bytes;
    bytes[row * kSmall * 2 + random_.below(kSmall * 2)] = 0x3F;
    add("vocabulary padding not zero: rows 96 to 127 are beyond the vocabulary, and 1 of them is not zero, "
        "row " +
            std::to_string(row),
        bytes);
  }

  const Setup& setup_;
  const std::string& name_;
  const Tensors::Tensor& right_;
  Random& random_;
  bool scales_, experts_, quantized_;
  std::vector<Planted> faults_;
};

/// The one diagnosis that does not say every byte: how many rows beyond the vocabulary are not zero, and
/// which is the first.
bool only_padding_differs(const std::string& sentence, const Octets& got, const Octets& right) {
  constexpr std::size_t row_bytes = kSmall * 2;
  std::vector<std::size_t> not_zero;
  for (std::size_t row = 0; row < kPaddedVocab; ++row) {
    const bool same =
        std::memcmp(got.data() + row * row_bytes, right.data() + row * row_bytes, row_bytes) == 0;
    if (!same && row < kRealVocab) return false;
    if (!same) not_zero.push_back(row);
  }
  return !not_zero.empty() && contains(sentence, "and " + std::to_string(not_zero.size()) + " of them") &&
         sentence.ends_with("row " + std::to_string(not_zero.front()));
}

/// What "... of other experts: ..." and "experts A, B are from the previous step" say, carried out.
std::optional<Octets> said_of_experts(const std::string& sentence, const Octets& right,
                                      const Octets& before) {
  if (!contains(sentence, " of other experts:") && !contains(sentence, " of experts ")) return std::nullopt;
  Octets bytes = right;
  const std::size_t size = right.size() / kFew;
  static const std::regex moved("expert (\\d+) has those of (\\d+)( from the previous step)?");
  for (std::sregex_iterator m(sentence.begin(), sentence.end(), moved), end; m != end; ++m) {
    const Octets& from = (*m)[3].matched ? before : right;
    std::memcpy(bytes.data() + std::stoul((*m)[1]) * size, from.data() + std::stoul((*m)[2]) * size, size);
  }
  static const std::regex stale("(?:^\\w+ of experts|;) ([\\d, ]+)(?: are)? from the previous step$");
  std::smatch list;
  if (std::regex_search(sentence, list, stale)) {
    const std::string numbers = list[1];
    static const std::regex number("\\d+");
    for (std::sregex_iterator m(numbers.begin(), numbers.end(), number), end; m != end; ++m) {
      const std::size_t e = std::stoul(m->str());
      std::memcpy(bytes.data() + e * size, before.data() + e * size, size);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE(
    "with no fault or one, an audit is equal exactly when the bytes are, and diagnoses reproduce them") {
  constexpr std::uint64_t models = 24, faults_each = 14;
  std::map<std::string, int> diagnosed;
  for (std::uint64_t seed = 1; seed <= models; ++seed) {
    Random random(seed);
    const Setup setup = random_setup(random);
    Dumped dumped(kSmallConfig);
    dumped.request.recipe.kind = setup.recipe;
    dumped.request.quant = setup.quant;
    dumped.request.layout = setup.shuffled() ? audit::Layout::flashinfer_trtllm : audit::Layout::linear_128x4;
    dumped.sources = setup.file_of(setup.sources);
    dumped.previous = setup.file_of(setup.previous);
    const Tensors right = setup.made(setup.sources), before = setup.made(setup.previous);
    dumped.dump = right;
    CAPTURE(seed);
    {
      const Report report = dumped.audit();
      CAPTURE(audit::to_text(report, 5));
      CHECK(report.equal());
      CHECK(report.judged.size() == right.map.size());
    }
    std::vector<std::string> names;
    for (const auto& [name, tensor] : right.map) {
      const bool likely = contains(name, ".experts.w") || contains(name, "qkv") || name == "lm_head.weight";
      for (int i = 0; i < (likely ? 3 : 1); ++i) names.push_back(name);
    }
    for (std::uint64_t fault = 0; fault < faults_each; ++fault) {
      const std::string& name = names[random.below(names.size())];
      const std::vector<Planted> all = Faults(setup, name, right.at(name), random).all();
      const Planted& planted = all[random.below(all.size())];
      dumped.dump = right;
      dumped.dump[name].bytes = planted.bytes;
      const Report report = dumped.audit();
      CAPTURE(name, planted.sentence, audit::to_text(report, 5));
      const bool equal = planted.bytes == right.at(name).bytes;
      CHECK(report.equal() == equal);
      if (equal || report.equal()) continue;
      CHECK(report.findings.size() == 1);
      const std::string said = diagnosis_of(report, name);
      ++diagnosed[report.findings[0].diagnosis->name];
      if (said == "unknown") {
        CHECK(std::none_of(all.begin(), all.end(), [&](const Planted& one) {
          return one.explainable && one.bytes == planted.bytes;
        }));
        continue;
      }
      if (said.starts_with("vocabulary padding not zero")) {
        CHECK(only_padding_differs(said, planted.bytes, right.at(name).bytes));
        continue;
      }
      const auto known =
          std::find_if(all.begin(), all.end(), [&](const Planted& one) { return one.sentence == said; });
      const std::optional<Octets> carried_out =
          known != all.end() ? known->bytes
                             : said_of_experts(said, right.at(name).bytes, before.at(name).bytes);
      REQUIRE(carried_out.has_value());
      CHECK(*carried_out == planted.bytes);
    }
  }
  // Else the faults above would prove little.
  CHECK(diagnosed.size() >= 12);
  CHECK(diagnosed[""] >= 10);
}
