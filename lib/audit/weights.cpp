// Looking the model's tensors up, and what dtype makes of them.
#include "audit/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "quant/casts.hpp"
#include "refit/base/error.hpp"

namespace refit::audit {
namespace {

using checkpoint::Checkpoint;

constexpr std::array<std::string_view, 2> kScaleSuffixes = {"_scale", "_scale_from_checkpoint"};

const Checkpoint::Tensor* scales_named(const Checkpoint& file, const std::string& name) {
  const Checkpoint::Tensor* const scales = file.find(name);
  const bool bytes =
      scales != nullptr && (scales->spec.dtype == DType::u8 || scales->spec.dtype == DType::f8_e8m0);
  return bytes ? scales : nullptr;
}

bool is_vocabulary(model::Kind kind) {
  return kind == model::Kind::embedding || kind == model::Kind::lm_head;
}

const Checkpoint::Tensor& find_source(const Checkpoint& file, const model::Tensor& tensor) {
  const Checkpoint::Tensor* const found = file.find(tensor.spec.name);
  if (found == nullptr) {
    fail_input(fmt::format("{}: there is no tensor '{}', which a model of this config.json has", file.path(),
                           tensor.spec.name));
  }
  Shape shape = found->spec.shape;
  const Shape& wanted = tensor.spec.shape;
  if (is_vocabulary(tensor.kind) && shape.size() == wanted.size() && !shape.empty() && shape[0] > wanted[0]) {
    shape[0] = wanted[0];
  }
  if (shape != wanted) {
    fail_input(fmt::format("{} has shape {}, and the model's config.json says {}", file.place(*found),
                           to_string(found->spec.shape), to_string(wanted)));
  }
  return *found;
}

/// NeMo-RL drops a trailing dimension of 1.
void check_scales(const Checkpoint& file, const Checkpoint::Tensor& values,
                  const Checkpoint::Tensor& scales) {
  const std::string& name = values.spec.name;
  if (std::all_of(kScaleSuffixes.begin(), kScaleSuffixes.end(),
                  [&](std::string_view suffix) { return scales_named(file, name + std::string(suffix)); })) {
    fail_input(fmt::format("{} has scales under two names, {}{} and {}{}; only one can be right",
                           file.place(values), name, kScaleSuffixes[0], name, kScaleSuffixes[1]));
  }
  Shape expected = values.spec.shape;
  if (expected.size() < 2 || expected.back() % quant::kBlock != 0) {
    fail_input(fmt::format("{} {} has scales ({}), but its last dimension is not a multiple of {}",
                           file.place(values), to_string(expected), scales.spec.name, quant::kBlock));
  }
  expected.back() /= quant::kBlock;
  const bool dropped =
      expected.back() == 1 && scales.spec.shape == Shape(expected.begin(), expected.end() - 1);
  if (scales.spec.shape == expected || dropped) return;
  fail_input(fmt::format(
      "{} is {}, but the scales of {} {} have to be {} in row-major order, as a trainer sends them",
      file.place(scales), to_string(scales.spec.shape), name, to_string(values.spec.shape),
      to_string(expected)));
}

/// Router biases, and what else the model keeps in FP32, unless its config.json says so of everything.
bool keeps_f32(const model::Tensor& tensor, const model::Inventory& model) {
  if (tensor.kind == model::Kind::router_bias) return true;
  return tensor.spec.dtype == DType::f32 && model.tensors.front().spec.dtype != DType::f32;
}

}  // namespace

const Checkpoint::Tensor* find_scales(const Checkpoint& file, const std::string& name) {
  for (const std::string_view suffix : kScaleSuffixes) {
    if (const Checkpoint::Tensor* const scales = scales_named(file, name + std::string(suffix))) {
      return scales;
    }
  }
  return nullptr;
}

Weights read_weights(const Checkpoint& file, const model::Inventory& model) {
  Weights weights;
  weights.reserve(model.tensors.size());
  for (const model::Tensor& tensor : model.tensors) {
    const Checkpoint::Tensor& found = find_source(file, tensor);
    const DType dtype = found.spec.dtype;
    Weight weight{.values = file.data(found), .dtype = dtype, .rows = found.spec.rows(), .cast_to = dtype};
    if (quant::can_become_bf16(dtype)) weight.cast_to = keeps_f32(tensor, model) ? DType::f32 : DType::bf16;
    const Checkpoint::Tensor* const scales =
        dtype == DType::f8_e4m3 ? find_scales(file, found.spec.name) : nullptr;
    if (scales != nullptr) {
      check_scales(file, found, *scales);
      weight.mxfp8 = true;
      weight.scales = file.data(*scales);
    }
    weights.push_back(weight);
  }
  return weights;
}

EngineRequest with_dtypes(EngineRequest request, const Checkpoint& file, const Weights& weights) {
  const std::vector<bool> quantized = model::select_quantized(request.model, request.recipe);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    model::Tensor& tensor = request.model.tensors[i];
    const Weight& weight = weights[i];
    if (weight.mxfp8 && !quantized[i]) {
      fail_input(
          fmt::format("{} is MXFP8, and the recipe {} leaves it as it is; --recipe and --ignore have to say "
                      "what the engine holds as MXFP8",
                      file.place(file.at(tensor.spec.name)), model::name_of(request.recipe.kind)));
    }
    const bool becomes_mxfp8 = quantized[i] && (weight.mxfp8 || quant::can_become_bf16(weight.dtype));
    tensor.spec.dtype = becomes_mxfp8 ? DType::bf16 : weight.dtype;
  }
  return request;
}

void require_alike(const Checkpoint& file, const Weights& weights, const Weights& other,
                   const model::Inventory& model) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].dtype == other[i].dtype && weights[i].mxfp8 == other[i].mxfp8) continue;
    fail_input(fmt::format("{} is {}, and the other checkpoint has {}",
                           file.place(file.at(model.tensors[i].spec.name)), name_of(weights[i].dtype),
                           name_of(other[i].dtype)));
  }
}

}  // namespace refit::audit
