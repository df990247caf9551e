#include "serve/prometheus.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace weft::serve {
namespace {

TEST(Prometheus, HistogramsAreCumulativeAndEndAtInfinity) {
  engine::MetricsSnapshot m;
  m.time_to_first_token_s = {.bounds = {0.001, 0.5}, .counts = {2, 3, 4}, .sum = 7.25};
  const std::string text = PrometheusText(m, {}, "m", 10);
  const std::string labels = "{engine=\"0\",model_name=\"m\"";
  const std::string name = "vllm:time_to_first_token_seconds";
  for (const std::string& line :
       {name + "_bucket" + labels + ",le=\"0.001\"} 2\n",
        name + "_bucket" + labels + ",le=\"0.5\"} 5\n",
        name + "_bucket" + labels + ",le=\"+Inf\"} 9\n", name + "_sum" + labels + "} 7.25\n",
        name + "_count" + labels + "} 9\n", "# TYPE " + name + " histogram\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(Prometheus, ASchedulesRowsAndReasonsAreLabels) {
  engine::MetricsSnapshot m;
  m.schedules = {{1, 1000, "plain", "rows 1000 < 1001 (--fc1-min-token-num)", {}},
                 {1001, 2048, "fc1", "", {{"defer_gather", 0}, {"sequence_parallel", 60}}}};
  const std::string text = PrometheusText(m, {}, "m", 10);
  for (const char* words :
       {R"x(,rows="1-1000",schedule="plain",reason="rows 1000 < 1001 (--fc1-min-token-num)"} 1)x",
        R"(,rows="1001-2048",schedule="fc1",reason=""} 1)",
        R"(,rows="1001-2048",pass="defer_gather"} 0)",
        R"(,rows="1001-2048",pass="sequence_parallel"} 60)"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  }
}

TEST(Prometheus, EveryLineIsASampleOfAFamilyDeclaredOnceBefore) {
  const std::string text = PrometheusText({}, {}, "a\"b\\c\nd", 10);
  EXPECT_NE(text.find(R"(model_name="a\"b\\c\nd")"), std::string::npos);
  std::istringstream lines(text);
  std::string line, family;
  std::set<std::string> seen;
  while (std::getline(lines, line)) {
    if (line.rfind("# HELP ", 0) == 0) continue;
    if (line.rfind("# TYPE ", 0) == 0) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(seen.insert(family).second) << family;
    } else {
      EXPECT_EQ(line.rfind(family, 0), 0u) << line << " in " << family;
    }
  }
  for (const char* name :
       {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
        "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
        "vllm:inter_token_latency_seconds", "vllm:e2e_request_latency_seconds"}) {
    EXPECT_EQ(seen.count(name), 1u) << name;
  }
}

}  // namespace
}  // namespace weft::serve
