#include "engine/speculation/speculation.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

TEST(Speculation, AConfigurationIsCheckedByKey) {
  EXPECT_TRUE(Validate(SpeculationConfig{}).ok());
  SpeculationConfig c{.method = SpeculationMethod::kNgram, .tokens = 3};
  EXPECT_TRUE(Validate(c).ok());
  c.tokens = 0;
  EXPECT_EQ(Validate(c).message(),
            "--speculative-config: num_speculative_tokens is 0; it must be 1 to 16");
  c.tokens = 17;
  EXPECT_FALSE(Validate(c).ok());
  c.tokens = 2;
  c.lookup_min = 6;
  EXPECT_NE(Validate(c).message().find("prompt_lookup_min 6 and prompt_lookup_max 5"),
            std::string::npos);
  c.lookup_min = 1;
  c.drawn = true;
  EXPECT_NE(Validate(c).message().find("'probabilistic' is for method mtp"), std::string::npos);
  c.drawn = false;
  c.synthetic = {0.5};
  EXPECT_EQ(Validate(c).message(),
            "--speculative-config: 1 synthetic_acceptance_rates for num_speculative_tokens 2");
}

TEST(Speculation, RatesBecomeConditional) {
  const auto rates = ConditionalRates({0.8, 0.4, 0.4, 0, 0});
  ASSERT_TRUE(rates.ok());
  EXPECT_EQ(*rates, (std::vector<double>{0.8, 0.5, 1, 0, 0}));
  EXPECT_FALSE(ConditionalRates({0.4, 0.8}).ok()) << "they never rise";
  EXPECT_FALSE(ConditionalRates({1.2}).ok());
  EXPECT_FALSE(ConditionalRates({-0.1}).ok());
}

TEST(Speculation, SyntheticDraftsAreAcceptedAtTheirRates) {
  const SpeculationConfig c{
      .method = SpeculationMethod::kMtp, .tokens = 3, .synthetic = {1, 0, 0.3}};
  int accepted[3] = {};
  for (int32_t position = 0; position < 10'000; ++position) {
    for (int32_t j = 0; j < 3; ++j) accepted[j] += SyntheticAccepts(c, 5, position, j);
  }
  EXPECT_EQ(accepted[0], 10'000);
  EXPECT_EQ(accepted[1], 0);
  EXPECT_NEAR(accepted[2], 3000, 200);  // 4 sigma
}

}  // namespace
}  // namespace weft::engine
