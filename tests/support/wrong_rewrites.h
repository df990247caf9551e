// Negative controls of a pass: rewrites by hand that a rule must refuse, naming what is wrong.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>

#include "graph/meaning.h"
#include "graph/verify.h"

namespace weft::test {

struct WrongRewrite {
  std::string rule, what, names;  // `names`: a part of the message
  std::function<void(graph::Graph&)> rewrite;
};

// Of a lawful graph, by the verifier or else because the meaning is another.
inline void ExpectRefused(const graph::Graph& lawful, std::span<const WrongRewrite> wrongs) {
  ASSERT_TRUE(Verify(lawful).ok()) << Verify(lawful).message();
  for (const WrongRewrite& wrong : wrongs) {
    graph::Graph g = lawful;
    wrong.rewrite(g);
    Status status = Verify(g);
    if (status.ok()) status = SameMeaning(lawful, g);
    ASSERT_FALSE(status.ok()) << wrong.what;
    EXPECT_TRUE(status.message().starts_with(wrong.rule + ": "))
        << wrong.what << ": " << status.message();
    EXPECT_NE(status.message().find(wrong.names), std::string::npos)
        << wrong.what << ": " << status.message();
  }
}

}  // namespace weft::test
