// Discrete events: activities that wait for one another and share resources. Knows nothing of refits.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace refit::project {

/// Activities are added in any order that names only earlier ones, run once, and asked for their times.
class Engine {
 public:
  using Resource = std::uint32_t;
  using Activity = std::uint32_t;
  static constexpr Resource kNoResource = std::numeric_limits<Resource>::max();

  /// `rate`: units a second, divided among the activities that are under way: an activity that cannot take
  /// its equal part leaves it to the others.
  Resource add_resource(double rate);

  struct Work {
    Resource resource = kNoResource;
    double units = 0;  ///< of the resource; of none: seconds
    /// The least seconds it takes alone: it never takes more than units / least_s a second.
    double least_s = 0;
    std::uint32_t label = 0;  ///< the caller's
  };
  /// Begins when all of `after` have ended.
  Activity add(const Work& work, std::span<const Activity> after);
  /// One more that `activity` waits for.
  void also_after(Activity activity, Activity before) { predecessors_.push_back({activity, before}); }

  void run();

  [[nodiscard]] double start(Activity activity) const { return start_[activity]; }
  [[nodiscard]] double end(Activity activity) const { return end_[activity]; }
  [[nodiscard]] const Work& work(Activity activity) const { return works_[activity]; }

  /// The chain of activities that ends in `last`, each of which began when the one before it ended: what the
  /// time until its end was spent on. From the first to the last.
  [[nodiscard]] std::vector<Activity> critical_path(Activity last) const;

 private:
  struct Pair {
    Activity activity, before;
  };
  std::vector<double> rates_;
  std::vector<Work> works_;
  std::vector<Pair> predecessors_;
  std::vector<double> start_, end_;
  std::vector<Activity> last_before_;  ///< of each activity's predecessors the one that ended last, or itself
};

}  // namespace refit::project
