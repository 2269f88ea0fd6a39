// Files and texts as bytes.
#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "support/catch.hpp"

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}
