// Staging slots with a guard page's worth of pattern behind each.
#include "run/bucket_buffers.hpp"

#include <algorithm>

#include "refit/base/bytes.hpp"

namespace refit::run {
namespace {

constexpr std::uint64_t kGuardBytes = 4096;
constexpr std::byte kGuard{0xC3};

}  // namespace

BucketBuffers::BucketBuffers(device::Backend& backend, const plan::Switches& switches, const plan::Wire& wire,
                             MemoryLedger& ledger)
    : backend_(backend),
      slot_bytes_(
          std::min(switches.bucket_bytes(), align_up(std::max<std::uint64_t>(1, wire.largest_bucket), 4096))),
      slots_(switches.double_buffer ? 2 : 1),
      ledger_(ledger) {}

BucketBuffers::~BucketBuffers() {
  release();
}

BucketBuffers::Slot& BucketBuffers::slot_for(std::size_t bucket) {
  Slot& slot = slot_[index_for(bucket)];
  if (slot.memory == nullptr) {
    slot.memory = backend_.allocate(slot_bytes_ + kGuardBytes, "a staging buffer (buffer_size)");
    ledger_.add(slot_bytes_ + kGuardBytes);
    backend_.fill(slot.memory->bytes().subspan(slot_bytes_, kGuardBytes), kGuard);
  }
  return slot;
}

bool BucketBuffers::guards_intact() const {
  return std::all_of(slot_.begin(), slot_.end(), [&](const Slot& slot) {
    if (slot.memory == nullptr) return true;
    std::array<std::byte, kGuardBytes> guard;
    backend_.read(guard, slot.memory->bytes().data() + slot_bytes_);
    return std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == kGuard; });
  });
}

void BucketBuffers::release() {
  for (Slot& slot : slot_) {
    if (slot.memory != nullptr) ledger_.remove(slot.memory->bytes().size());
    slot = Slot{};
  }
}

}  // namespace refit::run
