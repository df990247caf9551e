#include "cli/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cli/step_report.h"
#include "plan/wire_bytes.h"
#include "support/checkpoints.h"

namespace weft::cli {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTracedModel = WEFT_TESTS_DIR "/models/data/llama_untied_9h3_f32";
constexpr int kRanks = 3, kWorkers = 2;

std::string TextOf(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  EXPECT_TRUE(value != nullptr && value->is_string()) << key;
  return value == nullptr || !value->is_string() ? "" : value->as_string();
}
int64_t IntOf(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  EXPECT_TRUE(value != nullptr && value->is_int()) << key;
  return value == nullptr || !value->is_int() ? -1 : value->as_int();
}
// Of "ts" and "dur", which have three decimals.
int64_t NsOf(const Json& event, std::string_view key) {
  return std::llround(event.Find(key)->as_double() * 1000);
}

struct Event {
  std::string name, category;
  int64_t start = 0, end = 0;  // ns
  Json args;
};
using Track = std::vector<Event>;

// Steps (a body and a head each) on three ranks of two workers, and the file they end up in.
class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() : checkpoint_(support::OpenCheckpoint(kTracedModel)) {
    executor_ =
        support::MakeExecutor(*checkpoint_, support::SmallConfig(kRanks, kRanks * kWorkers));
  }
  ~TraceFileTest() override { std::remove(path_.c_str()); }

  const exec::ModelInstance& instance() const { return exec::InstanceOf(*executor_); }

  void Step(int32_t tokens) {
    const std::vector<int32_t> ids{5, 9, 2, 77, 31, 8, 1, 64};
    support::Forward(*executor_, std::span(ids).first(tokens), tokens,
                     [](int32_t, std::span<const float>, uint64_t) {});
  }
  Json Read() {
    std::ifstream in(path_);
    std::stringstream text;
    text << in.rdbuf();
    auto json = ParseJson(text.str());
    EXPECT_TRUE(json.ok()) << json.status().message();
    return json.ok() ? std::move(json).value() : Json();
  }
  // Complete events by thread id, as they stand in the file; names of tracks aside.
  std::map<int64_t, Track> TracksOf(const Json& json) {
    std::map<int64_t, Track> tracks;
    for (const Json& event : json.Find("traceEvents")->as_array()) {
      const std::string phase = TextOf(event, "ph");
      if (phase == "M") {
        const std::string name = TextOf(*event.Find("args"), "name");
        (TextOf(event, "name") == "process_name" ? processes_ : threads_)
            .insert({IntOf(event, "tid"), name});
        continue;
      }
      EXPECT_EQ(phase, "X");
      tracks[IntOf(event, "tid")].push_back(
          {TextOf(event, "name"), TextOf(event, "cat"), NsOf(event, "ts"),
           NsOf(event, "ts") + NsOf(event, "dur"), *event.Find("args")});
      processes_of_[IntOf(event, "tid")].insert(IntOf(event, "pid"));
    }
    return tracks;
  }

  std::unique_ptr<io::Checkpoint> checkpoint_;
  std::unique_ptr<plan::Executor> executor_;
  std::string path_ = testing::TempDir() + "weft_trace_" + std::to_string(getpid()) + ".json";
  std::map<int64_t, std::string> processes_, threads_;
  std::map<int64_t, std::set<int64_t>> processes_of_;
};

// Checks one walk of a plan, whose events begin at track[at]; returns where the next one begins.
size_t CheckWalk(const Track& track, size_t at, const plan::Plan& plan, int32_t rows,
                 int64_t walk) {
  const Event& whole = track[at++];
  EXPECT_EQ(whole.category, "plan");
  EXPECT_EQ(whole.name, ToString(plan.bucket));
  EXPECT_EQ(IntOf(whole.args, "rows"), rows);
  EXPECT_EQ(IntOf(whole.args, "walk"), walk);
  EXPECT_EQ(TextOf(whole.args, "fingerprint"), fmt::format("{:016x}", plan.fingerprint));
  std::string layer;
  int64_t last = whole.start;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    const graph::Node& node = plan.graph.nodes[step.node];
    for (int phase = 0; phase < step.phases; ++phase) {
      if (phase == 0 && node.layer != layer) {
        EXPECT_EQ(track[at].category, "layer");
        EXPECT_EQ(track[at].name, node.layer);
        EXPECT_GE(track[at].start, last);
        layer = node.layer;
        ++at;
      }
      const auto check_place = [&](const Event& e) {
        EXPECT_EQ(TextOf(e.args, "op"), NameOf(node.op));
        EXPECT_EQ(TextOf(e.args, "layer"), node.layer);
        EXPECT_EQ(TextOf(e.args, "impl"), step.impl);
        EXPECT_EQ(TextOf(e.args, "bucket"), ToString(plan.bucket));
        EXPECT_EQ(IntOf(e.args, "step"), static_cast<int64_t>(s));
        EXPECT_EQ(IntOf(e.args, "phase"), phase);
        EXPECT_GE(e.start, last);
        last = e.end;
      };
      if (step.wait != plan::Wait::kNone || phase > 0) {
        EXPECT_EQ(track[at].category, "wait");
        EXPECT_EQ(track[at].name,
                  step.wait == plan::Wait::kGroup || phase > 0 ? "wait group" : "wait rank");
        check_place(track[at++]);
      }
      const Event& e = track[at++];
      EXPECT_EQ(e.category, IsExchange(node.op) ? "exchange" : "compute");
      EXPECT_EQ(e.name, SiteOf(plan.graph, node));
      if (track[at - 2].category == "wait") {
        EXPECT_EQ(e.start, last) << "a step begins where its wait ends";
      }
      check_place(e);
      EXPECT_EQ(IntOf(e.args, "weight_bytes"), step.cost.weight_bytes);
      EXPECT_EQ(IntOf(e.args, "row_bytes"), step.cost.row_bytes * rows);
      EXPECT_EQ(IntOf(e.args, "wire_bytes"), WireBytes(plan, step, rows));
      EXPECT_EQ(IntOf(e.args, "flops"), step.cost.row_flops * rows);
    }
  }
  EXPECT_EQ(whole.end, last);
  return at;
}

