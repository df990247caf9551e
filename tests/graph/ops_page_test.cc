#include "graph/ops_page.h"

#include <gtest/gtest.h>

#include "graph/op.h"
#include "support/golden_text.h"

namespace weft::graph {
namespace {

TEST(OpsPage, IsTheOneInDocs) { support::ExpectGolden("../docs/ops.md", OpsPage()); }

TEST(OpsPage, HasEveryOpOnceAndSaysWhatWordsBecome) {
  const std::string page = OpsPage();
  for (const OpFacts& f : AllOps()) {
    const std::string row = "\n| `" + std::string(f.name) + "` |";
    const size_t at = page.find(row);
    ASSERT_NE(at, std::string::npos) << f.name;
    EXPECT_EQ(page.find(row, at + 1), std::string::npos) << f.name;
    EXPECT_FALSE(TextOf(f.rule).empty()) << f.name;
  }
  EXPECT_NE(page.find("| `matmul`, `finish` |"), std::string::npos) << "row_linear";
  EXPECT_NE(page.find("| `kv_write`, `attention` |"), std::string::npos) << "self_attention";
}

TEST(OpsPage, CellsAreWhole) {
  // Every line of a table has the eight cells of its head.
  for (const std::string& line : support::LinesOf(OpsPage())) {
    if (!line.starts_with("|")) continue;
    size_t bars = 0;
    for (size_t i = 0; i < line.size(); ++i)
      bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
    EXPECT_EQ(bars, 9u) << line;
  }
}

}  // namespace
}  // namespace weft::graph
