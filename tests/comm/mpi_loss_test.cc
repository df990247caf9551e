// A rank that dies or stalls in the middle of exchanges: every other rank gives up within its
// deadline and names it. Each case is a job of its own (mpi_peer.cc), whose processes survive a
// peer only because mpirun is told to let them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <regex>

namespace weft::comm {
namespace {

constexpr int kTimeoutMs = 2000;
// The deadline, half a second to hear the others, and what a busy machine adds.
constexpr double kAtMost = kTimeoutMs / 1000.0 + 8;

struct Word {
  std::string status;
  double seconds;
};

std::map<int, Word> WordsOf(const std::string& how, int ranks, int victim,
                            const std::string& options) {
  const std::string command = fmt::format(
      "{} --oversubscribe --allow-run-as-root --bind-to none --enable-recovery {} -n {} {} {} {} "
      "{} 2>&1",
      WEFT_MPIRUN, options, ranks, WEFT_MPI_PEER, how, victim, kTimeoutMs);
  std::map<int, Word> words;
  FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    output += buffer;
    int rank = 0;
    std::smatch match;
    const std::string line = buffer;
    if (!std::regex_search(line, match, std::regex("rank (\\d+): (.*) after ([0-9.]+) s")))
      continue;
    rank = std::stoi(match[1]);
    words[rank] = {match[2], std::stod(match[3])};
  }
  pclose(pipe);
  EXPECT_EQ(output.find("wrong bits"), std::string::npos);
  EXPECT_FALSE(words.empty()) << output;
  return words;
}

void ExpectNamedByAll(const std::string& how, int ranks, int victim,
                      const std::string& options = "") {
  const std::map<int, Word> words = WordsOf(how, ranks, victim, options);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto word = words.find(rank);
    if (rank == victim) {
      // It comes back from a stall, and hears that the others have gone.
      EXPECT_EQ(word != words.end(), how == "stall");
      if (word != words.end()) {
        EXPECT_NE(word->second.status.find("came too late"), std::string::npos)
            << word->second.status;
      }
      continue;
    }
    ASSERT_NE(word, words.end()) << "rank " << rank << " said nothing";
    const std::string& status = word->second.status;
    EXPECT_NE(status.find(fmt::format("rank {}", victim)), std::string::npos) << status;
    EXPECT_NE(status.find("at step"), std::string::npos) << status;
    // Nobody alive is blamed: the last rank that is named is the victim.
    EXPECT_EQ(status.rfind("rank "), status.rfind(fmt::format("rank {}", victim))) << status;
    EXPECT_LT(word->second.seconds, kAtMost) << status;
  }
}

TEST(Loss, ARankThatExitsIsNamed) { ExpectNamedByAll("exit", 4, 3); }
TEST(Loss, ARankThatIsKilledIsNamed) { ExpectNamedByAll("kill", 4, 0); }
TEST(Loss, ARankThatStallsIsNamed) { ExpectNamedByAll("stall", 4, 2); }
TEST(Loss, ARankThatIsKilledIsNamedOverTcp) {
  ExpectNamedByAll("kill", 4, 1, "--mca btl tcp,self");
}
TEST(Loss, TheOtherOfTwoIsNamed) { ExpectNamedByAll("kill", 2, 1); }

}  // namespace
}  // namespace weft::comm