TEST_F(TraceFileTest, EachWorkerHasTheStepsOfItsPlansAndTheWaitsBeforeThem) {
  exec::StepTrace trace(kRanks * kWorkers, 4096);
  exec::SetTrace(*executor_, &trace);
  Step(7);
  Step(1);
  exec::SetTrace(*executor_, nullptr);
  auto file = TraceFile::Create(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  (*file)->Add(trace, kWorkers);
  Json about;
  about.Set("model", "a \"model\"");
  ASSERT_TRUE((*file)->Close(about).ok());

  const Json json = Read();
  EXPECT_EQ(TextOf(*json.Find("otherData"), "model"), "a \"model\"");
  std::map<int64_t, Track> tracks = TracksOf(json);
  ASSERT_EQ(tracks.size(), static_cast<size_t>(kRanks * kWorkers));
  int64_t events = 0;
  for (int w = 0; w < kRanks * kWorkers; ++w) {
    const Track& track = tracks[w + 1];
    EXPECT_EQ(processes_of_[w + 1], std::set<int64_t>{w / kWorkers + 1});
    EXPECT_EQ(threads_[w + 1], fmt::format("worker {}", w % kWorkers));
    size_t at = 0;
    int64_t walk = 0;
    for (const int32_t tokens : {7, 1}) {
      for (const plan::Plan* plan :
           {&instance().body_plan(tokens),
            &instance().head_plan(tokens, plan::HeadMode::kSample, true)}) {
        ASSERT_LT(at, track.size());
        at = CheckWalk(track, at, *plan, tokens, walk++);
      }
    }
    EXPECT_EQ(at, track.size());
    for (const Event& e : track) events += e.category == "plan" || e.category == "layer" ? 0 : 1;
  }
  EXPECT_EQ(events, (*file)->events());
  EXPECT_EQ(processes_,
            (std::map<int64_t, std::string>{{1, "rank 0"}, {3, "rank 1"}, {5, "rank 2"}}))
      << "told on a rank's first thread";
}

TEST_F(TraceFileTest, OnEachTrackEventsAreSortedAndNest) {
  exec::StepTrace trace(kRanks * kWorkers, 4096);
  exec::SetTrace(*executor_, &trace);
  auto file = TraceFile::Create(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  for (const int32_t tokens : {3, 8, 1}) {
    trace.Clear();
    Step(tokens);
    (*file)->Add(trace, kWorkers);
  }
  exec::SetTrace(*executor_, nullptr);
  ASSERT_TRUE((*file)->Close(Json(Json::Object{})).ok());
  const std::map<int64_t, Track> tracks = TracksOf(Read());
  ASSERT_EQ(tracks.size(), static_cast<size_t>(kRanks * kWorkers));
  for (const auto& [thread, track] : tracks) {
    std::vector<const Event*> open;
    int64_t before = 0, walks = 0;
    for (const Event& e : track) {
      EXPECT_GE(e.end, e.start) << e.name;
      EXPECT_GE(e.start, before) << e.name << " on thread " << thread;
      before = e.start;
      while (!open.empty() && open.back()->end <= e.start && open.back()->end < e.end)
        open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(e.end, open.back()->end) << e.name << " in " << open.back()->name;
      }
      open.push_back(&e);
      if (e.category != "plan") continue;
      EXPECT_EQ(IntOf(e.args, "walk"), walks++) << "numbered through all calls";
    }
    EXPECT_EQ(walks, 6);
  }
}

TEST_F(TraceFileTest, WhatFindsNoRoomIsCountedAndTheRestIsWhole) {
  exec::StepTrace trace(kRanks * kWorkers, 5);
  exec::SetTrace(*executor_, &trace);
  Step(2);
  exec::SetTrace(*executor_, nullptr);
  EXPECT_GT(trace.dropped(), 0);
  EXPECT_EQ(trace.capacity(), 5u);
  auto file = TraceFile::Create(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  (*file)->Add(trace, kWorkers);
  ASSERT_TRUE((*file)->Close(Json(Json::Object{})).ok());
  for (const auto& [thread, track] : TracksOf(Read())) {
    int steps = 0;
    for (const Event& e : track)
      steps += e.category == "compute" || e.category == "exchange" ? 1 : 0;
    EXPECT_EQ(steps, 5);
  }
}

TEST(TraceFile, AFileThatCannotBeWrittenIsToldAtOnce) {
  const auto file = TraceFile::Create("/no/such/folder/trace.json");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(),
              HasSubstr("--trace /no/such/folder/trace.json: No such file"));
}

}  // namespace
}  // namespace weft::cli
