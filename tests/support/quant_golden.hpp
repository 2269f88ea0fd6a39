// The golden quantizer outputs of tests/golden, and their inputs.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "refit/checkpoint/safetensors.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::test {

using Words = std::vector<std::uint16_t>;
using Bytes = std::vector<std::uint8_t>;

struct Quantized {
  Bytes q, scales;
};

/// One golden file. Its tensors need not be aligned, so they are copied out.
class QuantGolden {
 public:
  explicit QuantGolden(const std::string& name)
      : file_(checkpoint::SafetensorsFile::open(std::string(REFIT_TESTS_DIR) + name)) {}

  [[nodiscard]] Bytes bytes(const std::string& tensor) const { return copied<std::uint8_t>(tensor); }
  [[nodiscard]] Words words(const std::string& tensor) const { return copied<std::uint16_t>(tensor); }
  [[nodiscard]] std::vector<std::int32_t> rows(const std::string& tensor) const {
    return copied<std::int32_t>(tensor);
  }
  [[nodiscard]] bool has(const std::string& tensor) const { return file_.contains(tensor); }
  [[nodiscard]] const std::string& metadata(const std::string& key) const { return file_.metadata().at(key); }

  /// What `producer` made of a case of quantize_cases: left out where it equals fi_cute_v0613.
  [[nodiscard]] Quantized expected(const std::string& name, const std::string& producer) const {
    const std::string q = name + ".q." + producer;
    if (!has(q) && metadata(q) != "equal to fi_cute_v0613") throw Error(ErrorKind::input, q + " is missing");
    return {bytes(has(q) ? q : name + ".q.fi_cute_v0613"), bytes(name + ".scale." + producer)};
  }

 private:
  template <typename T>
  std::vector<T> copied(const std::string& tensor) const {
    const auto data = file_.data(tensor);
    std::vector<T> values(data.size() / sizeof(T));
    std::memcpy(values.data(), data.data(), data.size());
    return values;
  }

  checkpoint::SafetensorsFile file_;
};

/// The block of the golden README whose element of largest magnitude is `pattern`.
inline std::array<std::uint16_t, quant::kBlock> block_of_maximum(std::uint16_t pattern) {
  constexpr std::array<int, 31> below = {0,   1,   2,   3,    5,    8,    13,   16,   21,  32,  34,
                                         48,  55,  64,  89,   96,   128,  144,  233,  256, 377, 512,
                                         610, 768, 987, 1150, 1400, 1600, 1850, 2100, 2304};
  std::array<std::uint16_t, quant::kBlock> block{};
  for (unsigned t = 0; t < quant::kBlock; ++t) {
    const int magnitude = t == 0 ? 0 : std::max((pattern & 0x7FFF) - below[t - 1], 0);
    const unsigned sign = ((unsigned{pattern} >> (t % 7)) ^ t) & 1;
    block[(t + pattern) % quant::kBlock] =
        t == 0 ? pattern : static_cast<std::uint16_t>(static_cast<unsigned>(magnitude) | sign << 15);
  }
  return block;
}

/// The sweep's input: a block for every pattern of even popcount, in ascending order.
inline Words sweep_input() {
  Words input;
  input.reserve(32768 * quant::kBlock);
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    if (std::popcount(pattern) % 2 != 0) continue;
    const auto block = block_of_maximum(static_cast<std::uint16_t>(pattern));
    input.insert(input.end(), block.begin(), block.end());
  }
  return input;
}

/// The mode that each producer of the goldens gave its name to.
inline const std::vector<std::pair<quant::Rounding, std::string>>& producers_of_modes() {
  using quant::Rounding;
  static const std::vector<std::pair<Rounding, std::string>> table = {
      {Rounding::flashinfer, "fi_cute_v0613"}, {Rounding::flashinfer_cuda, "fi_cuda_v0613"},
      {Rounding::torchao_rceil, "ao_rceil"},   {Rounding::torchao_floor, "ao_floor"},
      {Rounding::torchao_even, "ao_even"},     {Rounding::torchao_ceil, "ao_ceil"},
      {Rounding::vllm_floor, "vllm_floor"}};
  return table;
}

inline Quantized quantized_by_reference(std::span<const std::uint16_t> in, const quant::Options& options) {
  Quantized out = {Bytes(in.size()), Bytes(in.size() / quant::kBlock)};
  for (std::size_t block = 0; block < out.scales.size(); ++block) {
    const std::size_t at = block * quant::kBlock;
    out.scales[block] = quant::quantize_block_reference(in.subspan(at).first<quant::kBlock>(), options,
                                                        std::span(out.q).subspan(at).first<quant::kBlock>());
  }
  return out;
}

inline Quantized quantized(std::span<const std::uint16_t> in, const quant::Options& options) {
  Quantized out = {Bytes(in.size(), 0xA5), Bytes(in.size() / quant::kBlock, 0xA5)};
  quant::quantize_blocks(in, options, out.q, out.scales);
  return out;
}

}  // namespace refit::test
