// What a refit needs of the machine it runs on: memory two processes share, and work on it in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refit/device/checker.hpp"
#include "refit/device/memory.hpp"
#include "refit/device/task.hpp"
#include "refit/device/weights.hpp"
#include "refit/time/deadline.hpp"
#include "refit/transport/unix_channel.hpp"

namespace refit::device {

enum class Kind : std::uint8_t { cpu, cuda };
[[nodiscard]] std::string_view name_of(Kind kind) noexcept;  ///< "cpu", "cuda"
[[nodiscard]] std::optional<Kind> parse_kind(std::string_view name) noexcept;

/// How memory reaches the other process.
enum class Transport : std::uint8_t {
  shm,       ///< memfd over a Unix socket
  cuda_ipc,  ///< cudaMalloc and cudaIpcMemHandle
  cuda_vmm,  ///< cuMemCreate, exported as a POSIX descriptor over a Unix socket
};
[[nodiscard]] std::string_view name_of(Transport transport) noexcept;  ///< "shm", "cuda-ipc", "cuda-vmm"
[[nodiscard]] std::optional<Transport> parse_transport(std::string_view name) noexcept;

/// What a CPU backend's stand-ins for host traffic hold while there is any.
inline constexpr std::uint64_t kMoveWindowBytes = 64u << 20;

/// Which backend is meant. Both processes of a refit are given the same one.
struct Choice {
  Kind kind = Kind::cpu;
  Transport transport = Transport::shm;
  unsigned threads = 1;   ///< of the CPU backend
  int ordinal = 0;        ///< of the GPU
  double timeout_s = 60;  ///< the longest wait for a GPU in calls that take no deadline
};

/// What ran: for the report. Unknown numbers are empty.
struct Description {
  std::string name;  ///< "NVIDIA H200"; empty for the CPU, which the report's environment describes
  std::string compute_capability;  ///< "9.0"
  std::optional<std::uint64_t> memory_bytes, multiprocessors, l2_bytes;
  std::string driver, runtime;  ///< versions: "580.159.04", "13.0"
};

/// Clocks as they are; read, never set.
struct Clocks {
  std::optional<std::uint64_t> sm_mhz, memory_mhz, temperature_c, power_mw;
  std::vector<std::string> throttle_reasons;  ///< NVML's names of those that hold now; empty: none
};

/// Bytes per second of plain copies, one value a repetition.
struct CopySamples {
  std::uint64_t array_bytes = 0;
  std::vector<double> within;              ///< inside the backend's memory: bytes read + bytes written
  std::vector<double> to_host, from_host;  ///< pinned host memory, bytes moved; empty for the CPU
  std::vector<double> peer;  ///< to the next GPU that can be reached directly, bytes moved; empty without one
};

/// Device time of one stage, between the marks around it.
struct StageTime {
  std::string name;
  double seconds = 0;
};

struct PeerCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t bytes = 0;
};

struct HandleCounts {
  std::uint64_t opened = 0, closed = 0;
};

/// Work that is replayed: descriptors that already lie where they are needed.
class Program {
 public:
  virtual ~Program() = default;
};

/// One process's view of the machine. Not thread-safe. Work runs in the order in which it was asked for and
/// may be unfinished when a call returns; only finish() says that it is done. Every call throws
/// Error(runtime) with what was attempted and what the machine said.
class Backend {
 public:
  virtual ~Backend() = default;

