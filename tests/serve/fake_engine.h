// An engine that says what it is told. A script maps a request to the events it gets; a thread of
// its own delivers them, as the real one does. Requests can be held back, so that a test decides
// what happens while they are in progress.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "serve/tiny_tokenizer.h"

namespace weft::serve {

// One event a byte of `text`, then the end by `stop_token` (or by length with -1).
inline std::vector<engine::TokenEvent> Say(const std::string& text, int32_t stop_token) {
  std::vector<engine::TokenEvent> events;
  for (const char c : text) events.push_back({.id = static_cast<unsigned char>(c)});
  if (stop_token >= 0) {
    events.push_back(
        {.id = stop_token, .finish = engine::FinishReason::kStop, .stop_token = stop_token});
  } else if (!events.empty()) {
    events.back().finish = engine::FinishReason::kLength;
  }
  return events;
}

class FakeEngine final : public engine::Engine {
 public:
  using Script = std::function<std::vector<engine::TokenEvent>(const engine::Request&)>;

  // Without a script every request is answered "Hello" and the end token.
  explicit FakeEngine(Script script = [](const engine::Request&) { return Say("Hello", kEos); })
      : script_(std::move(script)) {
    config_.max_model_len = 256;
    thread_ = std::thread([this] { Deliver(); });
  }
  ~FakeEngine() override {
    Stop(false);
    thread_.join();
  }

  Status Submit(std::unique_ptr<engine::Request> request) override {
    const std::lock_guard lock(mutex_);
    if (submit_status_.code() != StatusCode::kOk) return submit_status_;
    auto events = script_(*request);
    ++submitted_;
    Job job{.request = std::move(request), .events = {events.begin(), events.end()}};
    last_ = *job.request;
    jobs_[job.request->id] = std::move(job);
    changed_.notify_all();
    return Status::Ok();
  }
  void Abort(const std::string& id) override {
    const std::lock_guard lock(mutex_);
    aborted_.insert(id);
    jobs_.erase(id);
    changed_.notify_all();
  }
  bool Step() override { return false; }
  void Run() override {}
  void Stop(bool) override {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  engine::MetricsSnapshot Metrics() const override {
    const std::lock_guard lock(mutex_);
    engine::MetricsSnapshot m;
    m.requests_running = static_cast<int64_t>(jobs_.size());
    m.generation_tokens = delivered_;
    m.time_to_first_token_s = {.bounds = {0.001, 0.01}, .counts = {1, 2, 3}, .sum = 0.5};
    m.finished[1] = 7;
    return m;
  }
  const engine::EngineConfig& config() const override { return config_; }
  Status Health() const override {
    const std::lock_guard lock(mutex_);
    return health_;
  }

  // Lets each request have only `events` events from now on; -1: all.
  void Hold(int64_t events) {
    const std::lock_guard lock(mutex_);
    allowance_ = events;
    for (auto& [id, job] : jobs_) job.given = 0;
    changed_.notify_all();
  }
  void DelayEach(std::chrono::microseconds delay) { delay_ = delay; }
  void RefuseWith(Status status) {
    const std::lock_guard lock(mutex_);
    submit_status_ = std::move(status);
  }
  void Break(Status status) {
    const std::lock_guard lock(mutex_);
    health_ = std::move(status);
  }

  template <typename Condition>
  bool WaitFor(Condition condition, std::chrono::milliseconds time = std::chrono::seconds(5)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return condition(*this); });
  }
  // For WaitFor's conditions, which hold the lock.
  size_t jobs() const { return jobs_.size(); }
  size_t aborted() const { return aborted_.size(); }
  uint64_t submitted() const { return submitted_; }
  uint64_t delivered() const { return delivered_; }
  engine::Request last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  engine::EngineConfig& mutable_config() { return config_; }

 private:
  struct Job {
    std::unique_ptr<engine::Request> request;
    std::deque<engine::TokenEvent> events;
    int64_t given = 0;
  };

  void Deliver() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || Next() != nullptr; });
      if (stopping_) return;
      Job* job = Next();
      engine::TokenEvent event = std::move(job->events.front());
      job->events.pop_front();
      ++job->given;
      ++delivered_;
      // As in the real engine the sink runs without our lock and may come after an Abort.
      const engine::TokenSink sink = job->request->sink;
      if (event.finish != engine::FinishReason::kNone) jobs_.erase(job->request->id);
      lock.unlock();
      sink(std::move(event));
      if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
      lock.lock();
      changed_.notify_all();
    }
  }
  // A job that may have an event; round-robin, as continuous batching is.
  Job* Next() {
    Job* best = nullptr;
    for (auto& [id, job] : jobs_) {
      if (job.events.empty() || (allowance_ >= 0 && job.given >= allowance_)) continue;
      if (best == nullptr || job.given < best->given) best = &job;
    }
    return best;
  }

  Script script_;
  engine::EngineConfig config_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Job> jobs_;
  std::set<std::string> aborted_;
  engine::Request last_;
  Status submit_status_;
  Status health_;
  uint64_t submitted_ = 0;
  uint64_t delivered_ = 0;
  int64_t allowance_ = -1;
  std::chrono::microseconds delay_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weft::serve
