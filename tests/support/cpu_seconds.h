// The time that a test's own thread computed: other processes on the machine do not count.
#pragma once

#include <ctime>

namespace weft::support {

inline double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace weft::support
