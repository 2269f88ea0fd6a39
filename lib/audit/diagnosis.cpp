// Known ways of being wrong, tried on a tensor that differs until one reproduces all of its bytes.
#include "audit/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "refit/base/digest.hpp"

namespace refit::audit {
namespace {

const EngineRequest& request_of(const Case& that) {
  return that.renderer.expectation().request;
}
const Parameter& parameter_of(const Case& that) {
  return *that.target.parameter;
}
bool is_scales(const Case& that) {
  return that.target.role == Role::scales;
}
std::size_t parts_of(const Case& that) {
  const Parameter& parameter = parameter_of(that);
  return parameter.matrices.empty() ? 0 : parameter.matrices.front().size();
}
Split split_of(const Case& that) {
  return parts_of(that) == 0 ? Split::none : parameter_of(that).matrices.front().front().split;
}
/// The right way with one thing changed.
template <typename Change>
Guess changed(const Case& that, std::string sentence, const Change& change) {
  Guess guess{std::move(sentence), that.right};
  change(guess.way);
  return guess;
}

// --- not written at all, or not now ---

bool has_previous(const Case& that) {
  return that.renderer.previous() != nullptr;
}
std::vector<Guess> from_previous(const Case& that) {
  return {changed(that, "tensor is from the previous step", [](Way& way) { way.previous = true; })};
}

/// Weights may be constant too: what else explains such a tensor is tried before.
bool is_constant(const Case& that) {
  const Bytes dump = that.dump;
  return !dump.empty() && std::memcmp(dump.data(), dump.data() + 1, dump.size() - 1) == 0;
}
std::vector<Guess> never_written(const Case& that) {
  const auto value = std::to_integer<std::uint8_t>(that.dump.front());
  return {changed(that, fmt::format("never written: every byte is {:#04x}", value),
                  [&](Way& way) { way.constant = value; })};
}

// --- the order of parts and rows ---

bool has_parts(const Case& that) {
  return parts_of(that) == 2 || parts_of(that) == 3;
}
std::string exchanged_sentence(const Case& that, const std::vector<std::uint32_t>& order) {
  if (order.size() == 2) return parameter_of(that).experts ? "w1 and w3 exchanged" : "gate and up exchanged";
  constexpr std::array<std::string_view, 3> letters = {"q", "k", "v"};
  return fmt::format("q, k and v in the order {}, {}, {}", letters[order[0]], letters[order[1]],
                     letters[order[2]]);
}
std::vector<Guess> parts_exchanged(const Case& that) {
  std::vector<std::uint32_t> order(parts_of(that));
  std::iota(order.begin(), order.end(), 0u);
  std::vector<Guess> guesses;
  while (std::next_permutation(order.begin(), order.end())) {
    guesses.push_back(
        changed(that, exchanged_sentence(that, order), [&](Way& way) { way.part_order = order; }));
    if (!that.target.shuffled) continue;
    guesses.push_back(
        changed(that, exchanged_sentence(that, order) + ", and rows not shuffled", [&](Way& way) {
          way.part_order = order;
          way.row_order = RowOrder::canonical;
        }));
  }
  return guesses;
}

bool is_shuffled(const Case& that) {
  return that.target.shuffled;
}
std::vector<Guess> not_shuffled(const Case& that) {
  const auto order = [&](RowOrder rows, const char* sentence) {
    return changed(that, sentence, [rows](Way& way) { way.row_order = rows; });
  };
  std::vector<Guess> guesses = {order(
      RowOrder::canonical, is_scales(that) ? "scales not permuted with the rows" : "rows not shuffled")};
  if (!parameter_of(that).gated) return guesses;
  guesses.push_back(order(RowOrder::shuffle_only, "rows shuffled, but w1 and w3 not interleaved"));
  guesses.push_back(order(RowOrder::interleave_only, "w1 and w3 interleaved, but rows not shuffled"));
  return guesses;
}

bool could_be_shuffled(const Case& that) {
  return !that.target.shuffled && parameter_of(that).experts && parameter_of(that).quantized;
}
std::vector<Guess> shuffled_anyway(const Case& that) {
  return {changed(that, "rows shuffled for the TRT-LLM kernels, expected in the order of the checkpoint",
                  [](Way& way) { way.row_order = RowOrder::engine; })};
}

std::vector<Guess> shuffled_twice(const Case& that) {
  std::vector<Guess> guesses = {changed(that, "shuffled twice (stale layout from the previous refit)",
                                        [](Way& way) { way.row_order = RowOrder::engine_twice; })};
  if (!has_previous(that)) return guesses;
  guesses.push_back(changed(
      that, "shuffled twice, and from the previous step (not rewritten before the shuffle)", [](Way& way) {
        way.row_order = RowOrder::engine_twice;
        way.previous = true;
      }));
  return guesses;
}

bool can_be_transposed(const Case& that) {
  return !is_scales(that) && parts_of(that) > 0 && parameter_of(that).matrices.front().front().cols > 1;
}
std::vector<Guess> transposed(const Case& that) {
  return {changed(that, "transposed", [](Way& way) { way.transposed = true; })};
}

// --- scales and rounding ---

bool is_scales_target(const Case& that) {
  return is_scales(that);
}
std::vector<Guess> other_form(const Case& that) {
  std::vector<Guess> guesses;
  const bool tiled = that.right.form == ScaleForm::tiled_128x4;
  const auto add = [&](ScaleForm form, RowOrder order, std::string sentence) {
    guesses.push_back(changed(that, std::move(sentence), [&](Way& way) {
      way.form = form;
      way.row_order = order;
    }));
  };
  if (!tiled) {
    add(ScaleForm::tiled_128x4, that.right.row_order, "scale rows in 128x4, not row-major order");
    if (could_be_shuffled(that)) {
      add(ScaleForm::tiled_128x4, RowOrder::engine,
          "scale rows in 128x4 and permuted for the TRT-LLM kernels, not as in the checkpoint");
    }
    return guesses;
  }
  for (const ScaleForm form : {ScaleForm::row_major, ScaleForm::row_major_padded}) {
    add(form, that.right.row_order, "scale rows in row-major order, not 128x4");
    if (!that.target.shuffled) continue;
    add(form, RowOrder::canonical,
        "scale rows in row-major order, not 128x4, and not permuted with the rows");
  }
  return guesses;
}

bool is_quantized_here(const Case& that) {
  return parameter_of(that).quantized && that.renderer.carried(that.target) != Renderer::Carried::all;
}
bool has_zero_scale(const Case& that) {
  return parameter_of(that).quantized;
}
std::string zero_scale_sentence(const Case& that, quant::ZeroScale got) {
  if (got == quant::ZeroScale::keep) {
    return is_scales(that) ? "byte 0 not replaced" : "elements of blocks at scale byte 0 not zeroed";
  }
  return is_scales(that) ? "byte 0 replaced by 1, expected kept"
                         : "elements of blocks at scale byte 0 zeroed";
}
std::vector<Guess> other_rounding(const Case& that) {
  std::vector<Guess> same_zero, other_zero;
  for (std::size_t i = 0; i < kModes; ++i) {
    const Mode by = mode(i);
    const bool rounding = by.rounding != that.right.quant.rounding;
    const bool zero = by.zero_scale != that.right.quant.zero_scale;
    if (!rounding) continue;
    std::string sentence = fmt::format("rounded {}, expected {}", quant::name_of(by.rounding),
                                       quant::name_of(that.right.quant.rounding));
    if (zero) sentence += ", and " + zero_scale_sentence(that, by.zero_scale);
    (zero ? other_zero : same_zero).push_back(changed(that, std::move(sentence), [&](Way& way) {
      way.quant.rounding = by.rounding;
      way.quant.zero_scale = by.zero_scale;
    }));
  }
  same_zero.insert(same_zero.end(), other_zero.begin(), other_zero.end());
  return same_zero;
}
std::vector<Guess> other_zero_scale(const Case& that) {
  const auto other =
      that.right.quant.zero_scale == quant::ZeroScale::one ? quant::ZeroScale::keep : quant::ZeroScale::one;
  const Renderer::Carried carried = that.renderer.carried(that.target);
  std::vector<Guess> guesses;
  if (carried != Renderer::Carried::all) {
    guesses.push_back(
        changed(that, zero_scale_sentence(that, other), [&](Way& way) { way.quant.zero_scale = other; }));
  }
  if (carried != Renderer::Carried::none && is_scales(that)) {
    guesses.push_back(changed(that, zero_scale_sentence(that, quant::ZeroScale::one),
                              [](Way& way) { way.byte_0_replaced = true; }));
  }
  return guesses;
}

bool is_f32(const Case& that) {
  return parameter_of(that).dtype == DType::f32;
}
std::vector<Guess> through_bf16(const Case& that) {
  const std::string what = parameter_of(that).kind == model::Kind::router_bias
                               ? "router bias went through BF16"
                               : "went through BF16";
  return {changed(that, what, [](Way& way) { way.through_bf16 = true; }),
          changed(that, what + ", and is stored as BF16", [](Way& way) { way.cast_to = DType::bf16; })};
}

// --- ranks ---

bool is_split(const Case& that) {
  return request_of(that).tp_size > 1 && split_of(that) != Split::none;
}
std::vector<Guess> other_tp_rank(const Case& that) {
  std::vector<Guess> guesses;
  for (std::uint32_t rank = 0; rank < request_of(that).tp_size; ++rank) {
    if (rank == that.right.tp_rank) continue;
    guesses.push_back(changed(that, fmt::format("weights of TP rank {} on rank {}", rank, that.right.tp_rank),
                              [&](Way& way) { way.tp_rank = rank; }));
  }
  return guesses;
}
bool is_spread(const Case& that) {
  return request_of(that).ep_size > 1 && parameter_of(that).experts;
}
std::vector<Guess> other_ep_rank(const Case& that) {
  std::vector<Guess> guesses;
  for (std::uint32_t rank = 0; rank < request_of(that).ep_size; ++rank) {
    if (rank == that.right.ep_rank) continue;
    guesses.push_back(changed(that, fmt::format("weights of EP rank {} on rank {}", rank, that.right.ep_rank),
                              [&](Way& way) { way.ep_rank = rank; }));
  }
  return guesses;
}

bool is_cut_in_parts(const Case& that) {
  return is_split(that) && has_parts(that);
}
std::vector<Guess> cut_evenly(const Case& that) {
  return {changed(that, "the joined tensor was cut evenly, not part by part",
                  [](Way& way) { way.cut = Cut::whole; })};
}
bool is_qkv(const Case& that) {
  return parts_of(that) == 3 && request_of(that).model.dims.kv_heads % request_of(that).tp_size == 0;
}
std::vector<Guess> head_groups(const Case& that) {
  return {changed(that, "q, k and v rows alternate by KV head group (Megatron's order)",
                  [](Way& way) { way.cut = Cut::head_groups; })};
}

// --- vocabulary ---

bool is_vocabulary(const Case& that) {
  return that.right.vocab_rows > 0;
}

/// Rows of the dump: those of the vocabulary, and what is behind them.
struct VocabularyRows {
  std::uint64_t row_bytes = 0, rows = 0, real = 0;
  std::uint64_t not_zero = 0, first_not_zero = 0;
};
VocabularyRows vocabulary_rows(const Case& that) {
  const Part& part = parameter_of(that).matrices.front().front();
  VocabularyRows found{.row_bytes = part.cols * size_of(Renderer::dtype(that.target, that.right))};
  if (found.row_bytes == 0 || that.dump.size() % found.row_bytes != 0) return {};
  found.rows = that.dump.size() / found.row_bytes;
  const std::uint64_t first = that.right.tp_rank * that.right.vocab_rows;
  found.real = first < part.rows ? std::min(part.rows - first, that.right.vocab_rows) : 0;
  for (std::uint64_t row = found.real; row < found.rows; ++row) {
    const Bytes bytes = that.dump.subspan(row * found.row_bytes, found.row_bytes);
    const bool zero = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    if (!zero && found.not_zero++ == 0) found.first_not_zero = row;
  }
  return found;
}
std::string not_zero_clause(const VocabularyRows& found) {
  if (found.not_zero == 1) return fmt::format("1 of them is not zero, row {}", found.first_not_zero);
  return fmt::format("{} of them are not zero, the first is row {}", found.not_zero, found.first_not_zero);
}

std::vector<Guess> wrong_padding(const Case& that) {
  const VocabularyRows found = vocabulary_rows(that);
  const std::uint64_t expected = that.right.vocab_rows;
  if (found.rows <= found.real) return {};
  const std::string beyond =
      found.rows - found.real == 1
          ? fmt::format("row {} is beyond the vocabulary", found.real)
          : fmt::format("rows {} to {} are beyond the vocabulary", found.real, found.rows - 1);
  std::vector<Guess> guesses;
  std::string sentence;
  if (found.rows == expected) {
    if (found.not_zero == 0) return {};
    sentence = fmt::format("vocabulary padding not zero: {}, and {}", beyond, not_zero_clause(found));
  } else {
    // How ranks cut another number of rows is not known.
    if (request_of(that).tp_size > 1) return {};
    sentence = found.rows > expected
                   ? fmt::format("vocabulary padding not trimmed: {} rows, the vocabulary has {}", found.rows,
                                 found.real)
                   : fmt::format("vocabulary of {} rows padded to {}, expected {}", found.real, found.rows,
                                 expected);
    // Zeros, or the padding that the source was saved with.
    guesses.push_back(changed(that, sentence, [&](Way& way) { way.vocab_rows = found.rows; }));
    sentence += fmt::format("; {}, and {}", beyond,
                            found.not_zero == 0 ? "all of them are zero" : not_zero_clause(found));
  }
  // Nobody but the trainer knows what its padding holds: the rows of the vocabulary are all there is to
  // compare.
  guesses.push_back({std::move(sentence), that.right, found.real * found.row_bytes});
  return guesses;
}
std::uint32_t embedding_of(const Case& that) {
  const auto& sources = that.renderer.expectation().plan.sources;
  const auto found = std::find_if(sources.begin(), sources.end(), [](const plan::Source& source) {
    return source.kind == model::Kind::embedding;
  });
  return found == sources.end() ? plan::kNone : static_cast<std::uint32_t>(found - sources.begin());
}
bool is_head(const Case& that) {
  const auto& sources = that.renderer.expectation().plan.sources;
  if (parameter_of(that).kind != model::Kind::lm_head || embedding_of(that) == plan::kNone) return false;
  const TensorSpec& head = sources[parameter_of(that).matrices.front().front().source].spec;
  const TensorSpec& embedding = sources[embedding_of(that)].spec;
  return head.dtype == embedding.dtype && head.shape == embedding.shape;
}
std::vector<Guess> head_is_embedding(const Case& that) {
  return {changed(that, "holds the token embedding, which is another tensor in this model",
                  [&](Way& way) { way.other_source = embedding_of(that); })};
}

// --- experts, by what they hold ---

/// One digest for each matrix of the dump, or of what a way makes.
template <typename BytesOf>
std::vector<std::uint64_t> digests(const std::vector<Range>& ranges, std::size_t matrices,
                                   const BytesOf& bytes_of) {
  std::vector<std::uint64_t> sums(matrices);
  for (const Range& range : ranges) {
    sums[range.matrix] += mix64(digest(bytes_of(range)) + range.row);
  }
  return sums;
}

class ExpertSearch {
 public:
  explicit ExpertSearch(const Case& that)
      : that_(that),
        matrices_(that.renderer.local_matrices(that.target)),
        first_(that.renderer.first_matrix(that.target, that.right)),
        ranges_(that.renderer.ranges(that.target, that.right)) {}

