// The calling thread's CPUs, given back at the end of a scope in which it was pinned.
#pragma once

#include <sched.h>

namespace weft::device {

// Thread: construct and destroy on the same one.
class ScopedAffinity {
 public:
  ScopedAffinity() : known_(sched_getaffinity(0, sizeof before_, &before_) == 0) {}
  ~ScopedAffinity() {
    if (known_) sched_setaffinity(0, sizeof before_, &before_);
  }
  ScopedAffinity(const ScopedAffinity&) = delete;
  ScopedAffinity& operator=(const ScopedAffinity&) = delete;

 private:
  cpu_set_t before_;
  bool known_;
};

}  // namespace weft::device
