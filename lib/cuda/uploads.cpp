// The ring of chunks.
#include "cuda/uploads.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/check.hpp"

namespace refit::cuda {
namespace {

constexpr std::uint64_t kChunkBytes = 4u << 20;

}  // namespace

std::byte* Uploads::send_parts(std::initializer_list<std::span<const std::byte>> parts) {
  std::uint64_t bytes = 0;
  for (const auto part : parts) bytes += padded(part.size());
  if (bytes == 0) return nullptr;
  Chunk& chunk = chunk_for(bytes);
  std::byte* const host = chunk.host.data() + chunk.used;
  std::byte* const device = chunk.device.data() + chunk.used;
  std::uint64_t at = 0;
  for (const auto part : parts) {
    if (!part.empty()) std::memcpy(host + at, part.data(), part.size());
    at += padded(part.size());
  }
  chunk.used += bytes;
  session_->begin("copying descriptors to the GPU");
  check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, session_->stream()),
        "copying descriptors to the GPU");
  return device;
}

void Uploads::send_to(std::byte* device, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<const std::byte> part = bytes.first(std::min<std::uint64_t>(bytes.size(), kChunkBytes));
    Chunk& chunk = chunk_for(padded(part.size()));
    std::byte* const host = chunk.host.data() + chunk.used;
    std::memcpy(host, part.data(), part.size());
    chunk.used += padded(part.size());
    session_->begin("copying tables to the GPU");
    check(cudaMemcpyAsync(device, host, part.size(), cudaMemcpyHostToDevice, session_->stream()),
          "copying tables to the GPU");
    device += part.size();
    bytes = bytes.subspan(part.size());
  }
}

void Uploads::release_large() {
  if (current_ != nullptr && current_->host.size() > kChunkBytes) current_ = nullptr;
  std::erase_if(chunks_,
                [](const std::unique_ptr<Chunk>& chunk) { return chunk->host.size() > kChunkBytes; });
}

Uploads::Chunk& Uploads::chunk_for(std::uint64_t bytes) {
  if (current_ != nullptr) {
    if (current_->host.size() - current_->used >= bytes) return *current_;
    current_->copied.record(session_->stream());
  }
  const auto free = std::find_if(chunks_.begin(), chunks_.end(), [&](const std::unique_ptr<Chunk>& chunk) {
    return chunk->host.size() >= bytes && chunk->copied.done();
  });
  if (free != chunks_.end()) {
    current_ = free->get();
  } else {
    auto chunk = std::make_unique<Chunk>();
    const std::uint64_t size = std::max(bytes, kChunkBytes);
    chunk->host = PinnedBuffer(size, "staging of descriptors");
    chunk->device = DeviceBuffer(session_, size, "descriptors");
    current_ = chunks_.emplace_back(std::move(chunk)).get();
  }
  current_->used = 0;
  return *current_;
}

}  // namespace refit::cuda
