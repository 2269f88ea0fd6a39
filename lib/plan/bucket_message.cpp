// The body of one bucket's message. Integers are little-endian and have no padding between them:
//
//   body        u8 form (1 key list, 2 offset map), u32 number of keys, keys
//   key list    u32 length, name
//   offset map  u32 length, name | u32 length, dtype | u32 rank, u64 dimensions | u64 offset | u64 bytes
#include <fmt/format.h>

#include <cstring>

#include "base/json.hpp"
#include "plan/byte_writer.hpp"
#include "plan/key_order.hpp"
#include "refit/base/error.hpp"
#include "refit/plan/wire.hpp"

namespace refit::plan {
namespace {

std::uint8_t form_of(Metadata metadata) noexcept {
  return metadata == Metadata::key_list ? 1 : 2;
}

std::size_t encoded_bytes(const WireEntry& entry, Metadata metadata) {
  const std::size_t name = sizeof(std::uint32_t) + entry.name.size();
  if (metadata == Metadata::key_list) return name;
  return name + 2 * sizeof(std::uint32_t) + name_of(entry.dtype).size() +
         (entry.shape.size() + 2) * sizeof(std::uint64_t);
}

/// Reads a message of a peer: no length in it is believed before it is checked.
class Cursor {
 public:
  Cursor(std::string_view body, std::size_t bucket) : rest_(body), bucket_(bucket) {}

  template <class Integer>
  Integer take(const char* what) {
    const std::string_view raw = take_bytes(sizeof(Integer), what);
    Integer value;
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string_view take_text(const char* what) { return take_bytes(take<std::uint32_t>(what), what); }

  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::string_view take_bytes(std::size_t count, const char* what) {
    if (count > rest_.size()) {
      fail_input(fmt::format("The message of bucket {} is truncated: {} needs {} bytes and {} are left.",
                             bucket_, what, count, rest_.size()));
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  std::size_t bucket_;
};

/// What an offset map says of a key after its name.
struct Described {
  std::string_view dtype;
  Shape shape;
  std::uint64_t offset = 0, bytes = 0;
};

Described take_described(Cursor& cursor) {
  constexpr std::uint32_t max_rank = 16;
  Described said;
  said.dtype = cursor.take_text("a dtype");
  const auto rank = cursor.take<std::uint32_t>("a rank");
  if (rank > max_rank) {
    fail_input(
        fmt::format("A bucket's message names a tensor of {} dimensions; {} are the most.", rank, max_rank));
  }
  for (std::uint32_t i = 0; i < rank; ++i) said.shape.push_back(cursor.take<std::uint64_t>("a dimension"));
  said.offset = cursor.take<std::uint64_t>("an offset");
  said.bytes = cursor.take<std::uint64_t>("a size");
  return said;
}

void check_described(const Described& said, const WireEntry& entry, std::uint64_t offset) {
  const auto fail = [&](std::string_view what, const std::string& got, const std::string& expected) {
    fail_input(fmt::format("The offset map gives {} the {} {}, but it is {} here.", entry.name, what, got,
                           expected));
  };
  if (said.dtype != name_of(entry.dtype)) {
    fail("dtype", json_quoted(said.dtype), std::string(name_of(entry.dtype)));
  }
  if (said.shape != entry.shape) fail("shape", to_string(said.shape), to_string(entry.shape));
  if (said.offset != offset) fail("offset", std::to_string(said.offset), std::to_string(offset));
  if (said.bytes != entry.bytes) fail("size", std::to_string(said.bytes), std::to_string(entry.bytes));
}

/// Whether `name` is among the next `keys` keys.
bool comes_later(Cursor cursor, std::uint32_t keys, Metadata metadata, std::string_view name) {
  for (std::uint32_t i = 0; i < keys; ++i) {
    if (cursor.take_text("a key") == name) return true;
    if (metadata == Metadata::offset_map) take_described(cursor);
  }
  return false;
}

}  // namespace

std::string encode_bucket(const Wire& wire, std::size_t bucket, Metadata metadata) {
  const Bucket& what = wire.buckets[bucket];
  std::size_t size = sizeof(std::uint8_t) + sizeof(std::uint32_t);
  for (std::uint32_t i = 0; i < what.entries; ++i) {
    size += encoded_bytes(wire.entries[what.first_entry + i], metadata);
  }
  ByteWriter out(size);
  out.put(form_of(metadata));
  out.put(what.entries);
  for (std::uint32_t i = 0; i < what.entries; ++i) {
    const WireEntry& entry = wire.entries[what.first_entry + i];
    out.put_text(entry.name);
    if (metadata == Metadata::key_list) continue;
    out.put_text(name_of(entry.dtype));
    out.put(static_cast<std::uint32_t>(entry.shape.size()));
    for (const std::uint64_t dimension : entry.shape) out.put(dimension);
    out.put(wire.offsets[what.first_entry + i]);
    out.put(entry.bytes);
  }
  return out.take();
}

KeyReader::KeyReader(const Wire& wire) : wire_(&wire) {}

void KeyReader::reset() {
  next_entry_ = 0;
  next_bucket_ = 0;
}

const Bucket& KeyReader::read(std::string_view body, std::uint64_t used_bytes, Metadata metadata) {
  static constexpr Bucket none;
  const bool after_last = next_bucket_ == wire_->buckets.size();
  const Bucket& bucket = after_last ? none : wire_->buckets[next_bucket_];
  const auto fail = [&](const std::string& reason) {
    fail_input(fmt::format("The message of bucket {} has {}.", next_bucket_, reason));
  };

  Cursor cursor(body, next_bucket_);
  const auto form = cursor.take<std::uint8_t>("the form");
  if (form != form_of(metadata)) fail(fmt::format("the form {}, not {}", form, form_of(metadata)));
  const auto keys = cursor.take<std::uint32_t>("the number of keys");
  for (std::uint32_t i = 0; i < keys; ++i) {
    const std::string_view key = cursor.take_text("a key");
    const std::uint32_t at = next_entry_ + i;
    if (i == bucket.entries) fail(describe_extra_key(*wire_, at, key));
    const WireEntry& entry = wire_->entries[at];
    if (key != entry.name) {
      if (metadata == Metadata::offset_map) take_described(cursor);
      fail(describe_wrong_key(*wire_, at, key, comes_later(cursor, keys - i - 1, metadata, entry.name)));
    }
    if (metadata == Metadata::offset_map) check_described(take_described(cursor), entry, wire_->offsets[at]);
  }
  if (keys < bucket.entries) {
    fail(fmt::format("{} keys of {}: missing key {}", keys, bucket.entries,
                     wire_->entries[next_entry_ + keys].name));
  }
  if (cursor.left() != 0) fail(fmt::format("{} bytes after its last key", cursor.left()));
  if (after_last) fail("no bucket left to describe, all have come");
  if (used_bytes != bucket.used_bytes) {
    fail(fmt::format("{} used bytes, but the keys {} need {}", used_bytes,
                     bucket.entries == 0 ? "none" : "from " + wire_->entries[next_entry_].name + " on",
                     bucket.used_bytes));
  }
  next_entry_ += bucket.entries;
  ++next_bucket_;
  return bucket;
}

void KeyReader::finish() const {
  if (next_entry_ == wire_->entries.size()) return;
  fail_input(fmt::format("The refit ended after {} of {} keys: missing key {}.", next_entry_,
                         wire_->entries.size(), wire_->entries[next_entry_].name));
}

}  // namespace refit::plan
