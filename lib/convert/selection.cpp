// Recipes, selections, and the rule for files that nothing is known of.
#include "convert/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "checkpoint/tensor_names.hpp"
#include "convert/patterns.hpp"
#include "refit/base/error.hpp"

namespace refit::convert {
namespace {

bool can_become_bf16(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
}

bool is_matrix(const TensorSpec& spec) {
  return spec.shape.size() == 2 || spec.shape.size() == 3;
}

bool keeps_fp32(const SourceTensor& tensor) {
  if (tensor.model != nullptr) return tensor.model->spec.dtype == DType::f32;
  return checkpoint::is_router_bias(tensor.spec->name);
}

void check_quantizable(const Source& source, const SourceTensor& tensor) {
  const TensorSpec& spec = *tensor.spec;
  const auto refuse = [&](const std::string& why) {
    fail_input(fmt::format("{} {} cannot be quantized to MXFP8: {}", source.place(tensor),
                           to_string(spec.shape), why));
  };
  if (!can_become_bf16(spec.dtype))
    refuse(fmt::format("it is {}, not BF16, F16 or F32", name_of(spec.dtype)));
  if (!is_matrix(spec)) refuse(fmt::format("it has {} dimensions, not 2 or 3", spec.shape.size()));
  const bool slab = tensor.model != nullptr && (tensor.model->kind == model::Kind::expert_gate_up_slab ||
                                                tensor.model->kind == model::Kind::expert_down_slab);
  if (slab && source.model->dims.slabs != model::SlabForm::rows) {
    refuse("this slab of all experts keeps K in the middle, so blocks would run across rows");
  }
  if (spec.cols() % quant::kBlock != 0) {
    refuse(
        fmt::format("its last dimension is {}, which is not a multiple of {}", spec.cols(), quant::kBlock));
  }
}

/// By the model's recipe: names of what is quantized.
std::unordered_set<std::string_view> chosen_names(const model::Inventory& model, model::RecipeKind recipe) {
  const std::vector<bool> flags = model::select_quantized(model, {.kind = recipe});
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i]) names.insert(model.tensors[i].spec.name);
  }
  return names;
}

/// Which tensors are to be quantized.
class Chooser {
 public:
  Chooser(const Source& source, const Options& options) : options_(options) {
    if (options.format != Format::mxfp8 || !options.select.empty()) return;
    if (source.any_mxfp8() && !options.recipe) {
      nothing_ = true;
    } else if (source.model != nullptr) {
      recipe_ = options.recipe.value_or(model::default_recipe(*source.model));
      names_ = chosen_names(*source.model, *recipe_);
      require_one(source);
    } else if (options.recipe) {
      if (*options.recipe != model::RecipeKind::none) {
        fail_input(
            fmt::format("--recipe {}: {} has no config.json beside it that says which tensors these are; "
                        "--select names them",
                        model::name_of(*options.recipe), source.checkpoint->path()));
      }
      recipe_ = options.recipe;
      nothing_ = true;
    }
  }

  [[nodiscard]] bool chosen(const SourceTensor& tensor) const {
    const TensorSpec& spec = *tensor.spec;
    if (nothing_ || options_.format != Format::mxfp8 || matches_any(spec.name, options_.ignore)) return false;
    if (recipe_) return names_.contains(spec.name);
    if (!is_matrix(spec) || !can_become_bf16(spec.dtype)) return false;
    if (!options_.select.empty()) return matches_any(spec.name, options_.select);
    return spec.name.ends_with("weight") && spec.cols() % quant::kBlock == 0;
  }
  [[nodiscard]] std::optional<model::RecipeKind> recipe() const { return recipe_; }

 private:
  /// A config.json of another model would else leave everything as it is, without a word.
  void require_one(const Source& source) const {
    const auto& tensors = source.tensors;
    const bool any = std::any_of(tensors.begin(), tensors.end(), [&](const SourceTensor& tensor) {
      return names_.contains(tensor.spec->name);
    });
    if (any || names_.empty()) return;
    fail_input(
        fmt::format("{}: config.json describes {} tensors to quantize by the recipe {}, and none of them "
                    "is here; --select names others",
                    source.checkpoint->path(), names_.size(), model::name_of(*recipe_)));
  }

  const Options& options_;
  std::optional<model::RecipeKind> recipe_;
  std::unordered_set<std::string_view> names_;
  bool nothing_ = false;
};

Op bf16_op(const SourceTensor& tensor, const Options& options) {
  const bool ignored = matches_any(tensor.spec->name, options.ignore);
  if (tensor.mxfp8()) return ignored ? Op::carry : Op::dequantize;
  const DType dtype = tensor.spec->dtype;
  const bool castable = dtype == DType::f16 || dtype == DType::f32;
  return castable && !ignored && !keeps_fp32(tensor) ? Op::cast : Op::copy;
}

}  // namespace

Selection select(const Source& source, const Options& options) {
  check_patterns(options.ignore, "--ignore");
  check_patterns(options.select, "--select");
  const Chooser chooser(source, options);
  Selection selection{.ops = {}, .recipe = chooser.recipe()};
  selection.ops.reserve(source.tensors.size());
  bool any_quantized = false;
  for (const SourceTensor& tensor : source.tensors) {
    Op op = tensor.mxfp8() ? Op::carry : Op::copy;
    if (options.format == Format::bf16) {
      op = bf16_op(tensor, options);
    } else if (!tensor.mxfp8() && chooser.chosen(tensor)) {
      check_quantizable(source, tensor);
      op = Op::quantize;
      any_quantized = true;
    }
    selection.ops.push_back(op);
  }
  if (!options.select.empty() && options.format == Format::mxfp8 && !any_quantized) {
    fail_input(fmt::format("--select {}: {} has no BF16, F16 or F32 matrix with such a name",
                           fmt::join(options.select, " "), source.checkpoint->path()));
  }
  return selection;
}

}  // namespace refit::convert
