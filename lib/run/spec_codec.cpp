// BenchSpec to CBOR and back.
#include "run/spec_codec.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "refit/base/error.hpp"
#include "refit/version.hpp"
#include "run/protocol.hpp"

namespace refit::run {
namespace {

Json encode_switches(const plan::Switches& switches) {
  Json out = Json::object();
  for (const auto& [name, value] : plan::to_pairs(switches)) out[name] = value;
  return out;
}

plan::Switches decode_switches(const Json& in) {
  plan::Switches switches;
  for (const auto& [name, value] : in.items()) plan::set_switch(switches, name, value.get<std::string>());
  return switches;
}

}  // namespace

std::string encode_spec(const BenchSpec& spec) {
  Json out;
  out["protocol"] = kProtocolVersion;
  out["version"] = kVersion;
  out["config"] = spec.config_json;
  out["config_place"] = spec.config_place;
  out["slice"] = {
      {"layers", spec.slice.layers}, {"experts", spec.slice.experts}, {"vocab_rows", spec.slice.vocab_rows}};
  out["recipe"] = model::name_of(spec.recipe.kind);
  out["ignore"] = spec.recipe.ignore;
  out["moe_layout"] = static_cast<int>(spec.moe_layout);
  out["control"] = encode_switches(spec.control);
  out["treatment"] = encode_switches(spec.treatment);
  out["threads"] = spec.backend.threads;
  out["timeout_s"] = spec.timeout_s;
  out["backend"] = device::name_of(spec.backend.kind);
  out["transport"] = device::name_of(spec.backend.transport);
  out["device"] = spec.backend.ordinal;
  out["fault"] = spec.fault;
  out["keep_spans"] = spec.keep_spans;
  // CBOR: paths and ignore words may hold bytes that are no UTF-8, which JSON text cannot carry.
  const std::vector<std::uint8_t> bytes = Json::to_cbor(out);
  return {bytes.begin(), bytes.end()};
}

BenchSpec decode_spec(std::string_view text) {
  try {
    const Json in = Json::from_cbor(text.begin(), text.end());
    if (in.at("protocol") != kProtocolVersion || in.at("version") != kVersion) {
      fail_input(fmt::format("the trainer runs refit {} (protocol {}), this generator {} (protocol {})",
                             in.at("version").dump(), in.at("protocol").dump(), kVersion, kProtocolVersion));
    }
    BenchSpec spec;
    spec.config_json = in.at("config").get<std::string>();
    spec.config_place = in.at("config_place").get<std::string>();
    const Json& slice = in.at("slice");
    spec.slice = {slice.at("layers").get<std::uint64_t>(), slice.at("experts").get<std::uint64_t>(),
                  slice.at("vocab_rows").get<std::uint64_t>()};
    const auto recipe = model::parse_recipe(in.at("recipe").get<std::string>());
    if (!recipe)
      fail_input(fmt::format("the trainer's hello names an unknown recipe {}", in.at("recipe").dump()));
    spec.recipe.kind = *recipe;
    spec.recipe.ignore = in.at("ignore").get<std::vector<std::string>>();
    spec.moe_layout = static_cast<plan::MoeLayout>(in.at("moe_layout").get<int>());
    spec.control = decode_switches(in.at("control"));
    spec.treatment = decode_switches(in.at("treatment"));
    spec.timeout_s = in.at("timeout_s").get<double>();
    const auto kind = device::parse_kind(in.at("backend").get<std::string>());
    const auto transport = device::parse_transport(in.at("transport").get<std::string>());
    if (!kind || !transport) {
      fail_input(fmt::format("the trainer's hello names an unknown backend or transport: {}, {}",
                             in.at("backend").dump(), in.at("transport").dump()));
    }
    spec.backend = {*kind, *transport, in.at("threads").get<unsigned>(), in.at("device").get<int>(),
                    spec.timeout_s};
    spec.fault = in.at("fault").get<std::string>();
    spec.keep_spans = in.at("keep_spans").get<std::uint32_t>();
    return spec;
  } catch (const Json::exception& error) {
    fail_input(fmt::format("the trainer's hello cannot be read: {}", error.what()));
  }
}

}  // namespace refit::run
