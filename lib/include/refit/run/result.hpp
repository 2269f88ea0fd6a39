// What a bench measured: plain values, every sample kept. The report module turns them into JSON and a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "refit/device/backend.hpp"
#include "refit/plan/switches.hpp"
#include "refit/time/timeline.hpp"
#include "refit/verify/verify.hpp"

namespace refit::run {

enum class Role : std::uint8_t { trainer, generator };
[[nodiscard]] constexpr const char* name_of(Role role) noexcept {
  return role == Role::trainer ? "trainer" : "generator";
}

/// One stage on one process's control thread. One sample a measured step; bytes and launches are of one step.
struct StageSamples {
  /// trainer: allocate, gather, quantize, pack, synchronize (waiting for its own device), publish, wait;
  /// transfer (direct: quantize, permute, swizzle and store in one pass). generator: wait, open (handles),
  /// load, quantize (prequantize=off), shuffle, swizzle, synchronize, commit.
  std::string name;
  Role role = Role::trainer;
  std::vector<double> seconds;
  std::uint64_t bytes =
      0;  ///< what the stage has to move: each byte read once + each byte written once; 0: none
  std::uint64_t launches = 0;  ///< calls into the data path
  /// By the device's own events, in the last warm-up refit; nothing where the host's clock says it all.
  std::optional<double> device_seconds{};
};

/// A timed phase that this bench ran. Keys are NeMo-RL's timer names.
struct PhaseSamples {
  std::vector<double> seconds;
  std::uint64_t floor_bytes = 0;  ///< bytes that the plan needs; 0: no floor
  bool stand_in = false;          ///< host-memory copies in place of device traffic
  std::uint64_t link_bytes = 0;   ///< what crosses between ranks one way, of the rank with most; 0: none does
};

/// More changes of memory than this share points, none of which is below what was held.
inline constexpr std::size_t kMostMemoryPoints = 2000;

/// Bytes that a process holds beside sources and final parameters from then on, in seconds since the
/// trainer's refit began.
struct MemoryPoint {
  double seconds = 0;
  std::uint64_t bytes = 0;
};

struct ArmResult {
  plan::Switches switches;
  std::vector<std::string> inapplicable;       ///< switches that this pipeline does not look at
  std::map<std::string, PhaseSamples> phases;  ///< measured here only
  std::vector<StageSamples> stages;
  struct RoleTime {
    std::vector<double> wall, unattributed;  ///< of one process's control thread, a sample a step
    Recording last{};                        ///< of the last measured refit, where spans are kept
    /// Of the last measured refit, at most kMostMemoryPoints: what was held as it began, every change, what
    /// was held as it ended. Empty where nobody counted.
    std::vector<MemoryPoint> memory{};
  };
  RoleTime trainer, generator;
  std::uint64_t wire_bytes = 0;     ///< payload that crosses between the processes in one refit
  std::uint64_t message_bytes = 0;  ///< control messages of one refit: keys, handles, acknowledgements
  std::uint64_t messages = 0, buckets = 0, handles_opened = 0;
  std::uint64_t handles_left = 0;      ///< the generator's open handles after the last refit
  std::uint64_t peak_extra_bytes = 0;  ///< both processes, beside sources and final parameters
  verify::Verdict verdict;
  unsigned verified_refits = 0;  ///< 0: not verified
  /// digest() over the digests of all parameters after the last verified refit: the same on every backend.
  std::uint64_t parameters_digest = 0;
  double verify_seconds = 0;  ///< that judging the last of them took, besides the refits themselves
  bool fault_acted = false;   ///< the planted fault found something to act on
};

/// memcpy of arrays far larger than the last-level cache where memory allows, with the threads of the run.
struct CopyBandwidth {
  double bytes_per_second = 0;  ///< bytes read + bytes written, the median repetition
  std::vector<double> samples;  ///< bytes per second of each repetition, before and after the steps
  std::uint64_t array_bytes = 0;
  unsigned threads = 0;  ///< 0: not the CPU's
  /// Between the device and pinned host memory, bytes moved; empty on the CPU.
  std::vector<double> to_host{}, from_host{};
  std::vector<double> peer{};  ///< to another GPU, bytes moved; empty without one
};

struct BenchResult {
  ArmResult control, treatment;
  unsigned warmup = 0;                                   ///< first steps, run but not among the samples
  unsigned steps = 0;                                    ///< measured steps of each arm
  bool stopped_early = false;                            ///< the time budget ended before all steps asked for
  std::vector<double> warmup_control, warmup_treatment;  ///< transfer_and_update_weights of the warm-up steps
  CopyBandwidth copy;
  device::Choice backend;
  device::Description device;
  device::Clocks clocks_before, clocks_after;
  std::uint64_t source_bytes = 0, destination_bytes = 0;  ///< of the replayed plan
  double seconds = 0;                                     ///< the whole bench
};

}  // namespace refit::run
