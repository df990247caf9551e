#include "cli/progress_line.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

TEST(ProgressLine, IsWrittenOverOnATerminalAlone) {
  for (const bool terminal : {true, false}) {
    testing::internal::CaptureStderr();
    ProgressLine line(terminal);
    line.Show("fold_finish", ", 1 of 2");
    line.Show("fold_finish", ", 2 of 2");
    line.Show("chain_steps");
    line.Clear();
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              terminal ? "\r\033[Kfold_finish, 1 of 2\r\r\033[Kfold_finish, 2 of 2\r"
                         "\r\033[Kchain_steps\r\r\033[K"
                       : "fold_finish\nchain_steps\n");
  }
}

}  // namespace
}  // namespace weft::cli