  std::vector<Guess> guesses() {
    if (ranges_.empty() || ranges_.back().begin + ranges_.back().bytes != that_.dump.size()) return {};
    got_ = digests(ranges_, matrices_,
                   [&](const Range& range) { return that_.dump.subspan(range.begin, range.bytes); });
    for (std::uint32_t m = 0; m < matrices_; ++m) learn(first_ + m, false);
    if (!find_all() && has_previous(that_)) {
      for (std::uint32_t m = 0; m < matrices_; ++m) learn(first_ + m, true);
    }
    // Under expert parallelism another rank's.
    if (!find_all()) {
      for (std::uint32_t e = 0; e < parameter_of(that_).matrices.size(); ++e) learn(e, false);
    }
    if (!find_all()) return {};
    Guess guess{sentence(), that_.right};
    guess.way.experts = found_;
    return {guess};
  }

 private:
  using Expert = Way::Expert;

  void learn(std::uint32_t expert, bool previous) {
    Way way = that_.right;
    way.experts.assign(matrices_, {expert, previous});
    std::vector<Range> one;
    for (const Range& range : ranges_) {
      if (range.matrix == 0) one.push_back(range);
    }
    const std::uint64_t sum = digests(one, 1, [&](const Range& range) {
      rendered_ = that_.renderer.render(that_.target, way, range);
      return std::as_bytes(std::span(rendered_));
    })[0];
    known_.emplace(sum, Expert{expert, previous});
    if (expert < first_ || expert - first_ >= matrices_) return;
    (previous ? own_before_ : own_)[expert - first_] = sum;
  }

