// Reads and writes "tp=2,pp=8,ep=32" and refuses sizes that do not go together.
#include "reshard/parallelism.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "base/nearest.hpp"
#include "refit/base/error.hpp"
#include "refit/base/printable.hpp"

namespace refit::reshard {
namespace {

struct Key {
  std::string_view name;
  std::uint32_t Parallelism::*size;
};
constexpr std::array keys = {Key{"tp", &Parallelism::tp},   Key{"pp", &Parallelism::pp},
                             Key{"dp", &Parallelism::dp},   Key{"ep", &Parallelism::ep},
                             Key{"etp", &Parallelism::etp}, Key{"fsdp", &Parallelism::fsdp}};
constexpr std::string_view layers_key = "pp-layers";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(separator); end != text.npos; end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

class Parser {
 public:
  Parser(std::string_view text, Side side)
      : text_(text),
        side_(side),
        what_(fmt::format("{} parallelism \"{}\"", name_of(side), printable(text))) {}

  Parallelism parse() {
    if (text_.empty()) return result_;
    for (const std::string_view item : split(text_, ',')) read(item);
    complete();
    check(result_, what_);
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { fail_input(what_ + ": " + reason); }
  [[nodiscard]] bool given(std::string_view key) const { return seen_.contains(key); }

  [[nodiscard]] std::vector<std::string_view> known() const {
    std::vector<std::string_view> names;
    for (const Key& key : keys) {
      if (key.name != "fsdp" || side_ == Side::trainer) names.push_back(key.name);
    }
    names.push_back(layers_key);
    return names;
  }

  [[nodiscard]] std::uint32_t number(std::string_view key, std::string_view value) const {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || number < 1 || number > kMostRanks) {
      fail(fmt::format("{} is \"{}\", which is no number from 1 to {}", key, printable(value), kMostRanks));
    }
    return number;
  }

  void read(std::string_view item) {
    const std::size_t equals = item.find('=');
    if (equals == item.npos) fail(fmt::format("\"{}\" is not key=number", printable(item)));
    const std::string_view key = item.substr(0, equals), value = item.substr(equals + 1);
    const std::vector<std::string_view> names = known();
    if (std::find(names.begin(), names.end(), key) == names.end()) fail_unknown(key, names);
    if (!seen_.insert(key).second) fail(fmt::format("{} is given twice", key));
    if (key == layers_key) {
      for (const std::string_view stage : split(value, ':')) result_.pp_layers.push_back(number(key, stage));
      return;
    }
    const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == key; });
    result_.*found->size = number(key, value);
  }

  [[noreturn]] void fail_unknown(std::string_view key, std::span<const std::string_view> names) const {
    const auto meant = nearest(key, names);
    fail(meant ? fmt::format("there is no \"{}\"; did you mean \"{}\"?", printable(key), *meant)
               : fmt::format("there is no \"{}\"; the keys are {}", printable(key), fmt::join(names, ", ")));
  }

  /// What is left out.
  void complete() {
    if (!result_.pp_layers.empty() && !given("pp")) {
      if (result_.pp_layers.size() > kMostRanks) {
        fail(fmt::format("{} gives {} stages, more than {}", layers_key, result_.pp_layers.size(),
                         kMostRanks));
      }
      result_.pp = static_cast<std::uint32_t>(result_.pp_layers.size());
    }
    if (!given("etp") && result_.ep == 1) result_.etp = result_.tp;
    if (given("dp")) return;
    const std::uint64_t tp = result_.tp, experts = std::uint64_t{result_.etp} * result_.ep;
    const std::uint64_t least = experts / std::gcd(tp, experts);
    if (least > kMostRanks) {
      fail(fmt::format("ep={} times etp={} needs dp={}, more than {}", result_.ep, result_.etp, least,
                       kMostRanks));
    }
    result_.dp = static_cast<std::uint32_t>(least);
  }

  std::string_view text_;
  Side side_;
  std::string what_;
  std::set<std::string_view> seen_;
  Parallelism result_;
};

/// Ranks without overflow: sizes may be anything.
std::optional<std::uint64_t> count_ranks(const Parallelism& parallelism) {
  std::uint64_t ranks = 1;
  for (const std::uint32_t size : {parallelism.tp, parallelism.pp, parallelism.dp, parallelism.fsdp}) {
    ranks *= size;  // of two numbers below 2^32
    if (ranks > kMostRanks) return std::nullopt;
  }
  return ranks;
}

}  // namespace

std::string_view name_of(Side side) noexcept {
  return side == Side::trainer ? "trainer" : "generator";
}

void check(const Parallelism& parallelism, const std::string& what) {
  for (const Key& key : keys) {
    if (parallelism.*key.size == 0) fail_input(fmt::format("{}: {} is 0", what, key.name));
    const bool beside_fsdp = key.name == "fsdp" || key.name == "dp";
    if (parallelism.fsdp > 1 && parallelism.*key.size > 1 && !beside_fsdp) {
      fail_input(fmt::format("{}: fsdp={} divides whole tensors and cannot be combined with {}={}", what,
                             parallelism.fsdp, key.name, parallelism.*key.size));
    }
  }
  if (!parallelism.pp_layers.empty() && parallelism.pp_layers.size() != parallelism.pp) {
    fail_input(fmt::format("{}: {} gives {} stages, but pp={}", what, layers_key,
                           parallelism.pp_layers.size(), parallelism.pp));
  }
  if (!count_ranks(parallelism)) {
    fail_input(fmt::format("{}: tp={}, pp={}, dp={} and fsdp={} are more than {} ranks", what, parallelism.tp,
                           parallelism.pp, parallelism.dp, parallelism.fsdp, kMostRanks));
  }
  const std::uint64_t dense = std::uint64_t{parallelism.tp} * parallelism.dp;
  const std::uint64_t experts = std::uint64_t{parallelism.etp} * parallelism.ep;
  if (dense % experts != 0) {
    fail_input(fmt::format("{}: etp={} times ep={} is {}, which does not divide tp={} times dp={}", what,
                           parallelism.etp, parallelism.ep, experts, parallelism.tp, parallelism.dp));
  }
}

Parallelism parse_parallelism(std::string_view text, Side side) {
  return Parser(text, side).parse();
}

std::string to_string(const Parallelism& parallelism) {
  std::vector<std::string> items;
  for (const Key& key : keys) {
    const std::uint32_t size = parallelism.*key.size;
    // Left out, an etp of 1 would be read as tp.
    const bool unlike_default = key.name == "etp" && parallelism.ep == 1 && parallelism.tp > 1;
    if (size != 1 || unlike_default) items.push_back(fmt::format("{}={}", key.name, size));
  }
  const std::vector<std::uint32_t>& layers = parallelism.pp_layers;
  if (std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) != layers.end()) {
    items.push_back(fmt::format("{}={}", layers_key, fmt::join(layers, ":")));
  }
  return items.empty() ? "tp=1" : fmt::format("{}", fmt::join(items, ","));
}

}  // namespace refit::reshard
