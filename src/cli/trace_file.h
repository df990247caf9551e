// Traced steps as a file that Perfetto and chrome://tracing open: a process for each rank, a thread
// for each of its workers, and on it plans, layers in plans, steps and waits in layers.
//
// Times are microseconds since the first event, with three decimals. A step has what its plan says
// of it: layer, implementation, and bytes and FLOPs of all ranks together for the live rows.
// Thread: one caller, while no step runs. Errors: a file that cannot be written, naming the flag.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "exec/step_trace.h"

namespace weft::cli {

class TraceFile {
 public:
  // Opens the file now: who waits for a model should not hear at the end that there is none.
  static Result<std::unique_ptr<TraceFile>> Create(std::string path);

  // What the trace holds. Times go on from call to call, and plans are numbered through.
  void Add(const exec::StepTrace& trace, int workers_per_rank);
  // `about`: an object that tells what ran; Perfetto shows it beside the trace.
  Status Close(const Json& about);

  const std::string& path() const { return path_; }
  int64_t events() const { return events_; }  // steps and waits written

 private:
  explicit TraceFile(std::string path) : path_(std::move(path)), out_(path_) {}
  void NameTracks(int workers, int workers_per_rank);

  std::string path_;
  std::ofstream out_;
  int64_t base_ns_ = 0;
  int64_t events_ = 0;
  int64_t walks_ = 0;  // plans walked so far
  bool started_ = false;
};

}  // namespace weft::cli
