// Tensors cut into shards, their places, and the account of what was written.
#include "refit/checkpoint/writer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "checkpoint/file_names.hpp"
#include "checkpoint/index.hpp"
#include "checkpoint/output_file.hpp"
#include "checkpoint/staging.hpp"
#include "refit/base/digest.hpp"
#include "refit/base/error.hpp"
#include "refit/checkpoint/safetensors.hpp"

namespace refit::checkpoint {
namespace {

/// Consecutive tensors [first, last) that share a file.
struct Range {
  std::size_t first = 0, last = 0;
  std::uint64_t bytes = 0;
};

std::vector<Range> cut(const std::vector<TensorSpec>& tensors, std::uint64_t shard_bytes) {
  std::vector<Range> ranges(1);
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t bytes = tensor.bytes();
    if (ranges.back().bytes > 0 && bytes > shard_bytes - std::min(shard_bytes, ranges.back().bytes)) {
      ranges.push_back({ranges.back().last, ranges.back().last, 0});
    }
    ranges.back().bytes += bytes;
    ++ranges.back().last;
  }
  return ranges;
}

/// What make_header refuses of one file, of all of them.
std::uint64_t checked_total(const std::vector<TensorSpec>& tensors) {
  std::unordered_set<std::string_view> names;
  std::uint64_t total = 0;
  for (const TensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      fail_input(fmt::format("a checkpoint cannot hold a second {}", json_quoted(tensor.name)));
    }
    total += tensor.bytes();  // both are at most 2^63
    if (total > std::uint64_t{1} << 63) {
      fail_input(fmt::format("a checkpoint that ends with tensor {} would have more than 2^63 bytes",
                             json_quoted(tensor.name)));
    }
  }
  return total;
}

/// Where one tensor is, and how much of it.
struct Slot {
  std::size_t shard = 0;
  std::uint64_t begin = 0, bytes = 0;  // in the file
  std::atomic<std::uint64_t> claimed = 0;
  /// The sum of edge(end) - edge(begin) over all that was written. Pieces that meet cancel at their common
  /// edge; what is written twice or left out does not.
  std::atomic<std::uint64_t> edges = 0;

  static std::uint64_t edge(std::uint64_t offset) { return mix64(offset + 0x9E3779B97F4A7C15ull); }
  [[nodiscard]] bool is_complete() const { return claimed == bytes && edges == edge(bytes) - edge(0); }
};

/// One file. Its descriptor is open from its first byte to its last, so that a checkpoint may have more
/// shards than a process descriptors.
struct Shard {
  std::string path;
  std::mutex mutex;  // of `file`
  std::optional<OutputFile> file;
  std::atomic<std::uint64_t> missing = 0;
};

}  // namespace

struct Writer::State {
  State(const std::string& path, Staging::Kind kind, std::vector<TensorSpec> tensors, const Options& options)
      : total(checked_total(tensors)),
        specs(std::move(tensors)),
        is_directory(kind == Staging::Kind::directory),
        ranges(cut(specs, is_directory ? options.shard_bytes : ~0ull)),
        staging(path, kind, options.overwrite),
        slots(specs.size()),
        shards(ranges.size()) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      shards[i].path = is_directory ? path_of(shard_name(i)) : staging.path();
      begin_shard(i, options.metadata);
    }
    if (shards.size() > 1) write_index();
  }

  [[nodiscard]] std::string path_of(std::string_view name) const {
    return fmt::format("{}/{}", staging.path(), name);
  }

  [[nodiscard]] std::string shard_name(std::size_t number) const {
    if (shards.size() == 1) return std::string(single_name);
    return fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, shards.size());
  }

  /// The header and room for the rest.
  void begin_shard(std::size_t number, const std::map<std::string, std::string>& metadata) {
    const Range& range = ranges[number];
    const auto first = specs.begin();
    const std::string header = make_header(
        {first + static_cast<std::ptrdiff_t>(range.first), first + static_cast<std::ptrdiff_t>(range.last)},
        metadata);
    std::uint64_t place = header.size();
    for (std::size_t t = range.first; t < range.last; ++t) {
      slots[t].shard = number;
      slots[t].begin = place;
      slots[t].bytes = specs[t].bytes();
      place += slots[t].bytes;
    }
    OutputFile file(shards[number].path, is_directory, staging.target());
    file.reserve(place);
    file.write_at(0, std::as_bytes(std::span(header)));
    shards[number].missing = range.bytes;
    if (range.bytes == 0) file.sync();
  }

  void write_index() const {
    Index index;
    index.total_size = total;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      std::vector<std::string>& names = index.shards[shard_name(i)];
      for (std::size_t t = ranges[i].first; t < ranges[i].last; ++t) names.push_back(specs[t].name);
    }
    write_text(index_name, make_index(index));
  }

  void write_text(std::string_view name, std::string_view text) const {
    OutputFile file(path_of(name), true, staging.target());
    file.write_at(0, std::as_bytes(std::span(text)));
    file.sync();
  }

  OutputFile& open(Shard& shard) {
    const std::lock_guard lock(shard.mutex);
    if (!shard.file) shard.file.emplace(shard.path, false, staging.target());
    return *shard.file;
  }

  void finish(Shard& shard) {
    const std::lock_guard lock(shard.mutex);
    shard.file->sync();
    shard.file.reset();
  }

  /// That `name` can be a further file.
  void require_further_file(const std::string& name) const {
    const auto refuse = [&](std::string_view why) {
      fail_input(fmt::format("cannot put a file {} into {}: {}", json_quoted(name), staging.target(), why));
    };
    if (!is_directory) refuse("it is not a directory");
    if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos ||
        name.find('\0') != name.npos) {
      refuse("that is not a file name");
    }
    if (name == index_name) refuse("the index is written with the shards");
    if (!is_checkpoint_file(name)) refuse("a checkpoint has no such file");
  }

  const std::uint64_t total;
  const std::vector<TensorSpec> specs;
  const bool is_directory;
  const std::vector<Range> ranges;
  Staging staging;
  std::vector<Slot> slots;
  std::vector<Shard> shards;                // their files are closed before the staging removes them
  std::atomic<std::size_t> unfinished = 0;  ///< writes that go on or have failed
};

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer::~Writer() = default;

