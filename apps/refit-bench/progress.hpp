// A progress bar on a terminal; nothing anywhere else.
#pragma once

#include <string>

namespace refit::apps {

class ProgressBar {
 public:
  explicit ProgressBar(bool wanted);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void show(unsigned done, unsigned planned, const std::string& what);

 private:
  bool enabled_;
};

}  // namespace refit::apps
