// Staging slots with a guard page's worth of pattern behind each.
#include "run/bucket_buffers.hpp"

#include <algorithm>

#include "refit/base/bytes.hpp"

namespace refit::run {
namespace {

constexpr std::uint64_t kGuardBytes = 4096;
constexpr std::byte kGuard{0xC3};

}  // namespace

BucketBuffers::BucketBuffers(const plan::Switches& switches, const plan::Wire& wire, MemoryLedger& ledger)
    : slot_bytes_(
          std::min(switches.bucket_bytes(), align_up(std::max<std::uint64_t>(1, wire.largest_bucket), 4096))),
      slots_(switches.double_buffer ? 2 : 1),
      ledger_(&ledger) {}

BucketBuffers::~BucketBuffers() {
  release();
}

BucketBuffers::Slot& BucketBuffers::slot_for(std::size_t bucket) {
  Slot& slot = slot_[index_for(bucket)];
  if (!slot.memory) {
    slot.memory = transport::SharedMemory::create(slot_bytes_ + kGuardBytes, "a staging buffer");
    ledger_->add(slot_bytes_);
    const std::span<std::byte> guard = slot.memory.bytes().subspan(slot_bytes_, kGuardBytes);
    std::fill(guard.begin(), guard.end(), kGuard);
  }
  return slot;
}

bool BucketBuffers::guards_intact() const {
  return std::all_of(slot_.begin(), slot_.end(), [&](const Slot& slot) {
    if (!slot.memory) return true;
    const std::span<std::byte> guard = slot.memory.bytes().subspan(slot_bytes_, kGuardBytes);
    return std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kGuard; });
  });
}

void BucketBuffers::release() {
  for (Slot& slot : slot_) {
    if (slot.memory) ledger_->remove(slot_bytes_);
    slot = Slot{};
  }
}

}  // namespace refit::run
