// A resource limit of this process that is lower as long as the object lives.
#pragma once

#include <sys/resource.h>

class LoweredLimit {
 public:
  using Resource = decltype(RLIMIT_NOFILE);

  LoweredLimit(Resource resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource, &before_);
    struct rlimit lowered = before_;
    lowered.rlim_cur = value;
    ::setrlimit(resource, &lowered);
  }
  ~LoweredLimit() { ::setrlimit(resource_, &before_); }
  LoweredLimit(const LoweredLimit&) = delete;
  LoweredLimit& operator=(const LoweredLimit&) = delete;

 private:
  Resource resource_;
  struct rlimit before_ {};
};
