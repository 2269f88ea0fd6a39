// What an audit of files found, tensor by tensor, and its three forms: text, JSON and JUnit XML.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refit/quant/mxfp8.hpp"
#include "refit/tensor/tensor.hpp"

namespace refit::audit {

/// How a tensor differs.
enum class Fault : std::uint8_t { bytes, dtype, shape, missing, extra };
[[nodiscard]] std::string_view name_of(Fault fault) noexcept;

/// A known way of being wrong that reproduces every byte of a tensor.
struct Diagnosis {
  std::string name;      ///< "rows-not-shuffled"; empty: none of the known ways does
  std::string sentence;  ///< "rows not shuffled"; "unknown"
};

struct Finding {
  std::string tensor;
  Fault fault = Fault::bytes;
  std::string expected, got;               ///< value and bits of the first difference, or dtypes, or shapes
  std::vector<std::uint64_t> index{};      ///< bytes: of the first differing element
  std::uint64_t count = 0, of = 0;         ///< bytes: differing elements, elements
  std::optional<std::uint64_t> max_ulp{};  ///< bytes, floating dtypes: the largest distance of two elements
  std::optional<Diagnosis> diagnosis{};    ///< where one was sought
};

/// A way of quantizing.
struct Mode {
  quant::Rounding rounding{};
  quant::ZeroScale zero_scale{};
  friend bool operator==(const Mode&, const Mode&) = default;
};
inline constexpr std::size_t kModes = 2 * quant::kRoundings.size();
/// Every rounding mode with scale byte 0 kept, then replaced.
[[nodiscard]] Mode mode(std::size_t number) noexcept;
[[nodiscard]] std::string words(const Mode& mode);  ///< "flashinfer, zero scale one"

/// What quantization did to one tensor.
struct QuantizedTensor {
  std::string name;
  std::vector<bool> modes;  ///< of all kModes, those that give all its bytes
  std::uint64_t elements = 0, blocks = 0;
  /// Of the elements that are finite on both sides; nothing where none is.
  std::optional<double> max_abs_error{}, rms_error{};
  std::optional<double> sqnr_db{};  ///< nothing without such elements, or when error or signal is zero
  std::uint64_t blocks_at_0 = 0, blocks_at_1 = 0;
  std::uint64_t saturated = 0;   ///< elements that are the largest of their block's scale and were larger
  std::uint64_t non_finite = 0;  ///< elements that are NaN or infinite on one side at least
  std::uint64_t nan = 0, infinite = 0;  ///< of these, in the source, as BF16

  [[nodiscard]] std::uint64_t finite() const noexcept { return elements - non_finite; }
};

struct Report {
  std::string command;                                      ///< "files", "quantized", "engine"
  std::vector<std::pair<std::string, std::string>> inputs;  ///< name and value: paths and what was asked for
  std::vector<std::string> judged;                          ///< tensors that were compared
  std::uint64_t bytes = 0;                                  ///< compared
  std::vector<Finding> findings;
  std::vector<std::string> not_judged;  ///< tensors that nothing is expected of
  std::vector<std::string> notes;       ///< sentences that are no difference
  struct Quantized {
    std::vector<bool> modes;  ///< those that give all bytes of all tensors
    std::vector<QuantizedTensor> tensors;
  };
  std::optional<Quantized> quantized{};

  [[nodiscard]] bool equal() const noexcept { return findings.empty(); }
};

/// For people: the findings, at most `max_report` of them, and the verdict. Names as printable() writes them,
/// here and in JUnit XML.
[[nodiscard]] std::string to_text(const Report& report, std::size_t max_report);
/// scenarios/schema/refit-verify-1.schema.json.
[[nodiscard]] std::string to_json(const Report& report);
/// One test case a tensor.
[[nodiscard]] std::string to_junit(const Report& report);

}  // namespace refit::audit
