#include "serve/openai/models.h"

#include <gtest/gtest.h>

namespace weft::serve {
namespace {

TEST(Models, EveryAliasHasACardAndNothingElseIsServed) {
  const ServedModels models{.names = {"a", "b"}, .max_model_len = 7, .vocab_size = 9};
  EXPECT_TRUE(models.Has("b"));
  for (const char* name : {"", "A", "../b", "a/b", "a\n"}) EXPECT_FALSE(models.Has(name)) << name;
  const Json list = ModelList(models);
  ASSERT_EQ(list.Find("data")->as_array().size(), 2u);
  EXPECT_EQ(list.Find("data")->as_array()[1].Find("root")->as_string(), "a");
}

}  // namespace
}  // namespace weft::serve