  /// Sets found_ when every matrix holds some known expert.
  bool find_all() {
    found_.clear();
    for (std::uint32_t m = 0; m < matrices_; ++m) {
      // Experts may be alike: its own explains more than another's.
      if (own_[m] == got_[m]) {
        found_.push_back({first_ + m, false});
      } else if (const auto before = own_before_.find(m);
                 before != own_before_.end() && before->second == got_[m]) {
        found_.push_back({first_ + m, true});
      } else if (const auto known = known_.find(got_[m]); known != known_.end()) {
        found_.push_back(known->second);
      } else {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] std::string sentence() const {
    std::vector<std::uint32_t> moved, stale;
    for (std::uint32_t m = 0; m < matrices_; ++m) {
      const Expert& expert = found_[m];
      if (expert.previous && expert.number == first_ + m) {
        stale.push_back(expert.number);
      } else if (expert.previous || expert.number != first_ + m) {
        moved.push_back(m);
      }
    }
    const std::string_view what = is_scales(that_) ? "scales" : "values";
    if (moved.empty()) {
      return fmt::format("{} of {} {} are from the previous step", what,
                         stale.size() == 1 ? "expert" : "experts", fmt::join(stale, ", "));
    }
    // By what they hold, not by the number that was found: a third expert may be like one of the two.
    if (stale.empty() && moved.size() == 2 && got_[moved[0]] == own_.at(moved[1]) &&
        got_[moved[1]] == own_.at(moved[0])) {
      return fmt::format("{} of experts {} and {} exchanged", what, first_ + moved[0], first_ + moved[1]);
    }
    constexpr std::size_t shown = 4;
    std::string text = fmt::format("{} of other experts:", what);
    for (std::size_t i = 0; i < std::min(shown, moved.size()); ++i) {
      const Expert& holds = found_[moved[i]];
      text += fmt::format("{} expert {} has those of {}{}", i == 0 ? "" : ",", first_ + moved[i],
                          holds.number, holds.previous ? " from the previous step" : "");
    }
    if (moved.size() > shown) text += fmt::format(", and {} more", moved.size() - shown);
    if (!stale.empty()) text += fmt::format("; {} from the previous step", fmt::join(stale, ", "));
    return text;
  }

  const Case& that_;
  std::uint32_t matrices_, first_;
  std::vector<Range> ranges_;
  std::vector<std::uint8_t> rendered_;
  std::unordered_map<std::uint64_t, Expert> known_;
  std::vector<std::uint64_t> got_;                                     ///< of each matrix of the dump
  std::unordered_map<std::uint32_t, std::uint64_t> own_, own_before_;  ///< of each matrix, now and then
  std::vector<Expert> found_;
};

bool is_stacked(const Case& that) {
  return parameter_of(that).experts && that.renderer.local_matrices(that.target) > 0;
}
std::vector<Guess> experts_exchanged(const Case& that) {
  return ExpertSearch(that).guesses();
}

// --- trying ---

bool reproduces(const Case& that, const Guess& guess) {
  const std::vector<Range> ranges = that.renderer.ranges(that.target, guess.way);
  if (ranges.empty()) return false;
  const std::uint64_t bytes = ranges.back().begin + ranges.back().bytes;
  const std::uint64_t known = guess.prefix.value_or(bytes);
  if (guess.prefix ? known > std::min<std::uint64_t>(bytes, that.dump.size()) : bytes != that.dump.size()) {
    return false;
  }
  return std::all_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    if (range.begin >= known) return true;
    const auto expected = that.renderer.render(that.target, guess.way, range);
    const std::uint64_t compared = std::min<std::uint64_t>(expected.size(), known - range.begin);
    return std::memcmp(expected.data(), that.dump.data() + range.begin, compared) == 0;
  });
}

}  // namespace

const std::vector<Hypothesis>& all_hypotheses() {
  static const std::vector<Hypothesis> hypotheses = {
      {"previous-step", has_previous, from_previous},
      {"parts-exchanged", has_parts, parts_exchanged},
      {"rows-not-shuffled", is_shuffled, not_shuffled},
      {"rows-shuffled", could_be_shuffled, shuffled_anyway},
      {"shuffled-twice", is_shuffled, shuffled_twice},
      {"scale-layout", is_scales_target, other_form},
      {"zero-scale", has_zero_scale, other_zero_scale},
      {"rounding", is_quantized_here, other_rounding},
      {"through-bf16", is_f32, through_bf16},
      {"tp-rank", is_split, other_tp_rank},
      {"ep-rank", is_spread, other_ep_rank},
      {"cut-evenly", is_cut_in_parts, cut_evenly},
      {"head-groups", is_qkv, head_groups},
      {"vocabulary-padding", is_vocabulary, wrong_padding},
      {"head-is-embedding", is_head, head_is_embedding},
      {"transposed", can_be_transposed, transposed},
      {"never-written", is_constant, never_written},
      {"experts-exchanged", is_stacked, experts_exchanged},
  };
  return hypotheses;
}

Diagnosis diagnose(const Case& that) {
  // Right bytes under another dtype or shape: a guess that changes nothing here would seem to explain them.
  if (reproduces(that, {"", that.right})) return {.name = "", .sentence = "unknown"};
  for (const Hypothesis& hypothesis : all_hypotheses()) {
    if (!hypothesis.applies(that)) continue;
    for (const Guess& guess : hypothesis.guesses(that)) {
      if (reproduces(that, guess)) return {.name = std::string(hypothesis.name), .sentence = guess.sentence};
    }
  }
  return {.name = "", .sentence = "unknown"};
}

}  // namespace refit::audit
