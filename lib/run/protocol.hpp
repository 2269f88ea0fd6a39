// What trainer and generator say to each other. Control bodies are JSON text; a bucket's body is binary
// (below).
//
//   trainer                         generator
//     hello {spec}          ---->     builds the same plan
//                           <----     ready {plan digests, sizes} + parameter memory + version page
//     begin {arm, version}  ---->     marks the parameters torn
//                           <----     begun
//     bucket ... (staged)   ---->     load
//                           <----     acknowledge {slot}
//     complete              ---->     shuffle, swizzle, commit
//                           <----     committed {version, stages} + evidence
//     recall {arm}          ---->
//                           <----     recording: the stages of the arm's last timed refit
//     goodbye               ---->     ends
//   Either side may say failure {text} instead of what is due, and stops.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "refit/plan/switches.hpp"
#include "refit/plan/wire.hpp"
#include "refit/transport/unix_channel.hpp"

namespace refit::run {

using Seconds = std::chrono::duration<double>;

/// Both sides refuse another number before the first byte.
inline constexpr std::uint32_t kProtocolVersion = 1;

enum class MessageType : std::uint32_t {
  hello = 1,
  ready,
  manifest,
  begin,
  begun,
  bucket,
  acknowledge,
  complete,
  committed,
  goodbye,
  failure,
  recall,
  recording,
};
[[nodiscard]] const char* name_of(MessageType type) noexcept;

/// Sends and receives typed messages with one time limit for each wait, and turns a peer's failure into an
/// Error.
class Conversation {
 public:
  Conversation(transport::UnixChannel channel, double timeout_s)
      : channel_(std::move(channel)), timeout_s_(timeout_s) {}

  void send(MessageType type, std::string_view body, const std::vector<int>& fds = {});
  /// The next message, which has to be of this type. Error(runtime) with the peer's own words after a failure
  /// message.
  [[nodiscard]] transport::Message expect(MessageType type);
  /// The next message of any type but failure, waiting up to `seconds`.
  [[nodiscard]] transport::Message next(double seconds);
  [[nodiscard]] transport::Message next() { return next(timeout_s_); }
  [[nodiscard]] bool ready() const { return channel_.ready(); }
  [[nodiscard]] double timeout() const noexcept { return timeout_s_; }
  /// The end of a wait for a device that begins now: it comes first, so that the peer, which waits as long
  /// for this side, hears why.
  [[nodiscard]] Deadline device_deadline() const {
    return Deadline::after(Seconds(kDeviceShare * timeout_s_));
  }
  static constexpr double kDeviceShare = 0.75;
  void set_timeout(double seconds) noexcept { timeout_s_ = seconds; }

  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  [[nodiscard]] std::uint64_t message_bytes() const noexcept { return message_bytes_; }

 private:
  transport::UnixChannel channel_;
  double timeout_s_;
  std::uint64_t messages_ = 0, message_bytes_ = 0;
};

// --- bucket messages
// ------------------------------------------------------------------------------------------------ u32 slot |
// u8 announces | u64 used_bytes | u64 buffer_bytes | u64 memory_bytes | u16 length and bytes of the slot's
// token (once for each allocation, with the descriptor if it has one) | u32 number of handles | handles | key
// list or offset map (plan/wire) A handle is, arguments_only: u64 offset, u64 bytes; with_function: u16
// length, the rebuild function's name, u16 length, its arguments as decimal text "(offset, bytes)", as a
// pickled reduce tuple names its function.

struct BucketHandle {
  std::uint64_t offset = 0, bytes = 0;
};

struct BucketMessage {
  std::uint32_t slot = 0;
  std::uint64_t used_bytes = 0, buffer_bytes = 0;
  std::uint64_t memory_bytes = 0;  ///< of the allocation that holds the buffer
  bool announces = false;          ///< the slot's memory is new: its handle comes with this message
  std::string_view token;          ///< a view into the message body, or what to send
  std::vector<BucketHandle> handles;
  std::string_view keys;  ///< a view into the message body
};

[[nodiscard]] std::string encode_bucket_message(const BucketMessage& message, plan::HandleEncoding encoding);
/// Throws Error(input) for anything truncated, out of range or naming an unknown rebuild function.
[[nodiscard]] BucketMessage decode_bucket_message(std::string_view body, plan::HandleEncoding encoding);

}  // namespace refit::run
