// What a process held over time: bounded, never below the truth, and read back as it was sent.
#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "refit/base/error.hpp"
#include "run/memory_changes.hpp"
#include "run/records.hpp"
#include "support/catch.hpp"
#include "support/error_of.hpp"

using namespace refit;
using run::MemoryChange;
using run::MemoryChanges;

namespace {

Clock::time_point at(std::int64_t tick) {
  return Clock::time_point(Clock::duration(tick));
}

/// What a line says for a moment.
std::uint64_t held(std::span<const MemoryChange> line, Clock::time_point when) {
  const auto after = std::upper_bound(line.begin(), line.end(), when,
                                      [](Clock::time_point t, const MemoryChange& c) { return t < c.at; });
  REQUIRE(after != line.begin());
  return std::prev(after)->bytes;
}

std::uint64_t most(std::span<const MemoryChange> line) {
  return std::max_element(line.begin(), line.end(),
                          [](const auto& a, const auto& b) { return a.bytes < b.bytes; })
      ->bytes;
}

/// Keeps at most `room` of `truth`, which ends at its last change.
std::vector<MemoryChange> kept(const std::vector<MemoryChange>& truth, std::size_t room) {
  MemoryChanges changes;
  changes.reserve(room);
  changes.begin(truth.front().bytes, truth.front().at);
  for (std::size_t i = 1; i < truth.size(); ++i) changes.note(truth[i].bytes, truth[i].at);
  changes.end(truth.back().at);
  return {changes.changes().begin(), changes.changes().end()};
}

void check_line(const std::vector<MemoryChange>& line, const std::vector<MemoryChange>& truth,
                std::size_t room) {
  CHECK(line.size() <= room);
  CHECK(line.front().at == truth.front().at);
  CHECK(line.front().bytes == truth.front().bytes);
  CHECK(line.back().at == truth.back().at);
  CHECK(line.back().bytes == truth.back().bytes);
  CHECK(most(line) == most(truth));
  CHECK(std::is_sorted(line.begin(), line.end(), [](const auto& a, const auto& b) { return a.at < b.at; }));
  const bool below = std::any_of(truth.begin(), truth.end(),
                                 [&](const MemoryChange& c) { return held(line, c.at) < c.bytes; });
  CHECK(!below);
}

}  // namespace

TEST_CASE("a few changes are kept as they were, and what changes nothing is none") {
  MemoryChanges changes;
  changes.reserve(8);
  changes.begin(5, at(0));
  changes.note(9, at(1));
  changes.note(9, at(2));
  changes.note(5, at(3));
  changes.end(at(4));
  changes.note(77, at(5));
  const auto line = changes.changes();
  REQUIRE(line.size() == 4);
  CHECK(line[1].bytes == 9);
  CHECK(line[2].at == at(3));
  CHECK(line[3].at == at(4));
  CHECK(line[3].bytes == 5);
  changes.begin(1, at(10));
  changes.end(at(11));
  CHECK(changes.changes().size() == 2);
}

TEST_CASE("nothing is kept where nothing was asked for") {
  MemoryChanges changes;
  changes.begin(5, at(0));
  changes.note(9, at(1));
  changes.end(at(2));
  CHECK(changes.changes().empty());
}

TEST_CASE("more changes than there is room for keep every peak that can be, the largest always") {
  const std::size_t room = GENERATE(8, 9, 64, 2000);
  const unsigned seed = GENERATE(1u, 2u, 3u);
  CAPTURE(room, seed);
  std::mt19937 random(seed);
  std::vector<MemoryChange> truth{{at(0), 10}};
  for (std::int64_t tick = 0; truth.size() < 12'000;) {
    tick += 1 + static_cast<std::int64_t>(random() % 1000);
    truth.push_back({at(tick), random() % 100'000});
  }
  check_line(kept(truth, room), truth, room);
}

TEST_CASE("a short peak among ten thousand small changes is kept where it was") {
  std::vector<MemoryChange> truth{{at(0), 10}};
  for (std::int64_t i = 1; i <= 10'000; ++i) truth.push_back({at(1000 * i), i % 2 == 0 ? 10u : 20u});
  truth.insert(truth.begin() + 5000, {truth[4999].at + Clock::duration(1), 1'000'000});
  const std::vector<MemoryChange> line = kept(truth, 100);
  check_line(line, truth, 100);
  const auto peak =
      std::find_if(line.begin(), line.end(), [](const auto& c) { return c.bytes == 1'000'000; });
  REQUIRE(peak != line.end());
  CHECK(peak->at == truth[5000].at);
}

TEST_CASE("lines that only rise or only fall are thinned evenly") {
  std::vector<MemoryChange> rising, falling;
  for (std::int64_t i = 0; i < 5000; ++i) {
    rising.push_back({at(i), static_cast<std::uint64_t>(i)});
    falling.push_back({at(i), static_cast<std::uint64_t>(5000 - i)});
  }
  for (const auto* truth : {&rising, &falling}) {
    const std::vector<MemoryChange> line = kept(*truth, 256);
    check_line(line, *truth, 256);
    CHECK(line.size() > 128);
    // Nowhere more than an eighth of all steps above what was held.
    for (const MemoryChange& change : *truth) CHECK(held(line, change.at) <= change.bytes + 5000 / 8);
  }
}

TEST_CASE("a refit takes no memory for what it keeps") {
  MemoryChanges changes;
  changes.reserve(64);
  changes.begin(0, at(0));
  const MemoryChange* const place = changes.changes().data();
  for (std::int64_t i = 1; i < 10'000; ++i) changes.note(static_cast<std::uint64_t>(i * 7919 % 1009), at(i));
  changes.end(at(10'000));
  CHECK(changes.changes().data() == place);
}

TEST_CASE("what a generator kept survives encoding, and a cut one is refused") {
  run::KeptRecord record;
  record.recording.stages = {"wait"};
  record.recording.spans = {{0, 0.25, 0.5, 7, 1}};
  record.recording.start = at(123'456'789'012'345);
  record.memory = {{at(123'456'789'012'346), 0}, {at(123'456'789'999'999), std::uint64_t{1} << 40}};
  const std::string body = run::encode(record);
  const run::KeptRecord read = run::decode_kept(body);
  CHECK(read.recording.start == record.recording.start);
  REQUIRE(read.memory.size() == 2);
  CHECK(read.memory[0].at == record.memory[0].at);
  CHECK(read.memory[1].bytes == std::uint64_t{1} << 40);
  CHECK(read.recording.spans.size() == 1);
  const Error error = error_of([&] { (void)run::decode_kept(body.substr(0, body.size() / 2)); });
  CHECK(error.kind() == ErrorKind::runtime);
  CHECK(contains(error.what(), "recording"));
}
