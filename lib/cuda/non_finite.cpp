// From the smallest number that kernels reported to a sentence about a tensor.
#include "cuda/non_finite.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/check.hpp"
#include "device/non_finite.hpp"

namespace refit::cuda {
namespace {

/// As kernels/grouped.hpp reports it: task << 36 | element.
constexpr unsigned kElementBits = 36;
constexpr std::uint64_t kNothing = ~std::uint64_t{0};

}  // namespace

NonFinite::NonFinite(const SessionPtr& session)
    : session_(session),
      device_(session, sizeof(std::uint64_t), "the word for non-finite weights"),
      host_(sizeof(std::uint64_t), "the word for non-finite weights") {
  reset();
}

void NonFinite::reset() {
  check(cudaMemsetAsync(device_.data(), 0xFF, device_.size(), session_->stream()),
        "clearing the word for non-finite weights");
}

NonFinite::Names NonFinite::names_of(std::span<const device::Task> tasks) {
  const auto refuses = [](const device::Task& task) {
    return task.op == device::Op::quantize && task.options.non_finite == quant::NonFinite::refuse;
  };
  if (std::none_of(tasks.begin(), tasks.end(), refuses)) return nullptr;
  auto names = std::make_shared<std::vector<Named>>();
  names->reserve(tasks.size());
  for (const device::Task& task : tasks) {
    names->push_back({task.tensor, task.from, task.first_row, task.cols, task.row_bytes});
  }
  return names;
}

unsigned long long* NonFinite::word() const noexcept {
  return reinterpret_cast<unsigned long long*>(device_.data());
}

std::uint64_t NonFinite::begin_launch(const Names& names) {
  const std::uint64_t id_base = next_id_;
  if (names) {
    launches_.push_back({id_base, names});
    next_id_ += names->size();
  }
  return id_base;
}

void NonFinite::ask() {
  if (launches_.empty()) return;
  check(cudaMemcpyAsync(host_.data(), device_.data(), device_.size(), cudaMemcpyDeviceToHost,
                        session_->stream()),
        "asking for non-finite weights");
}

void NonFinite::judge() {
  if (launches_.empty()) return;
  std::uint64_t report = kNothing;
  std::memcpy(&report, host_.data(), sizeof(report));
  const std::vector<Launch> launches = std::exchange(launches_, {});
  next_id_ = 0;
  if (report == kNothing) return;
  reset();
  const std::uint64_t id = report >> kElementBits;
  const std::uint64_t element = report & ((std::uint64_t{1} << kElementBits) - 1);
  const auto behind =
      std::upper_bound(launches.begin(), launches.end(), id,
                       [](std::uint64_t value, const Launch& launch) { return value < launch.id_base; });
  const Launch& launch = *std::prev(behind);
  const Named& named = launch.names->at(id - launch.id_base);

  // The row comes here, so that the sentence is the one that the host's path says.
  std::vector<std::byte> row(named.cols * sizeof(std::uint16_t));
  const std::uint64_t r = element / named.cols;
  session_->read(row, named.from + r * named.row_bytes);
  device::Task task;
  task.from = row.data();
  task.rows = 1;
  task.cols = named.cols;
  task.row_bytes = row.size();
  task.tensor = named.tensor;
  task.first_row = named.first_row + r;
  device::refuse_non_finite(task);
}

}  // namespace refit::cuda
