// Is one checkpoint the MXFP8 quantization of another, and by which rounding modes.
#pragma once

#include "refit/audit/report.hpp"
#include "refit/base/thread_pool.hpp"
#include "refit/checkpoint/checkpoint.hpp"

namespace refit::audit {

/// Each F8_E4M3 tensor of `quantized` that has scales beside it (NAME_scale or NAME_scale_from_checkpoint, U8
/// or F8_E8M0, row-major [.., K/32] or 128x4 bytes) is compared with the tensor of that name in `source`,
/// quantized by every mode. All other tensors have to be copies, or BF16 casts of FP32 (a note says so; a
/// router's correction bias has to stay FP32). A tensor that no mode reproduces is a finding against the mode
/// that reproduces most tensors. Error(input) when `quantized` holds no MXFP8 tensor.
[[nodiscard]] Report audit_quantized(const checkpoint::Checkpoint& source,
                                     const checkpoint::Checkpoint& quantized, ThreadPool& pool);

}  // namespace refit::audit
