// A slow reader: one thread that waits.
#include "kernels/launch.hpp"

namespace refit::kernels {
namespace {

__device__ std::uint64_t nanoseconds_now() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void delay_kernel(std::uint64_t nanoseconds) {
  const std::uint64_t begin = nanoseconds_now();
  while (nanoseconds_now() - begin < nanoseconds) __nanosleep(1000);
}

}  // namespace

void delay(std::uint64_t nanoseconds, Stream stream) {
  delay_kernel<<<1, 1, 0, stream>>>(nanoseconds);
}

}  // namespace refit::kernels
