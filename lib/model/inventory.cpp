// Picks the family that a configuration names and lets it build the inventory; totals and names.
#include "refit/model/inventory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "model/families.hpp"
#include "refit/base/error.hpp"
#include "refit/model/split.hpp"

namespace refit::model {
namespace {

const Family& find_family(const Config& root) {
  const std::vector<std::string> names = root.texts("architectures");
  if (names.empty()) root.fail("architectures", "is missing or empty; it names the model's family");
  for (const Family& family : families()) {
    if (family.architecture == names.front()) return family;
  }
  fail_input(fmt::format("{}: architecture {} is not supported; supported are {}", root.place(),
                         json_quoted(names.front()), fmt::join(supported_architectures(), ", ")));
}

/// Vision-language models keep the language model's fields in text_config, beside a vision_config whose
/// fields have the same names.
Config language_part(const Config& root, const Family& family) {
  const auto text = root.object("text_config");
  if (!text && family.nested) {
    root.fail("text_config", fmt::format("is missing; {} keeps its sizes there", family.architecture));
  }
  return text.value_or(root);
}

bool tied(const Config& text, const Config& root) {
  constexpr std::string_view field = "tie_word_embeddings";
  const bool outer = root.flag(field, false);
  const bool inner = text.flag(field, outer);
  if (root.has(field) && inner != outer) text.fail_value(field, "disagrees with the outer configuration");
  return inner;
}

Inventory build_inventory(const Json& document, const std::string& place) {
  if (!document.is_object()) fail_input(fmt::format("{}: a model configuration has to be an object", place));
  const Config root(document, place);
  const Family& family = find_family(root);
  const Config text = language_part(root, family);

  Inventory inventory;
  inventory.architecture = family.architecture;
  inventory.model_type = root.text("model_type").value_or("");
  inventory.dims.hidden = text.number("hidden_size", limits::width);
  inventory.dims.vocab = text.number("vocab_size", limits::vocab);
  inventory.dims.tied_embeddings = tied(text, root);
  Builder builder(inventory, plain_dtype(text, root));
  family.build(text, builder);

  const auto& tensors = inventory.tensors;
  if (inventory.moe() && std::none_of(tensors.begin(), tensors.end(),
                                      [](const Tensor& t) { return is_routed_expert(t.kind); })) {
    fail_input(fmt::format("{}: the configuration gives {} experts, but makes every layer dense", place,
                           inventory.dims.experts));
  }
  return inventory;
}

}  // namespace

Inventory load_inventory(const std::string& path) {
  std::error_code error;
  const bool directory = std::filesystem::is_directory(path, error);
  const std::string file = directory ? (std::filesystem::path(path) / "config.json").string() : path;
  return build_inventory(read_json_file(file), file);
}

Inventory parse_inventory(std::string_view config_json, const std::string& place) {
  return build_inventory(parse_json(config_json, place), place);
}

std::vector<std::string_view> supported_architectures() {
  std::vector<std::string_view> names;
  for (const Family& family : families()) names.push_back(family.architecture);
  return names;
}

std::uint64_t Inventory::parameters() const {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += num_elements(tensor.spec.shape);
  return sum;
}

std::uint64_t Inventory::bytes() const {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.spec.bytes();
  return sum;
}

std::uint64_t Inventory::expert_bytes() const {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += is_routed_expert(tensor.kind) ? tensor.spec.bytes() : 0;
  return sum;
}

std::string_view name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::embedding:
      return "embedding";
    case Kind::lm_head:
      return "lm_head";
    case Kind::norm:
      return "norm";
    case Kind::attention_q:
      return "attention_q";
    case Kind::attention_k:
      return "attention_k";
    case Kind::attention_v:
      return "attention_v";
    case Kind::attention_o:
      return "attention_o";
    case Kind::attention_bias:
      return "attention_bias";
    case Kind::attention_other:
      return "attention_other";
    case Kind::mlp_gate:
      return "mlp_gate";
    case Kind::mlp_up:
      return "mlp_up";
    case Kind::mlp_down:
      return "mlp_down";
    case Kind::shared_gate:
      return "shared_gate";
    case Kind::shared_up:
      return "shared_up";
    case Kind::shared_down:
      return "shared_down";
    case Kind::shared_router:
      return "shared_router";
    case Kind::router:
      return "router";
    case Kind::router_bias:
      return "router_bias";
    case Kind::expert_gate:
      return "expert_gate";
    case Kind::expert_up:
      return "expert_up";
    case Kind::expert_down:
      return "expert_down";
    case Kind::expert_gate_up_slab:
      return "expert_gate_up_slab";
    case Kind::expert_down_slab:
      return "expert_down_slab";
    case Kind::expert_bias_slab:
      return "expert_bias_slab";
    case Kind::mamba:
      return "mamba";
    case Kind::mtp_other:
      return "mtp_other";
  }
  return "unknown";
}

}  // namespace refit::model
