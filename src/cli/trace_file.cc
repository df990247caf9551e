#include "cli/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "cli/step_report.h"
#include "plan/wire_bytes.h"

namespace weft::cli {
namespace {

using exec::StepEvent;

// A track of the viewer. Ids begin at 1 and no two workers share one: 0 is the idle thread to some
// viewers, and others know a thread by its own id alone.
struct Track {
  int process = 1;
  int thread = 1;
};
Track TrackOf(int worker, int workers_per_rank) {
  return {worker / workers_per_rank + 1, worker + 1};
}

std::string Quoted(std::string_view text) { return DumpJson(Json(text)); }

// What is the same of every event of a step, made once: traces are long.
struct StepTexts {
  std::string name;      // "matmul q"
  std::string category;  // "compute", "exchange"
  std::string args;      // "layer", "op", "impl", ...
};
struct PlanTexts {
  std::string bucket;
  std::vector<StepTexts> steps;
};

PlanTexts TextsOf(const plan::Plan& plan) {
  PlanTexts texts;
  texts.bucket = Quoted(ToString(plan.bucket));
  for (const plan::Step& step : plan.steps) {
    const graph::Node& node = plan.graph.nodes[step.node];
    const bool exchange = IsExchange(node.op);
    std::string args =
        fmt::format(R"("layer":{},"op":{},"impl":{},"bucket":{})", Quoted(node.layer),
                    Quoted(NameOf(node.op)), Quoted(step.impl), texts.bucket);
    if (step.lane != 0) args += fmt::format(R"(,"lane":{})", step.lane);
    if (step.posted_behind >= 0) args += fmt::format(R"(,"posted_behind":{})", step.posted_behind);
    if (step.fetches >= 0) args += fmt::format(R"(,"fetches":{})", step.fetches);
    if (step.partials > 0) args += fmt::format(R"(,"partials":{})", step.partials);
    texts.steps.push_back(
        {Quoted(SiteOf(plan.graph, node)), exchange ? "exchange" : "compute", std::move(args)});
  }
  return texts;
}

// A worker's events, cut where a plan begins anew.
std::vector<std::span<const StepEvent>> WalksOf(std::span<const StepEvent> events) {
  std::vector<std::span<const StepEvent>> walks;
  size_t begin = 0;
  for (size_t i = 1; i <= events.size(); ++i) {
    const bool goes_on = i < events.size() && events[i].plan == events[i - 1].plan &&
                         std::pair(events[i].step, events[i].phase) >
                             std::pair(events[i - 1].step, events[i - 1].phase);
    if (goes_on) continue;
    walks.push_back(events.subspan(begin, i - begin));
    begin = i;
  }
  return walks;
}

const std::string& LayerOf(const StepEvent& e) {
  return e.plan->graph.nodes[e.plan->steps[e.step].node].layer;
}

class Writer {
 public:
  Writer(std::ofstream* out, int64_t base_ns, Track track)
      : out_(out), base_ns_(base_ns), track_(track) {}
  ~Writer() { Flush(); }

  // Of one plan, from its beginning.
  void Walk(std::span<const StepEvent> events, const PlanTexts& texts, int64_t walk) {
    const StepEvent& first = events.front();
    const plan::Plan& plan = *first.plan;
    const std::string place = fmt::format(R"("walk":{},"rows":{})", walk, first.rows);
    Complete(texts.bucket, "plan", first.ready_ns, events.back().end_ns,
             fmt::format(R"({},"fingerprint":"{:016x}","steps":{})", place, plan.fingerprint,
                         plan.steps.size()));
    for (size_t e = 0; e < events.size(); ++e) {
      const std::string& layer = LayerOf(events[e]);
      if (e == 0 || LayerOf(events[e - 1]) != layer) {
        size_t last = e;
        while (last + 1 < events.size() && LayerOf(events[last + 1]) == layer) ++last;
        Complete(Quoted(layer), "layer", events[e].ready_ns, events[last].end_ns, place);
      }
      Step(events[e], texts.steps[events[e].step], place);
    }
  }
  int64_t events() const { return events_; }