  // --- memory. `what` names it in messages; too little memory is an Error(runtime) with asked, free and what
  // to shrink.
  /// Memory that a peer can open. Contents are undefined.
  [[nodiscard]] virtual std::unique_ptr<Memory> allocate(std::uint64_t bytes, const std::string& what) = 0;
  /// Memory of this process alone.
  [[nodiscard]] virtual std::unique_ptr<Memory> scratch(std::uint64_t bytes, const std::string& what) = 0;
  /// A peer's allocation.
  [[nodiscard]] virtual std::unique_ptr<Memory> open(const std::string& token, transport::UniqueFd fd,
                                                     std::uint64_t bytes, const std::string& what) = 0;
  /// Peers' allocations and windows opened and closed by this backend so far.
  [[nodiscard]] virtual HandleCounts handles() const noexcept = 0;
  /// What the backend holds for itself (descriptors, staging of descriptors), beside allocate() and
  /// scratch(). The window of the moves to and from host memory is not counted: it stands for tensors that a
  /// trainer has anyway.
  [[nodiscard]] virtual std::uint64_t own_bytes() const noexcept = 0;
  /// Bytes that new allocations can use now.
  [[nodiscard]] virtual std::uint64_t available_memory() const = 0;

  // --- work
  /// One launch for all of `tasks`.
  virtual void run(std::span<const Task> tasks) = 0;
  /// The same, with everything that can be done beforehand done.
  [[nodiscard]] virtual std::unique_ptr<Program> prepare(std::span<const Task> tasks) = 0;
  virtual void run(const Program& program) = 0;
  /// A plain copy within the backend's memory, as a framework's tensor.copy_ does it.
  virtual void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) = 0;
  /// Plain copies into memory that other ranks allocated: after everything that was asked for before, beside
  /// what is asked for later. finish() waits for them, too. Returns a number for after_copies().
  [[nodiscard]] virtual std::uint64_t copy_to_peers(std::span<const PeerCopy> copies) = 0;
  /// What is asked for later begins when these copies, and all before them, are done.
  virtual void after_copies(std::uint64_t number) = 0;
  virtual void shuffle_in_place(const Shuffle& what) = 0;
  /// The same bytes in every byte of the range.
  virtual void fill(std::span<std::byte> range, std::byte value) = 0;
  /// Waits until everything asked for is done, but not beyond the deadline. Error(input) naming tensor and
  /// element when a quantize task met an infinite or NaN element and its options refuse those.
  virtual void finish(Deadline deadline) = 0;
  /// Host copies of backend memory; both finish what was asked for before.
  virtual void read(std::span<std::byte> host, const std::byte* from) = 0;
  virtual void write(std::byte* to, std::span<const std::byte> host) = 0;
  /// Nothing that is asked for later begins before this time has passed: a slow reader, for tests.
  virtual void delay(double seconds) = 0;

  // --- weights (device/weights.hpp says which values)
  virtual void fill_weights(std::span<const WeightBox> boxes, std::uint64_t seed) = 0;
  virtual void update_weights(std::span<const WeightBox> boxes, std::uint64_t seed, std::uint64_t step) = 0;

  [[nodiscard]] virtual Checker& checker() = 0;

  // --- measuring
  /// What follows belongs to this stage (NVTX range; an event between profile() and stage_times()).
  virtual void stage(std::string_view name) = 0;
  /// Begins or stops measuring stages on the device itself; empty times where the host's clock says it all.
  virtual void profile(bool on) = 0;
  /// Device seconds by stage since profile(true); finishes first.
  [[nodiscard]] virtual std::vector<StageTime> stage_times() = 0;
  /// Copies `from` to `to` a few times; `to` loses its contents.
  [[nodiscard]] virtual CopySamples measure_copy(std::span<const std::byte> from,
                                                 std::span<std::byte> to) = 0;
  /// Moves `bytes` between the backend's memory and host memory, through a window of its own, and returns the
  /// seconds it took. Pinned: page-locked host memory that exists already; pageable: freshly mapped pages for
  /// every chunk, as a framework's .to("cpu") gets them.
  [[nodiscard]] virtual double move_to_host(std::uint64_t bytes, bool pinned) = 0;
  [[nodiscard]] virtual double move_from_host(std::uint64_t bytes, bool pinned) = 0;
  [[nodiscard]] virtual Description describe() const = 0;
  [[nodiscard]] virtual Clocks clocks() const = 0;
};

/// The reference backend: host memory, a pool of threads, memfds.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(unsigned threads);

}  // namespace refit::device