Writer Writer::file(const std::string& path, std::vector<TensorSpec> tensors, Options options) {
  return Writer(std::make_unique<State>(path, Staging::Kind::file, std::move(tensors), options));
}

Writer Writer::directory(const std::string& path, std::vector<TensorSpec> tensors, Options options) {
  return Writer(std::make_unique<State>(path, Staging::Kind::directory, std::move(tensors), options));
}

void Writer::write(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
  State& state = *state_;
  const auto refuse = [&](std::string_view why) {
    fail_runtime(fmt::format("{} was not written: bytes {} to {} of tensor number {}: {}",
                             state.staging.target(), offset, offset + bytes.size(), tensor, why));
  };
  ++state.unfinished;
  if (tensor >= state.slots.size()) refuse("there is no such tensor");
  Slot& slot = state.slots[tensor];
  if (offset > slot.bytes || bytes.size() > slot.bytes - offset) refuse("they are beyond its end");
  if (!bytes.empty()) {
    // Claimed before it is written: a shard is closed with its last byte, and nobody may write after that.
    if (slot.claimed.fetch_add(bytes.size()) > slot.bytes - bytes.size()) {
      refuse("more bytes than it has were given");
    }
    Shard& shard = state.shards[slot.shard];
    state.open(shard).write_at(slot.begin + offset, bytes);
    slot.edges += Slot::edge(offset + bytes.size()) - Slot::edge(offset);
    if (shard.missing.fetch_sub(bytes.size()) == bytes.size()) state.finish(shard);
  }
  --state.unfinished;
}

void Writer::add_text(const std::string& name, const std::string& text) {
  state_->require_further_file(name);
  state_->write_text(name, text);
}

void Writer::add_copy(const std::string& name, const std::string& from) {
  state_->require_further_file(name);
  const ReadableFile source(from);
  OutputFile copy(state_->path_of(name), true, state_->staging.target());
  std::vector<char> piece(std::size_t{1} << 20);
  for (std::uint64_t place = 0;;) {
    const ssize_t got = ::read(source.fd(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(from, "cannot read the file", errno);
    if (got == 0) break;
    copy.write_at(place, std::as_bytes(std::span(piece)).first(static_cast<std::size_t>(got)));
    place += static_cast<std::uint64_t>(got);
  }
  copy.sync();
}

void Writer::commit() {
  const auto refuse = [&](const std::string& why) {
    fail_runtime(fmt::format("{} was not written: {}", state_->staging.target(), why));
  };
  if (state_->staging.path().empty()) refuse("that was done before");
  if (state_->unfinished != 0) refuse("a write of a tensor failed or goes on");
  for (std::size_t t = 0; t < state_->slots.size(); ++t) {
    const Slot& slot = state_->slots[t];
    if (slot.is_complete()) continue;
    const bool is_short = slot.claimed < slot.bytes;
    refuse(fmt::format("of the {} bytes of tensor {}, {}", slot.bytes, json_quoted(state_->specs[t].name),
                       is_short ? fmt::format("only {} were given", slot.claimed.load())
                                : "some were given twice and others not"));
  }
  state_->staging.publish();
}

std::uint64_t Writer::bytes() const noexcept {
  return state_->total;
}

}  // namespace refit::checkpoint
