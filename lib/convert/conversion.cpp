// From a selection to targets: plain tensors one by one, routed experts as stacks where the layout wants
// them.
#include "refit/convert/conversion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "convert/experts.hpp"
#include "convert/selection.hpp"
#include "convert/slice.hpp"
#include "convert/source.hpp"
#include "refit/base/error.hpp"
#include "refit/layout/scale_128x4.hpp"

namespace refit::convert {
namespace {

constexpr std::array<std::pair<Format, std::string_view>, 2> kFormats = {
    {{Format::mxfp8, "mxfp8"}, {Format::bf16, "bf16"}}};
constexpr std::array<std::pair<Layout, std::string_view>, 3> kLayouts = {
    {{Layout::checkpoint, "checkpoint"},
     {Layout::linear_128x4, "linear-128x4"},
     {Layout::flashinfer_trtllm, "flashinfer-trtllm"}}};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) noexcept {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "unknown";
}

template <class Value, class Table>
std::optional<Value> value_in(const Table& table, std::string_view text) noexcept {
  for (const auto& [value, name] : table) {
    if (name == text) return value;
  }
  return std::nullopt;
}

bool makes_scales(Op op) {
  return op == Op::quantize || op == Op::carry;
}

DType dtype_after(Op op, DType before) {
  if (makes_scales(op)) return DType::f8_e4m3;
  return op == Op::copy ? before : DType::bf16;
}

class Builder {
 public:
  Builder(const Source& source, const Options& options)
      : source_(source), options_(options), slicer_(source, options), selection_(select(source, options)) {
    out_.quant = options.quant;
    out_.recipe = selection_.recipe;
    out_.notes = slicer_.notes();
  }

