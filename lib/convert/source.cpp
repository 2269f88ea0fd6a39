// Pairing values with their scales, and comparing what is there with what the model has.
#include "convert/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "refit/base/error.hpp"

namespace refit::convert {
namespace {

/// What trainers (refit's wire names) and checkpoints append to a weight's name.
constexpr std::array<std::string_view, 2> kScaleSuffixes = {"_scale", "_scale_from_checkpoint"};
/// Names that one warning lists.
constexpr std::size_t kNamed = 3;

std::unordered_map<std::string_view, const model::Tensor*> by_name(const model::Inventory* model) {
  std::unordered_map<std::string_view, const model::Tensor*> names;
  if (model == nullptr) return names;
  for (const auto* tensors : {&model->tensors, &model->mtp}) {
    for (const model::Tensor& tensor : *tensors) names.emplace(tensor.spec.name, &tensor);
  }
  return names;
}

/// Block scales are bytes; a per-tensor or 128x128 scale of another FP8 format is a float.
bool holds_block_scales(const TensorSpec& spec) {
  return spec.dtype == DType::u8 || spec.dtype == DType::f8_e8m0;
}

/// [.., K/32]; NeMo-RL squeezes a last dimension of 1.
void check_scale_shape(const checkpoint::Checkpoint& source, const checkpoint::Checkpoint::Tensor& values,
                       const checkpoint::Checkpoint::Tensor& scales) {
  const Shape& shape = values.spec.shape;
  if (shape.size() < 2 || shape.back() % quant::kBlock != 0) {
    fail_input(fmt::format("{} {} has scales ({}), but its last dimension is not a multiple of {}",
                           source.place(values), to_string(shape), scales.spec.name, quant::kBlock));
  }
  Shape expected = shape;
  expected.back() /= quant::kBlock;
  Shape squeezed = expected;
  squeezed.pop_back();
  if (scales.spec.shape == expected || (expected.back() == 1 && scales.spec.shape == squeezed)) return;
  fail_input(
      fmt::format("{} is {}, but the scales of {} {} have to be {} in row-major order; scales that are laid "
                  "out for an engine "
                  "already cannot be converted",
                  source.place(scales), to_string(scales.spec.shape), values.spec.name, to_string(shape),
                  to_string(expected)));
}

std::uint32_t find_scales(const checkpoint::Checkpoint& source,
                          const checkpoint::Checkpoint::Tensor& values) {
  const checkpoint::Checkpoint::Tensor* found = nullptr;
  for (const std::string_view suffix : kScaleSuffixes) {
    const auto* candidate = source.find(values.spec.name + std::string(suffix));
    if (candidate == nullptr || !holds_block_scales(candidate->spec)) continue;
    if (found != nullptr) {
      fail_input(fmt::format("{} has scales under two names, {} and {}; only one can be right",
                             source.place(values), found->spec.name, candidate->spec.name));
    }
    found = candidate;
  }
  if (found == nullptr) return kNone;
  check_scale_shape(source, values, *found);
  return static_cast<std::uint32_t>(found - source.tensors().data());
}

/// "A, B, C and 5 more".
std::string some_of(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, names.size()); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
  return text;
}

}  // namespace

bool Source::any_mxfp8() const noexcept {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const SourceTensor& tensor) { return tensor.mxfp8(); });
}

std::string Source::place(const SourceTensor& tensor) const {
  return checkpoint->place(checkpoint->tensors()[tensor.index]);
}

Source read_source(const checkpoint::Checkpoint& checkpoint, const model::Inventory* model) {
  const auto& tensors = checkpoint.tensors();
  const auto models = by_name(model);
  std::vector<std::uint32_t> scales_of(tensors.size(), kNone);
  std::vector<bool> is_scale(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& spec = tensors[i].spec;
    if (spec.dtype != DType::f8_e4m3) continue;
    scales_of[i] = find_scales(checkpoint, tensors[i]);
    if (scales_of[i] != kNone) {
      is_scale[scales_of[i]] = true;
    } else if (spec.name.ends_with("weight")) {
      fail_input(
          fmt::format("{} is F8_E4M3, but there are no scales for it: neither {} nor {} of U8 or F8_E8M0",
                      checkpoint.place(tensors[i]), spec.name + std::string(kScaleSuffixes[0]),
                      spec.name + std::string(kScaleSuffixes[1])));
    }
  }
  Source source{.checkpoint = &checkpoint, .model = model, .tensors = {}};
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    if (is_scale[i]) continue;
    const auto found = models.find(tensors[i].spec.name);
    source.tensors.push_back({.spec = &tensors[i].spec,
                              .index = i,
                              .scales = scales_of[i],
                              .model = found == models.end() ? nullptr : found->second});
  }
  return source;
}

void check_complete(const Source& source, std::vector<std::string>& warnings) {
  if (source.model == nullptr) return;
  std::set<int> layers_with_experts;
  std::vector<std::string_view> reshaped;
  for (const SourceTensor& tensor : source.tensors) {
    if (tensor.model == nullptr) continue;
    if (tensor.model->expert >= 0) layers_with_experts.insert(tensor.model->layer);
    if (tensor.model->spec.shape != tensor.spec->shape) reshaped.push_back(tensor.spec->name);
  }
  std::vector<std::string_view> missing;
  for (const model::Tensor& tensor : source.model->tensors) {
    if (source.checkpoint->find(tensor.spec.name) != nullptr) continue;
    if (tensor.expert >= 0 && layers_with_experts.contains(tensor.layer)) {
      fail_input(fmt::format("{}: {} is missing, while other experts of layer {} are there",
                             source.checkpoint->path(), tensor.spec.name, tensor.layer));
    }
    missing.push_back(tensor.spec.name);
  }
  if (!missing.empty()) {
    warnings.push_back(fmt::format("{} has none of {} tensors of the model: {}", source.checkpoint->path(),
                                   missing.size(), some_of(missing)));
  }
  if (!reshaped.empty()) {
    warnings.push_back(fmt::format("{} tensors have another shape than config.json says: {}", reshaped.size(),
                                   some_of(reshaped)));
  }
}

}  // namespace refit::convert
