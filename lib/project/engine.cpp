// Progress is linear between events, so only the next completion of each resource has to be known.
#include "project/engine.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>

namespace refit::project {
namespace {

struct Event {
  double time = 0;
  std::uint64_t order = 0;     ///< events of one time happen in the order in which they were foreseen
  std::uint32_t activity = 0;  ///< that ends, without a resource
  std::uint32_t resource = 0;
  std::uint64_t version = 0;  ///< of the resource: what was foreseen before a change does not happen
  bool operator>(const Event& other) const noexcept {
    return time != other.time ? time > other.time : order > other.order;
  }
};

/// One resource while time passes.
struct Sharing {
  struct Active {
    std::uint32_t activity = 0;
    double left = 0, most_rate = 0, rate = 0;
  };
  double rate = 0, now = 0;
  std::vector<Active> active;
  std::uint64_t version = 0;

  void advance(double time) {
    for (Active& one : active) one.left = std::max(0.0, one.left - one.rate * (time - now));
    now = time;
  }

  /// Equal parts; who cannot take his leaves the rest to the others.
  void divide() {
    std::sort(active.begin(), active.end(), [](const Active& a, const Active& b) {
      return a.most_rate != b.most_rate ? a.most_rate < b.most_rate : a.activity < b.activity;
    });
    double left = rate;
    for (std::size_t i = 0; i < active.size(); ++i) {
      active[i].rate = std::min(active[i].most_rate, left / static_cast<double>(active.size() - i));
      left -= active[i].rate;
    }
  }

  [[nodiscard]] double next_end() const {
    double soonest = std::numeric_limits<double>::infinity();
    for (const Active& one : active) soonest = std::min(soonest, now + one.left / one.rate);
    return soonest;
  }
};

}  // namespace

Engine::Resource Engine::add_resource(double rate) {
  rates_.push_back(rate);
  return static_cast<Resource>(rates_.size() - 1);
}

Engine::Activity Engine::add(const Work& work, std::span<const Activity> after) {
  const auto activity = static_cast<Activity>(works_.size());
  works_.push_back(work);
  for (const Activity before : after) predecessors_.push_back({activity, before});
  return activity;
}

void Engine::run() {
  const std::size_t count = works_.size();
  start_.assign(count, 0);
  end_.assign(count, 0);
  last_before_.resize(count);
  // Successors of each, one after the other.
  std::vector<std::uint32_t> first(count + 1), waiting(count, 0);
  for (const Pair& pair : predecessors_) {
    ++first[pair.before + 1];
    ++waiting[pair.activity];
  }
  for (std::size_t i = 0; i < count; ++i) first[i + 1] += first[i];
  std::vector<Activity> successors(predecessors_.size());
  std::vector<std::uint32_t> filled(first.begin(), first.end() - 1);
  for (const Pair& pair : predecessors_) successors[filled[pair.before]++] = pair.activity;

  std::vector<Sharing> resources(rates_.size());
  for (std::size_t r = 0; r < rates_.size(); ++r) resources[r].rate = rates_[r];
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::uint64_t order = 0;
  std::size_t ended = 0;

  const auto foresee = [&](Resource r) {
    Sharing& resource = resources[r];
    resource.divide();
    ++resource.version;
    if (!resource.active.empty()) events.push({resource.next_end(), order++, 0, r, resource.version});
  };
  const auto begin = [&](Activity activity, double time) {
    const Work& work = works_[activity];
    start_[activity] = time;
    if (work.resource == kNoResource) {
      events.push({time + std::max(work.units, work.least_s), order++, activity, kNoResource, 0});
      return;
    }
    Sharing& resource = resources[work.resource];
    resource.advance(time);
    const double most = work.least_s > 0 ? work.units / work.least_s : resource.rate;
    if (work.units <= 0 || most <= 0) {  // nothing to move; it still takes its least
      events.push({time + work.least_s, order++, activity, kNoResource, 0});
      return;
    }
    resource.active.push_back({activity, work.units, std::min(most, resource.rate), 0});
    foresee(work.resource);
  };
  const auto finish = [&](Activity activity, double time) {
    end_[activity] = time;
    ++ended;
    for (std::uint32_t i = first[activity]; i < first[activity + 1]; ++i) {
      last_before_[successors[i]] = activity;
      if (--waiting[successors[i]] == 0) begin(successors[i], time);
    }
  };

  for (Activity a = 0; a < count; ++a) last_before_[a] = a;
  std::vector<Activity> ready;
  for (Activity a = 0; a < count; ++a) {
    if (waiting[a] == 0) ready.push_back(a);
  }
  for (const Activity a : ready) begin(a, 0);
  std::vector<Activity> done;
  while (!events.empty()) {
    const Event event = events.top();
    events.pop();
    if (event.resource == kNoResource) {
      finish(event.activity, event.time);
      continue;
    }
    Sharing& resource = resources[event.resource];
    if (event.version != resource.version) continue;
    resource.advance(event.time);
    done.clear();
    // The one that was foreseen has ended, whatever rounding left of it; so have those that ended with it.
    const double least = resource.next_end();
    for (const Sharing::Active& one : resource.active) {
      if (resource.now + one.left / one.rate <= least) done.push_back(one.activity);
    }
    std::erase_if(resource.active, [&](const Sharing::Active& one) {
      return std::find(done.begin(), done.end(), one.activity) != done.end();
    });
    foresee(event.resource);
    std::sort(done.begin(), done.end());
    for (const Activity activity : done) finish(activity, event.time);
  }
  if (ended != count) throw std::logic_error("activities wait for each other in a circle");
}

std::vector<Engine::Activity> Engine::critical_path(Activity last) const {
  std::vector<Activity> path{last};
  while (last_before_[path.back()] != path.back()) path.push_back(last_before_[path.back()]);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace refit::project
