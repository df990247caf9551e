// Texts under review: files that a test compares with what the code makes today.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "support/text_diff.h"

namespace weft::support {

// `path`: below tests/. WEFT_UPDATE_PLANS=1 writes the files anew, and the difference is for git to
// show; otherwise a difference fails the test and is printed.
inline void ExpectGolden(const std::string& path, const std::string& text) {
  const std::string file = std::string(WEFT_TESTS_DIR) + "/" + path;
  if (std::getenv("WEFT_UPDATE_PLANS") != nullptr) std::ofstream(file, std::ios::binary) << text;
  std::ifstream stream(file, std::ios::binary);
  const std::string diff = Diff({std::istreambuf_iterator<char>(stream), {}}, text);
  EXPECT_TRUE(diff.empty()) << "tests/" << path
                            << " (-) is not what the code makes today (+). If it should be, run "
                            << "this test with WEFT_UPDATE_PLANS=1 and commit the file.\n"
                            << diff;
}

}  // namespace weft::support
