// Classes of layers that hold the same tensors, and the part of a model that a replay moves.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "refit/model/inventory.hpp"

namespace refit::model {
namespace {

/// What a layer holds, whatever its number: one entry a tensor, sorted.
using Contents = std::vector<std::tuple<Kind, DType, Shape>>;

std::map<int, Contents> layer_contents(const Inventory& model) {
  std::map<int, Contents> layers;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.layer < 0) continue;
    layers[tensor.layer].emplace_back(tensor.kind, tensor.spec.dtype, tensor.spec.shape);
  }
  for (auto& [layer, contents] : layers) std::sort(contents.begin(), contents.end());
  return layers;
}

/// `count` layers, taken from the classes in turn so that none gets two more than another that still has
/// some. When there are more classes than layers, the classes with most bytes go first: they are what a refit
/// is about.
std::set<int> choose_layers(const Inventory& model, std::uint64_t count) {
  std::map<int, std::uint64_t> layer_bytes;
  for (const Tensor& tensor : model.tensors) layer_bytes[tensor.layer] += tensor.spec.bytes();
  std::vector<std::vector<int>> classes = layer_classes(model);
  std::stable_sort(classes.begin(), classes.end(), [&](const auto& a, const auto& b) {
    return a.size() * layer_bytes[a.front()] > b.size() * layer_bytes[b.front()];
  });

  std::size_t rounds = 0;
  for (const std::vector<int>& layers : classes) rounds = std::max(rounds, layers.size());
  std::set<int> chosen;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const std::vector<int>& layers : classes) {
      if (round < layers.size() && chosen.size() < count) chosen.insert(layers[round]);
    }
  }
  return chosen;
}

bool is_slab(Kind kind) {
  return kind == Kind::expert_gate_up_slab || kind == Kind::expert_down_slab ||
         kind == Kind::expert_bias_slab;
}

/// `wanted`, or all when nothing is wanted or more than there is.
std::uint64_t kept(std::uint64_t wanted, std::uint64_t all) {
  return wanted == 0 ? all : std::min(wanted, all);
}

}  // namespace

std::vector<std::vector<int>> layer_classes(const Inventory& model) {
  std::map<Contents, std::vector<int>> by_contents;
  for (auto& [layer, contents] : layer_contents(model)) by_contents[contents].push_back(layer);
  std::vector<std::vector<int>> classes;
  for (auto& [contents, layers] : by_contents) classes.push_back(std::move(layers));
  std::sort(classes.begin(), classes.end());  // by first layer
  return classes;
}

Inventory slice(const Inventory& model, const Slice& part) {
  if (part.whole()) return model;
  Inventory result{model.architecture, model.model_type, model.dims, {}, model.mtp};
  result.dims.layers = kept(part.layers, model.dims.layers);
  result.dims.experts = kept(part.experts, model.dims.experts);
  result.dims.vocab = kept(part.vocab_rows, model.dims.vocab);
  const std::set<int> layers = choose_layers(model, result.dims.layers);

  for (const Tensor& tensor : model.tensors) {
    if (tensor.layer >= 0 && !layers.contains(tensor.layer)) continue;
    if (tensor.expert >= 0 && static_cast<std::uint64_t>(tensor.expert) >= result.dims.experts) continue;
    Tensor& copy = result.tensors.emplace_back(tensor);
    if (is_slab(tensor.kind)) copy.spec.shape[0] = kept(part.experts, copy.spec.shape[0]);
    if (tensor.kind == Kind::embedding || tensor.kind == Kind::lm_head) {
      copy.spec.shape[0] = result.dims.vocab;
    }
  }
  return result;
}

}  // namespace refit::model
