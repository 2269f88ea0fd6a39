// One task a call: all rows have the same width.
#include "refit/device/row_quantizer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "refit/base/error.hpp"

namespace refit::device {
namespace {

const std::string kWhat = "rows to quantize";
/// For a few MiB; a GPU that is hung or taken away must not keep a conversion for ever.
constexpr std::chrono::seconds kLongestWait{60};

}  // namespace

std::string RowQuantizer::device() const {
  const std::string name = backend_->describe().name;
  return name.empty() ? std::string(name_of(Kind::cpu)) : name;
}

bool RowQuantizer::quantize(std::span<const quant::Row> rows, std::size_t k, const quant::Options& options) {
  if (rows.empty() || k == 0) return true;
  const std::lock_guard lock(turn_);
  const std::size_t row_bytes = k * sizeof(std::uint16_t), scale_bytes = k / quant::kBlock;
  const std::size_t in_bytes = rows.size() * row_bytes, value_bytes = rows.size() * k;
  const std::size_t out_bytes = value_bytes + rows.size() * scale_bytes;
  if (!memory_ || memory_->bytes().size() < in_bytes + out_bytes) {
    memory_.reset();
    memory_ = backend_->scratch(in_bytes + out_bytes, kWhat);
  }
  staged_.resize(std::max(staged_.size(), in_bytes));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::memcpy(staged_.data() + r * row_bytes, rows[r].in, row_bytes);
  }
  std::byte* const in = memory_->bytes().data();
  std::byte* const out = in + in_bytes;
  backend_->write(in, std::span(staged_).first(in_bytes));
  const Task task = {.op = Op::quantize,
                     .options = options,
                     .from = in,
                     .values = out,
                     .scales = out + value_bytes,
                     .rows = rows.size(),
                     .cols = k,
                     .row_bytes = row_bytes,
                     .scale_layout = plan::ScaleLayout::row_major,
                     .tensor = &kWhat};
  try {
    backend_->run({&task, 1});
    backend_->finish(Deadline::after(kLongestWait));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::input) return false;  // the caller names the tensor
    throw;
  }
  backend_->read(std::span(staged_).first(out_bytes), out);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::memcpy(rows[r].q, staged_.data() + r * k, k);
    std::memcpy(rows[r].scales, staged_.data() + value_bytes + r * scale_bytes, scale_bytes);
  }
  return true;
}

}  // namespace refit::device
