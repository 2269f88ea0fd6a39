// Typed messages, and the binary form of a bucket's message.
#include "run/protocol.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <functional>
#include <map>

#include "refit/base/error.hpp"

namespace refit::run {

const char* name_of(MessageType type) noexcept {
  switch (type) {
    case MessageType::hello:
      return "hello";
    case MessageType::ready:
      return "ready";
    case MessageType::manifest:
      return "manifest";
    case MessageType::begin:
      return "begin";
    case MessageType::begun:
      return "begun";
    case MessageType::bucket:
      return "bucket";
    case MessageType::acknowledge:
      return "acknowledge";
    case MessageType::complete:
      return "complete";
    case MessageType::committed:
      return "committed";
    case MessageType::goodbye:
      return "goodbye";
    case MessageType::failure:
      return "failure";
    case MessageType::recall:
      return "recall";
    case MessageType::recording:
      return "recording";
  }
  return "unknown";
}

void Conversation::send(MessageType type, std::string_view body, const std::vector<int>& fds) {
  channel_.send(static_cast<std::uint32_t>(type), body, fds, Deadline::after(Seconds(timeout_s_)));
  ++messages_;
  message_bytes_ += body.size();
}

transport::Message Conversation::next(double seconds) {
  transport::Message message = channel_.receive(Deadline::after(Seconds(seconds)));
  ++messages_;
  message_bytes_ += message.body.size();
  if (static_cast<MessageType>(message.type) == MessageType::failure) {
    fail_runtime(fmt::format("the {} failed: {}", channel_.peer(), message.body));
  }
  return message;
}

transport::Message Conversation::expect(MessageType type) {
  transport::Message message = next();
  if (static_cast<MessageType>(message.type) != type) {
    fail_runtime(fmt::format("the {} sent '{}' where '{}' was due", channel_.peer(),
                             name_of(static_cast<MessageType>(message.type)), name_of(type)));
  }
  return message;
}

namespace {

constexpr std::string_view kRebuildFunction = "refit.transport.shared_memory.rebuild_view";

template <typename Integer>
void put(std::string& out, Integer value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof value);
}

class Cursor {
 public:
  explicit Cursor(std::string_view body) : rest_(body) {}
  template <typename Integer>
  Integer get() {
    Integer value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take(std::size_t bytes) {
    if (rest_.size() < bytes) fail_input("a bucket message ends in the middle of its header or handles");
    const std::string_view piece = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return piece;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

BucketHandle parse_view_arguments(std::string_view text) {
  BucketHandle handle;
  const char* const end = text.data() + text.size();
  const auto number = [&](const char* at, std::uint64_t& value) {
    const auto [after, error] = std::from_chars(at, end, value);
    if (error != std::errc{}) fail_input(fmt::format("a handle's arguments '{}' are not two numbers", text));
    return after;
  };
  if (text.empty() || text.front() != '(') {
    fail_input(fmt::format("a handle's arguments '{}' are not two numbers", text));
  }
  const char* at = number(text.data() + 1, handle.offset);
  if (end - at < 2 || at[0] != ',' || at[1] != ' ') {
    fail_input(fmt::format("a handle's arguments '{}' are not two numbers", text));
  }
  at = number(at + 2, handle.bytes);
  if (end - at != 1 || *at != ')') fail_input(fmt::format("a handle's arguments '{}' do not end", text));
  return handle;
}

/// The functions that a with_function handle may name, looked up for every handle.
const std::map<std::string, std::function<BucketHandle(std::string_view)>, std::less<>>& rebuild_functions() {
  static const std::map<std::string, std::function<BucketHandle(std::string_view)>, std::less<>> table = {
      {std::string(kRebuildFunction), parse_view_arguments}};
  return table;
}

}  // namespace

std::string encode_bucket_message(const BucketMessage& message, plan::HandleEncoding encoding) {
  std::string out;
  out.reserve(24 + message.handles.size() * 96 + message.keys.size());
  put(out, message.slot);
  put(out, static_cast<std::uint8_t>(message.announces));
  put(out, message.used_bytes);
  put(out, message.buffer_bytes);
  put(out, message.memory_bytes);
  put(out, static_cast<std::uint16_t>(message.token.size()));
  out.append(message.token);
  put(out, static_cast<std::uint32_t>(message.handles.size()));
  for (const BucketHandle& handle : message.handles) {
    if (encoding == plan::HandleEncoding::arguments_only) {
      put(out, handle.offset);
      put(out, handle.bytes);
      continue;
    }
    const std::string arguments = fmt::format("({}, {})", handle.offset, handle.bytes);
    put(out, static_cast<std::uint16_t>(kRebuildFunction.size()));
    out.append(kRebuildFunction);
    put(out, static_cast<std::uint16_t>(arguments.size()));
    out.append(arguments);
  }
  out.append(message.keys);
  return out;
}

BucketMessage decode_bucket_message(std::string_view body, plan::HandleEncoding encoding) {
  Cursor cursor(body);
  BucketMessage message;
  message.slot = cursor.get<std::uint32_t>();
  message.announces = cursor.get<std::uint8_t>() != 0;
  message.used_bytes = cursor.get<std::uint64_t>();
  message.buffer_bytes = cursor.get<std::uint64_t>();
  message.memory_bytes = cursor.get<std::uint64_t>();
  message.token = cursor.take(cursor.get<std::uint16_t>());
  const auto handles = cursor.get<std::uint32_t>();
  if (message.used_bytes > message.buffer_bytes) {
    fail_input(fmt::format("a bucket says it uses {} bytes of a buffer of {}", message.used_bytes,
                           message.buffer_bytes));
  }
  for (std::uint32_t i = 0; i < handles; ++i) {
    BucketHandle handle;
    if (encoding == plan::HandleEncoding::arguments_only) {
      handle.offset = cursor.get<std::uint64_t>();
      handle.bytes = cursor.get<std::uint64_t>();
    } else {
      const std::string_view function = cursor.take(cursor.get<std::uint16_t>());
      const std::string_view arguments = cursor.take(cursor.get<std::uint16_t>());
      const auto found = rebuild_functions().find(function);
      if (found == rebuild_functions().end()) {
        fail_input(fmt::format("a handle names the unknown rebuild function '{}'", function));
      }
      handle = found->second(arguments);
    }
    if (handle.offset > message.buffer_bytes || handle.bytes > message.buffer_bytes - handle.offset) {
      fail_input(fmt::format("a handle speaks of {} bytes at {} in a buffer of {}", handle.bytes,
                             handle.offset, message.buffer_bytes));
    }
    message.handles.push_back(handle);
  }
  message.keys = cursor.rest();
  return message;
}

}  // namespace refit::run
