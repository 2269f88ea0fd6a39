// Does a dump of an engine's parameters hold what a refit of a checkpoint has to put there; if not, why.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "refit/audit/report.hpp"
#include "refit/base/thread_pool.hpp"
#include "refit/checkpoint/checkpoint.hpp"
#include "refit/model/inventory.hpp"
#include "refit/model/recipe.hpp"
#include "refit/quant/mxfp8.hpp"

namespace refit::audit {

enum class Engine : std::uint8_t { vllm, sglang };
[[nodiscard]] std::string_view name_of(Engine engine) noexcept;  ///< "vllm", "sglang"
[[nodiscard]] std::optional<Engine> parse_engine(std::string_view name) noexcept;

/// How the engine keeps quantized weights and their scales.
enum class Layout : std::uint8_t {
  checkpoint,         ///< rows as in the checkpoint, row-major scales
  linear_128x4,       ///< linear layers' scales 128x4; experts as in the checkpoint
  flashinfer_trtllm,  ///< that, and experts' rows shuffled with 128x4 scales
};
[[nodiscard]] std::string_view name_of(Layout layout) noexcept;  ///< "linear-128x4", ...
[[nodiscard]] std::optional<Layout> parse_layout(std::string_view name) noexcept;

struct EngineRequest {
  model::Inventory model;
  model::Recipe recipe;
  Engine engine = Engine::vllm;
  Layout layout = Layout::checkpoint;
  quant::Options quant;
  std::uint32_t tp_size = 1, tp_rank = 0;  ///< tensor parallelism
  std::uint32_t ep_size = 1,
                ep_rank = 0;  ///< expert parallelism: experts are whole, and a range of them each
};

/// `source` may be BF16, F16 or F32: what the recipe selects is rounded to BF16 first. What is MXFP8 already
/// (NAME_scale or NAME_scale_from_checkpoint beside E4M3 values) is expected byte for byte; the request's
/// rounding does not apply to it. Other tensors are copies, or casts of F16 and F32 to BF16; what routers add
/// to their scores may be in F32 instead of BF16 or F16. A parameter that the dump has under several names is
/// judged under each; tensors that nothing is expected of are listed as not judged. `previous` may be null:
/// the checkpoint of the step before, with the same dtypes, for the diagnosis. Error(input) naming tensor and
/// numbers: what the model or the layout cannot be (plan::build), a tensor of the model that `source` lacks
/// or has in another shape, MXFP8 that the recipe leaves out, sizes that do not divide by the ranks, kinds of
/// tensors whose split is not known.
[[nodiscard]] Report audit_engine(const EngineRequest& request, const checkpoint::Checkpoint& source,
                                  const checkpoint::Checkpoint& dump, const checkpoint::Checkpoint* previous,
                                  ThreadPool& pool);

}  // namespace refit::audit
