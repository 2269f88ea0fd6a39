// Quantizes one block with the installed library.
#include <refit/quant/mxfp8.hpp>
#include <refit/version.hpp>

#include <array>
#include <cstdio>

int main() {
  std::array<std::uint16_t, refit::quant::kBlock> in{0x43E0};  // 448, the largest E4M3 value
  std::array<std::uint8_t, refit::quant::kBlock> out{};
  const unsigned scale = refit::quant::quantize_block_reference(in, {}, out);
  std::printf("refit %s: scale %u, element 0x%02x\n", refit::kVersion.data(), scale, out[0]);
  return scale == 127 && out[0] == 0x7E ? 0 : 1;
}