  Conversion build() {
    check_complete(source_, out_.warnings);
    std::unordered_map<std::uint32_t, const Stack*> stack_at;  // by its first member
    std::vector<bool> stacked(source_.tensors.size());
    std::vector<Stack> stacks;
    if (options_.layout == Layout::flashinfer_trtllm) stacks = expert_stacks(source_, selection_);
    for (const Stack& stack : stacks) {
      stack_at.emplace(stack.first, &stack);
      for (const auto& members : stack.members) {
        for (const std::uint32_t member : members) stacked[member] = true;
      }
    }
    for (std::uint32_t i = 0; i < source_.tensors.size(); ++i) {
      ++out_.tensors[static_cast<std::size_t>(selection_.ops[i])];
      if (const auto stack = stack_at.find(i); stack != stack_at.end()) add_stack(*stack->second);
      if (!stacked[i]) add_tensor(i);
    }
    note_modules();
    note_casts();
    warn_of_nothing();
    check_names();
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool tiled(Op op) const { return makes_scales(op) && options_.layout != Layout::checkpoint; }

  /// Stored row -> canonical row, shared by all targets of one size.
  std::uint32_t order_of(const std::string& target, std::uint64_t rows, bool w13, bool gated) {
    const auto [found, is_new] =
        orders_.emplace(std::tuple(rows, w13, gated), static_cast<std::uint32_t>(out_.orders.size()));
    if (!is_new) return found->second;
    if (rows % 128 != 0 || rows > std::numeric_limits<std::uint32_t>::max()) {
      fail_input(
          fmt::format("{}: {} has {} rows an expert, and the layout flashinfer-trtllm needs a multiple of "
                      "128; the layouts "
                      "checkpoint and linear-128x4 take any number of rows",
                      source_.checkpoint->path(), target, rows));
    }
    const auto rows32 = static_cast<std::uint32_t>(rows);
    out_.orders.push_back(w13 ? layout::trtllm_w13_rows(rows32, gated) : layout::trtllm_w2_rows(rows32));
    return found->second;
  }

  /// Appends the outputs of a target whose values have this shape, and the target.
  void add_target(Target target, std::string name, Shape shape, DType dtype) {
    target.values = static_cast<std::uint32_t>(out_.outputs.size());
    if (makes_scales(target.op)) {
      target.scales = target.values + 1;
      target.tiled = tiled(target.op);
    }
    out_.outputs.push_back({.name = name, .shape = shape, .dtype = dtype});
    if (target.scales != kNone) {
      const std::uint64_t scale_cols = target.cols / quant::kBlock;
      if (target.tiled) {
        const std::uint64_t bytes = layout::scale_128x4_bytes(target.matrix_rows, scale_cols);
        shape = shape.size() == 3 ? Shape{shape[0], bytes} : Shape{bytes};
      } else {
        shape.back() = scale_cols;
      }
      out_.outputs.push_back(
          {.name = name + options_.scale_suffix, .shape = std::move(shape), .dtype = DType::u8});
    }
    for (const Piece& piece : target.pieces) {
      if (piece.source == kNone) continue;
      const std::uint64_t elements = piece.rows * target.cols;
      out_.source_bytes += elements * size_of(piece.dtype);
      if (piece.scales != kNone) out_.source_bytes += elements / quant::kBlock;
    }
    out_.targets.push_back(std::move(target));
  }

  static void append_pieces(const SourceTensor& tensor, const Slice& slice, std::uint64_t matrix,
                            std::uint64_t row_begin, std::vector<Piece>& pieces) {
    for (const Slice::Rows& rows : slice.rows) {
      if (rows.count == 0) continue;
      pieces.push_back({.source = tensor.index,
                        .scales = tensor.scales,
                        .dtype = tensor.spec->dtype,
                        .row = matrix * slice.source_rows + rows.begin,
                        .rows = rows.count,
                        .col = slice.col,
                        .stride = tensor.spec->cols(),
                        .row_begin = row_begin});
      row_begin += rows.count;
    }
    if (slice.zero_rows > 0) {
      pieces.push_back({.dtype = tensor.spec->dtype, .rows = slice.zero_rows, .row_begin = row_begin});
    }
  }

  /// The name and order of a slab of experts that the layout wants as w13 or w2; else its own.
  std::pair<std::string, std::uint32_t> slab_place(const SourceTensor& tensor, Op op, std::uint64_t rows) {
    const std::string& name = tensor.spec->name;
    const bool w13 = tensor.model != nullptr && tensor.model->kind == model::Kind::expert_gate_up_slab;
    const bool w2 = tensor.model != nullptr && tensor.model->kind == model::Kind::expert_down_slab;
    const std::size_t experts = name.rfind(".experts.");
    if (options_.layout != Layout::flashinfer_trtllm || !makes_scales(op) || !(w13 || w2) ||
        experts == std::string::npos) {
      return {name, kNone};
    }
    std::string stacked = name.substr(0, experts) + (w13 ? ".experts.w13_weight" : ".experts.w2_weight");
    const std::uint32_t order = order_of(stacked, rows, w13, w13 && source_.model->dims.gated_experts);
    return {std::move(stacked), order};
  }

  void add_tensor(std::uint32_t index) {
    const SourceTensor& tensor = source_.tensors[index];
    const Op op = selection_.ops[index];
    const Slice slice = slicer_.slice(tensor, op == Op::quantize);
    const Shape& before = tensor.spec->shape;
    Shape shape = before;
    const std::uint64_t rows = slice.matrix_rows();
    if (before.size() == 1) shape = {rows};
    if (before.size() == 2) shape = {rows, slice.cols};
    if (before.size() == 3) shape = {slice.matrices, rows, slice.cols};

    Target target{
        .op = op, .matrices = slice.matrices, .matrix_rows = rows, .cols = slice.cols, .pieces = {}};
    if (shape == before && slice.zero_rows == 0 && (op == Op::copy || op == Op::cast)) {
      // Element by element: the work can be divided anywhere.
      target.matrices = 1;
      target.matrix_rows = num_elements(shape);
      target.cols = 1;
      target.pieces = {
          {.source = tensor.index, .dtype = tensor.spec->dtype, .rows = target.matrix_rows, .stride = 1}};
    } else if (num_elements(shape) > 0) {  // else there may be 2^63 matrices
      for (std::uint64_t m = 0; m < slice.matrices; ++m) append_pieces(tensor, slice, m, 0, target.pieces);
    }
    auto [name, order] = slab_place(tensor, op, rows);
    target.order = order;
    add_target(std::move(target), std::move(name), std::move(shape), dtype_after(op, tensor.spec->dtype));
  }

  void add_stack(const Stack& stack) {
    const bool gated = stack.gated();
    const auto& gate = stack.members[0];
    const auto& up = stack.members[1];
    const auto& down = stack.members[2];
    std::vector<std::vector<std::uint32_t>> w13(up.size()), w2(down.size());
    for (std::size_t e = 0; e < up.size(); ++e) {
      w13[e] = gated ? std::vector{gate[e], up[e]} : std::vector{up[e]};
      w2[e] = {down[e]};
    }
    add_stacked(stack, stack.name + ".w13_weight", w13, true);
    add_stacked(stack, stack.name + ".w2_weight", w2, false);
  }

  /// For each expert the tensors that lie one below the other.
  void add_stacked(const Stack& stack, const std::string& name,
                   const std::vector<std::vector<std::uint32_t>>& experts, bool w13) {
    Target target{.op = stack.op, .matrices = experts.size(), .pieces = {}};
    for (const auto& parts : experts) {
      std::uint64_t row_begin = 0;
      for (const std::uint32_t part : parts) {
        const SourceTensor& tensor = source_.tensors[part];
        const Slice slice = slicer_.slice(tensor, stack.op == Op::quantize);
        append_pieces(tensor, slice, 0, row_begin, target.pieces);
        row_begin += slice.matrix_rows();
        target.cols = slice.cols;
      }
      target.matrix_rows = row_begin;
    }
    target.order = order_of(name, target.matrix_rows, w13, stack.gated());
    Shape shape = {target.matrices, target.matrix_rows, target.cols};
    add_target(std::move(target), name, std::move(shape), DType::f8_e4m3);
  }

  /// vLLM builds every linear layer for MXFP8 unless its module is named. Embeddings are no linear layers.
  void note_modules() {
    if (out_.count(Op::quantize) + out_.count(Op::carry) == 0) return;
    constexpr std::string_view suffix = ".weight";
    std::unordered_set<std::string> seen;
    const auto keep = [&](std::string module) {
      if (seen.insert(module).second) out_.kept_modules.push_back(std::move(module));
    };
    std::map<std::string, std::array<bool, 2>> experts_of;  // by module: some kept, some made MXFP8
    for (std::uint32_t i = 0; i < source_.tensors.size(); ++i) {
      const SourceTensor& tensor = source_.tensors[i];
      const std::string& name = tensor.spec->name;
      const bool made = makes_scales(selection_.ops[i]);
      const std::size_t experts = name.rfind(".experts.");
      if (experts != std::string::npos) experts_of[name.substr(0, experts) + ".experts"][made ? 1 : 0] = true;
      if (made || (tensor.model != nullptr && tensor.model->kind == model::Kind::embedding)) continue;
      if (experts != std::string::npos) {
        keep(name.substr(0, experts) + ".experts");
      } else if (tensor.spec->shape.size() == 2 && name.ends_with(suffix)) {
        keep(name.substr(0, name.size() - suffix.size()));
      }
    }
    for (const auto& [module, found] : experts_of) {
      // A file by itself is nobody's to load.
      if (!found[0] || !found[1] || !source_.checkpoint->directory()) continue;
      out_.warnings.push_back(fmt::format(
          "{}: some experts are MXFP8 and some are not; vLLM loads all of a layer in one form", module));
    }
    // Tied to the embedding it has no tensor, but still is a module.
    if (source_.model != nullptr && source_.model->dims.tied_embeddings) keep("lm_head");
  }

  void note_casts() {
    std::uint64_t wider = 0;
    for (std::size_t i = 0; i < source_.tensors.size(); ++i) {
      wider += selection_.ops[i] == Op::quantize && source_.tensors[i].spec->dtype != DType::bf16;
    }
    if (wider > 0) {
      out_.notes.push_back(fmt::format(
          "{} tensors of F32 or F16 were rounded to BF16 (to nearest even) before quantizing", wider));
    }
  }

  /// Asked for MXFP8, and none comes of it.
  void warn_of_nothing() {
    if (options_.format != Format::mxfp8 || selection_.recipe == model::RecipeKind::none) return;
    if (out_.count(Op::quantize) + out_.count(Op::carry) > 0) return;
    out_.warnings.push_back(fmt::format(
        "nothing in the result is MXFP8: {} {}{}", source_.checkpoint->path(),
        selection_.recipe
            ? fmt::format("has no tensor that the recipe {} chooses", model::name_of(*selection_.recipe))
            : "has no BF16, F16 or F32 matrix 'weight' with rows of a multiple of 32",
        options_.ignore.empty() ? "" : " and --ignore leaves"));
  }

  void check_names() const {
    std::unordered_set<std::string_view> names;
    for (const TensorSpec& output : out_.outputs) {
      if (names.insert(output.name).second) continue;
      fail_input(
          fmt::format("{}: two tensors of the result would be named {}; --scale-suffix {} can be changed",
                      source_.checkpoint->path(), output.name, options_.scale_suffix));
    }
  }

  const Source& source_;
  const Options& options_;
  Slicer slicer_;
  Selection selection_;
  Conversion out_;
  std::map<std::tuple<std::uint64_t, bool, bool>, std::uint32_t> orders_;
};

}  // namespace

std::string_view name_of(Format format) noexcept {
  return name_in(kFormats, format);
}
std::string_view name_of(Layout layout) noexcept {
  return name_in(kLayouts, layout);
}
std::optional<Format> parse_format(std::string_view name) noexcept {
  return value_in<Format>(kFormats, name);
}
std::optional<Layout> parse_layout(std::string_view name) noexcept {
  return value_in<Layout>(kLayouts, name);
}

std::uint64_t Conversion::output_bytes() const {
  std::uint64_t sum = 0;
  for (const TensorSpec& output : outputs) sum += output.bytes();
  return sum;
}

Conversion conversion_of(const checkpoint::Checkpoint& checkpoint, const model::Inventory* model,
                         const Options& options) {
  if (options.format == Format::bf16 && options.layout != Layout::checkpoint) {
    fail_input(fmt::format("--layout {} is a layout of MXFP8; --format bf16 goes with --layout checkpoint",
                           name_of(options.layout)));
  }
  const Source source = read_source(checkpoint, model);
  return Builder(source, options).build();
}

}  // namespace refit::convert
