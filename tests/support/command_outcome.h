// What a command of the program says and answers, run inside the test.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace weft::test {

struct CommandOutcome {
  int code = -1;
  std::string out, err;
};

template <typename Command>
CommandOutcome OutcomeOf(const Command& command) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = command();
  std::string out = testing::internal::GetCapturedStdout();
  return {code, std::move(out), testing::internal::GetCapturedStderr()};
}

}  // namespace weft::test
