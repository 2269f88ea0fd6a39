// Rows of stacked matrices in another order, in place.
//
// Bytes moved: each read once, each written once; beside them the row map, which stays in the L2 cache. The
// floor is a device-to-device copy of as many bytes.
//
// A block takes a slab: all rows of a matrix, and as many columns as shared memory holds. It reads the slab
// in the new order, waits until all of it is there, and writes it back: slabs do not overlap, so no block
// sees another's writes.
//
//             columns   0    64   128  ...
//   matrix 0, row 0     +----+----+----+
//             row 1     |slab|slab|slab|
//             ...       +----+----+----+
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include "kernels/launch.hpp"

namespace refit::kernels {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kBatch = 8;  // entries of the map that a thread asks for at a time
/// Whole bursts of memory, and narrow enough that two blocks of 1536 rows share a multiprocessor: one loads
/// while the other stores.
constexpr std::uint64_t kWidestSlab = 64;
constexpr std::uint64_t kNarrowestSlab = 16;

/// Columns of a slab in bytes; 0: rows are too many, or not made of 16-byte pieces. (A matrix whose rows are
/// made of them begins on a 16-byte boundary, as every tensor of an arena does.)
std::uint64_t slab_width(std::uint64_t rows, std::uint64_t row_bytes) {
  int device = 0, shared = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return 0;
  for (std::uint64_t width = kWidestSlab; width >= kNarrowestSlab; width /= 2) {
    if (row_bytes % width == 0 && rows * width <= static_cast<std::uint64_t>(shared)) return width;
  }
  return 0;
}

__global__ void __launch_bounds__(kThreads)
    shuffle_slabs(std::byte* data, std::uint32_t rows, std::uint64_t row_bytes, std::uint32_t width,
                  std::uint32_t slabs, const std::uint32_t* source_rows) {
  extern __shared__ uint4 slab[];
  std::byte* const matrix = data + blockIdx.x / slabs * (rows * row_bytes);
  std::byte* const columns = matrix + std::uint64_t{blockIdx.x % slabs} * width;
  const std::uint32_t vectors = width / 16;  // of a row: a power of two
  const std::uint32_t shift = __ffs(static_cast<int>(vectors)) - 1;
  const auto address = [&](std::uint32_t row, std::uint32_t v) {
    return columns + row * row_bytes + 16 * (v & (vectors - 1));
  };
  const std::uint32_t count = rows << shift;
  for (std::uint32_t first = threadIdx.x; first < count; first += kBatch * kThreads) {
    std::uint32_t from[kBatch] = {};
#pragma unroll
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const std::uint32_t v = first + i * kThreads;
      if (v < count) from[i] = __ldg(source_rows + (v >> shift));
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      const std::uint32_t v = first + i * kThreads;
      if (v < count) __pipeline_memcpy_async(slab + v, address(from[i], v), 16);
    }
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();  // a thread stores what it loaded, but over rows that others load
#pragma unroll 8
  for (std::uint32_t v = threadIdx.x; v < count; v += kThreads) {
    __stcs(reinterpret_cast<uint4*>(address(v >> shift, v)), slab[v]);
  }
}

/// Row n of `to` is row source_rows[n] of `from`; a block takes a row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_rows(T* to, const T* from, std::uint64_t row_items, const std::uint32_t* source_rows) {
  T* const row = to + blockIdx.x * row_items;
  const T* const source = from + source_rows[blockIdx.x] * row_items;
  for (std::uint64_t i = threadIdx.x; i < row_items; i += kThreads) row[i] = source[i];
}

template <class T>
void gather(std::byte* to, const std::byte* from, std::uint64_t rows, std::uint64_t row_bytes,
            const std::uint32_t* source_rows, Stream stream) {
  gather_rows<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), row_bytes / sizeof(T), source_rows);
}

}  // namespace

std::uint64_t shuffle_scratch_bytes(std::uint64_t rows, std::uint64_t row_bytes) {
  return slab_width(rows, row_bytes) == 0 ? rows * row_bytes : 0;
}

void shuffle_in_place(std::byte* data, std::uint64_t matrices, std::uint64_t rows, std::uint64_t row_bytes,
                      const std::uint32_t* source_rows, std::byte* scratch, Stream stream) {
  if (matrices == 0 || rows == 0 || row_bytes == 0) return;
  const std::uint64_t matrix_bytes = rows * row_bytes;
  const std::uint64_t width = slab_width(rows, row_bytes);
  if (width != 0) {
    const auto bytes = static_cast<int>(rows * width);
    const std::uint64_t slabs = row_bytes / width;
    cudaFuncSetAttribute(shuffle_slabs, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaFuncSetAttribute(shuffle_slabs, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
    shuffle_slabs<<<static_cast<unsigned>(matrices * slabs), kThreads, static_cast<unsigned>(bytes),
                    stream>>>(data, static_cast<std::uint32_t>(rows), row_bytes,
                              static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(slabs),
                              source_rows);
    return;
  }
  const bool wide =
      row_bytes % sizeof(uint4) == 0 && reinterpret_cast<std::uintptr_t>(data) % sizeof(uint4) == 0;
  for (std::uint64_t m = 0; m < matrices; ++m) {
    std::byte* const matrix = data + m * matrix_bytes;
    if (wide) {
      gather<uint4>(scratch, matrix, rows, row_bytes, source_rows, stream);
    } else {
      gather<std::uint8_t>(scratch, matrix, rows, row_bytes, source_rows, stream);
    }
    cudaMemcpyAsync(matrix, scratch, matrix_bytes, cudaMemcpyDeviceToDevice, stream);
  }
}

}  // namespace refit::kernels
