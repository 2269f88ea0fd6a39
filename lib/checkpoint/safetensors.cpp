// One safetensors file, mapped.
#include "refit/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

#include "base/json.hpp"
#include "checkpoint/mapping.hpp"
#include "refit/base/error.hpp"

namespace refit::checkpoint {
namespace {

/// The checked header; where the file changed meanwhile, that is what is wrong.
std::vector<Entry> read_header(const Mapping& mapping, const std::string& place,
                               std::map<std::string, std::string>& metadata) {
  try {
    return parse_header(mapping.bytes(), place, &metadata);
  } catch (const Error&) {
    mapping.check_unchanged();
    throw;
  }
}

}  // namespace

struct SafetensorsFile::State {
  explicit State(const std::string& file_path)
      : path(file_path), mapping(file_path), entries(read_header(mapping, file_path, metadata)) {
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

void SafetensorsFile::check_unchanged() const {
  state_->mapping.check_unchanged();
}

}  // namespace refit::checkpoint
