// The bodies of the control messages around a refit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/time/timeline.hpp"
#include "refit/verify/verify.hpp"
#include "run/memory_ledger.hpp"
#include "run/receiver.hpp"

namespace refit::run {

/// ready: what the generator computed and allocated. Comes with the parameter sets' descriptors and the
/// version page's.
struct ReadyRecord {
  std::uint64_t plan_digest[2] = {0, 0};  ///< of the control and the treatment arm
  std::uint64_t parameter_bytes = 0;      ///< of one set
  std::uint32_t sets = 1;                 ///< 2 when an arm commits by shadow
  /// Of each set's memory; a set that has a descriptor sends it beside this record, in the same order.
  struct SetHandle {
    std::string token;
    bool has_fd = false;
  };
  std::vector<SetHandle> handles;
};

struct BeginRecord {
  std::uint32_t arm = 0;
  std::uint64_t version = 0;
  bool verify = false;
  bool profile = false;     ///< measure stages on the device
  std::uint8_t poison = 0;  ///< for what the generator keeps to itself, when verifying
};

struct BegunRecord {
  std::uint32_t set = 0;  ///< the parameter set that this refit writes
};

/// committed: what the generator did, and its evidence when the refit is verified.
struct CommittedRecord {
  struct Stage {
    std::string name;
    double seconds = 0;
    std::uint64_t bytes = 0, launches = 0;
  };
  std::uint64_t version = 0;
  double wall = 0, unattributed = 0;
  std::vector<Stage> stages;
  std::vector<device::StageTime> device_stages;  ///< when profiling
  std::uint64_t peak_extra_bytes = 0, handles_opened = 0;
  std::uint64_t handles_left = 0;  ///< opened and not closed, after the refit
  bool fault_acted = false;
  ReceiverEvidence evidence;
  std::vector<std::uint64_t> destination_digests;
};

/// recall: asks for what was kept of the arm's last timed refit.
struct RecallRecord {
  std::uint32_t arm = 0;
};

/// recording: the answer.
struct KeptRecord {
  Recording recording;
  std::vector<MemoryChange> memory;
};

/// What this process kept, with the bytes that the backend takes for itself.
[[nodiscard]] KeptRecord kept_of(const Timeline& timeline, const MemoryLedger& ledger,
                                 const device::Backend& backend);

[[nodiscard]] std::string encode(const ReadyRecord& record);
[[nodiscard]] std::string encode(const BeginRecord& record);
[[nodiscard]] std::string encode(const BegunRecord& record);
[[nodiscard]] std::string encode(const CommittedRecord& record);
[[nodiscard]] std::string encode(const RecallRecord& record);
[[nodiscard]] std::string encode(const KeptRecord& record);
/// Each throws Error(runtime) naming the message when its body cannot be read.
[[nodiscard]] ReadyRecord decode_ready(std::string_view body);
[[nodiscard]] BeginRecord decode_begin(std::string_view body);
[[nodiscard]] BegunRecord decode_begun(std::string_view body);
[[nodiscard]] CommittedRecord decode_committed(std::string_view body);
[[nodiscard]] RecallRecord decode_recall(std::string_view body);
[[nodiscard]] KeptRecord decode_kept(std::string_view body);

}  // namespace refit::run
