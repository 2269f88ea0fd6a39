// One safetensors file, mapped.
#include "refit/checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <string_view>
#include <unordered_map>

#include "base/file.hpp"
#include "base/json.hpp"
#include "refit/base/error.hpp"

namespace refit::checkpoint {
namespace {

/// A whole file, read-only. The mapping outlives the descriptor.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const ReadableFile file(path, O_NONBLOCK);  // opening a pipe would wait for its writer
    if (!file.is_regular())
      fail_input(fmt::format("{}: is not a regular file, and only those can be mapped", path));
    size_ = static_cast<std::size_t>(file.size());
    if (size_ == 0) return;  // mmap refuses a length of 0
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd(), 0);
    if (address == MAP_FAILED)
      fail_errno(path, fmt::format("cannot map the {} bytes of the file", size_), errno);
    data_ = static_cast<const std::byte*>(address);
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace

struct SafetensorsFile::State {
  explicit State(const std::string& file_path)
      : path(file_path), mapping(file_path), entries(parse_header(mapping.bytes(), file_path, &metadata)) {
    const std::uint64_t data_bytes = entries.empty() ? 0 : entries.back().end;
    data = mapping.bytes().last(static_cast<std::size_t>(data_bytes));
    for (const Entry& entry : entries) by_name.emplace(entry.spec.name, &entry);
  }

  std::string path;
  Mapping mapping;
  std::map<std::string, std::string> metadata;  // before `entries`, whose initialization fills it
  std::vector<Entry> entries;
  std::span<const std::byte> data;  // exactly covered by the tensors, so it ends where the last one does
  std::unordered_map<std::string_view, const Entry*> by_name;
};

SafetensorsFile::SafetensorsFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  return SafetensorsFile(std::make_unique<State>(path));
}

const std::string& SafetensorsFile::path() const noexcept {
  return state_->path;
}
const std::vector<Entry>& SafetensorsFile::entries() const noexcept {
  return state_->entries;
}
const std::map<std::string, std::string>& SafetensorsFile::metadata() const noexcept {
  return state_->metadata;
}

bool SafetensorsFile::contains(const std::string& name) const noexcept {
  return state_->by_name.find(name) != state_->by_name.end();
}

const Entry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = state_->by_name.find(name);
  if (found == state_->by_name.end()) {
    fail_input(fmt::format("{}: has no tensor {}", state_->path, json_quoted(name)));
  }
  return *found->second;
}

std::span<const std::byte> SafetensorsFile::data(const Entry& entry) const noexcept {
  return state_->data.subspan(static_cast<std::size_t>(entry.begin),
                              static_cast<std::size_t>(entry.end - entry.begin));
}

std::span<const std::byte> SafetensorsFile::data(const std::string& name) const {
  return data(entry(name));
}

}  // namespace refit::checkpoint