 private:
  // The wait, if there was one, and the step behind it.
  void Step(const StepEvent& event, const StepTexts& text, const std::string& place) {
    const plan::Step& step = event.plan->steps[event.step];
    const std::string args =
        fmt::format(R"({},"step":{},"phase":{},{})", place, event.step, event.phase, text.args);
    if (event.waited) {
      const bool group = event.phase > 0 || step.wait == plan::Wait::kGroup;
      Complete(group ? R"("wait group")" : R"("wait rank")", "wait", event.ready_ns, event.start_ns,
               args);
      ++events_;
    }
    const plan::Cost& cost = step.cost;
    Complete(text.name, text.category, event.start_ns, event.end_ns,
             fmt::format(R"({},"weight_bytes":{},"row_bytes":{},"wire_bytes":{},"flops":{})", args,
                         cost.weight_bytes, cost.row_bytes * event.rows,
                         WireBytes(*event.plan, step, event.rows), cost.row_flops * event.rows));
    ++events_;
  }

  // `name` is quoted, `args` are members.
  void Complete(std::string_view name, std::string_view category, int64_t start_ns, int64_t end_ns,
                std::string_view args) {
    const int64_t at = start_ns - base_ns_, took = end_ns - start_ns;
    fmt::format_to(
        std::back_inserter(buffer_),
        ",\n{{\"name\":{},\"cat\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{}.{:03},"
        "\"dur\":{}.{:03},\"args\":{{{}}}}}",
        name, category, track_.process, track_.thread, at / 1000, at % 1000, took / 1000,
        took % 1000, args);
    if (buffer_.size() > size_t{1} << 20) Flush();
  }
  void Flush() {
    out_->write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }
  std::ofstream* out_;
  const int64_t base_ns_;
  const Track track_;
  int64_t events_ = 0;
  fmt::memory_buffer buffer_;
};

}  // namespace

Result<std::unique_ptr<TraceFile>> TraceFile::Create(std::string path) {
  auto file = std::unique_ptr<TraceFile>(new TraceFile(std::move(path)));
  if (!file->out_) return Status::Invalid("--trace {}: {}", file->path_, std::strerror(errno));
  file->out_ << R"({"displayTimeUnit":"ns","traceEvents":[)";
  return file;
}

void TraceFile::NameTracks(int workers, int workers_per_rank) {
  const char* comma = "";
  for (int w = 0; w < workers; ++w) {
    const Track track = TrackOf(w, workers_per_rank);
    const auto name = [&](const char* what, const std::string& text) {
      out_ << comma
           << fmt::format(
                  "\n{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}"
                  "\"}}}}",
                  what, track.process, track.thread, text);
      comma = ",";
    };
    if (w % workers_per_rank == 0)
      name("process_name", fmt::format("rank {}", w / workers_per_rank));
    name("thread_name", fmt::format("worker {}", w % workers_per_rank));
  }
}

void TraceFile::Add(const exec::StepTrace& trace, int workers_per_rank) {
  if (!started_) {
    NameTracks(trace.workers(), workers_per_rank);
    started_ = true;
  }
  for (int w = 0; w < trace.workers() && walks_ == 0; ++w) {
    if (trace.EventsOf(w).empty()) continue;
    const int64_t first = trace.EventsOf(w).front().ready_ns;
    base_ns_ = base_ns_ == 0 ? first : std::min(base_ns_, first);
  }
  std::map<const plan::Plan*, PlanTexts> plans;
  int64_t walks = walks_;
  for (int w = 0; w < trace.workers(); ++w) {
    Writer writer(&out_, base_ns_, TrackOf(w, workers_per_rank));
    int64_t walk = walks_;
    for (const std::span<const StepEvent> events : WalksOf(trace.EventsOf(w))) {
      const plan::Plan* plan = events.front().plan;
      const auto [texts, is_new] = plans.try_emplace(plan);
      if (is_new) texts->second = TextsOf(*plan);
      writer.Walk(events, texts->second, walk++);
    }
    events_ += writer.events();
    walks = std::max(walks, walk);
  }
  walks_ = walks;
}

Status TraceFile::Close(const Json& about) {
  out_ << "\n],\"otherData\":" << DumpJson(about) << "}\n";
  out_.close();
  if (!out_) return Status::Invalid("--trace {}: {}", path_, std::strerror(errno));
  return Status::Ok();
}

}  // namespace weft::cli
