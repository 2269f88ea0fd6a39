// What an engine's parameters are made of on one rank: which rows and columns of which source tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refit/audit/engine.hpp"
#include "refit/plan/plan.hpp"

namespace refit::audit {

/// How tensor parallelism cuts a source.
enum class Split : std::uint8_t {
  none,      ///< every rank holds all of it
  rows,      ///< output features
  kv_heads,  ///< output features, but at least one head a rank: heads are shared when there are fewer
  cols,      ///< input features
  vocab,     ///< rows, padded to a multiple of model::kEngineVocabularyMultiple before they are cut
};

/// Rows of a source, on all ranks together.
struct Part {
  std::uint32_t source = plan::kNone;
  std::uint64_t row = 0, rows = 0, cols = 0;
  Split split = Split::none;
};

/// One parameter, on all ranks together: stacked matrices, each of parts one below the other.
struct Parameter {
  std::string name;  ///< as the plan has it
  DType dtype{};     ///< of the values
  Shape shape;       ///< of all ranks together
  std::vector<std::vector<Part>> matrices;
  bool experts = false;  ///< the matrices are routed experts
  bool quantized = false;
  bool gated = false;       ///< parts are w1 and w3
  model::Kind kind{};       ///< of the first source
  std::string joined_as{};  ///< the parameter that holds this one as a part in engines that join them
  bool is_joined = false;   ///< such a parameter
};

/// A tensor of the dump and what it has to hold.
enum class Role : std::uint8_t { values, scales };
enum class ScaleForm : std::uint8_t {
  row_major,         ///< [rows, K / 32]
  row_major_padded,  ///< [rows, K / 32 rounded up to 4]
  tiled_128x4,
};
struct Target {
  const Parameter* parameter = nullptr;
  Role role = Role::values;
  bool shuffled = false;                  ///< rows in the order of the TRT-LLM kernels
  ScaleForm form = ScaleForm::row_major;  ///< scales
  std::vector<std::string> names;         ///< what engines call it
  bool optional = false;                  ///< judged where it is there
  std::vector<std::string> unless{};      ///< not looked for where one of these is there
};

/// The whole expectation.
struct Expectation {
  EngineRequest request;
  plan::Plan plan;
  std::vector<Parameter> parameters;
  std::vector<Target> targets;  ///< point into `parameters`
};

/// Error(input) as audit_engine says, for everything but the files themselves. `dtypes` of the request's
/// model are taken as they are.
[[nodiscard]] Expectation expect(const EngineRequest& request);

}  // namespace refit::audit
