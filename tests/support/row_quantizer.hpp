// What device::RowQuantizer has to do, whatever backend it has.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "refit/device/row_quantizer.hpp"
#include "support/catch.hpp"

namespace refit::test {

/// Rows here and there in memory, growing and shrinking calls, every rounding, one row that is not finite.
inline void check_row_quantizer(device::RowQuantizer& quantizer) {
  std::mt19937_64 random(11);
  for (const quant::Rounding rounding : quant::kRoundings) {
    for (const std::size_t k : {std::size_t{32}, std::size_t{2080}, std::size_t{96}}) {
      const quant::Options options = {
          .rounding = rounding, .zero_scale = quant::ZeroScale::one, .non_finite = quant::NonFinite::refuse};
      const std::size_t rows = 1 + random() % 40, gap = 8, stride = k + gap;
      std::vector<std::uint16_t> in(rows * stride);
      for (std::uint16_t& bits : in) {
        bits = static_cast<std::uint16_t>(random());
        if ((bits & 0x7F80) == 0x7F80) bits = 0;
      }
      struct Made {
        std::vector<std::uint8_t> q, scales;
      };
      const auto rows_into = [&](Made& out) {
        out.q.assign(rows * stride, 0xAB);
        out.scales.assign(rows * stride, 0xAB);
        std::vector<quant::Row> list;
        for (std::size_t r = 0; r < rows; ++r) {
          list.push_back({in.data() + r * stride, out.q.data() + r * stride, out.scales.data() + r * stride});
        }
        return list;
      };
      Made expected, got;
      REQUIRE(quant::quantize_rows(rows_into(expected), k, options));
      CAPTURE(quant::name_of(rounding), k, rows);
      REQUIRE(quantizer.quantize(rows_into(got), k, options));
      CHECK(got.q == expected.q);
      CHECK(got.scales == expected.scales);

      in[(rows - 1) * stride + k - 1] = 0x7F80;
      CHECK_FALSE(quantizer.quantize(rows_into(got), k, options));
      quant::Options taking = options;
      taking.non_finite = quant::NonFinite::as_producer;
      quant::quantize_rows(rows_into(expected), k, taking);
      REQUIRE(quantizer.quantize(rows_into(got), k, taking));
      CHECK(got.q == expected.q);
      CHECK(got.scales == expected.scales);
    }
  }
}

}  // namespace refit::test
