#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace weft::text {
namespace {

struct Expected {
  std::string out;
  std::optional<size_t> found;
};

// The law itself: the first byte at which some stop is complete, there the longest stop.
Expected Naive(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 0; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !std::string_view(text).substr(0, end).ends_with(stops[i])) continue;
      if (!best || stops[i].size() > stops[*best].size()) best = i;
    }
    if (best) return {text.substr(0, include ? end : end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

TEST(StopStrings, AgreeWithTheNaiveSearchHoweverTheTextIsCut) {
  std::mt19937 random(1);
  const auto word = [&](size_t most) {
    std::string s(random() % (most + 1), 'a');
    for (char& c : s) c = "aab"[random() % 3];
    return s;
  };
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = word(6);
    const std::string text = word(30);
    const bool include = random() % 2;
    StopStrings matcher(stops, include);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t n = std::min<size_t>(random() % 4, text.size() - at);
      matcher.Push(std::string_view(text).substr(at, n), out);
      at += n;
    }
    matcher.Finish(out);
    const Expected expected = Naive(text, stops, include);
    ASSERT_EQ(out, expected.out) << text;
    ASSERT_EQ(matcher.found(), expected.found) << text;
    found += expected.found.has_value();
  }
  EXPECT_GT(found, 5000);
}

TEST(StopStrings, HoldBackOnlyWhatAStopCanSwallow) {
  StopStrings matcher({"</s>", "\n\nUser"}, false);
  std::string out;
  EXPECT_FALSE(matcher.Push("Hi <", out));
  EXPECT_EQ(out, "Hi ");
  EXPECT_FALSE(matcher.Push("/b>\n", out));
  EXPECT_EQ(out, "Hi </b>");
  EXPECT_FALSE(matcher.Push("\nUs", out));
  EXPECT_EQ(out, "Hi </b>");
  EXPECT_TRUE(matcher.Push("er: what?", out));
  EXPECT_EQ(out, "Hi </b>");
  EXPECT_EQ(matcher.found(), std::optional<size_t>(1));
  EXPECT_TRUE(matcher.Push("more", out));
  matcher.Finish(out);
  EXPECT_EQ(out, "Hi </b>");
}

TEST(StopStrings, ArePlainTextWhileStoppingIsNotAllowed) {
  StopStrings matcher({"ab"}, true);
  std::string out;
  EXPECT_FALSE(matcher.Push("xaba", out, false));
  EXPECT_EQ(out, "xab");
  EXPECT_TRUE(matcher.Push("bc", out, true));
  EXPECT_EQ(out, "xabab");
}

}  // namespace
}  // namespace weft::text
