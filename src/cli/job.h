// The MPI job that this process may be a rank of. mpirun starts the same command line on every
// rank; rank 0 does what it says, and the others compute with it until it ends.
//
//   Job job = Job::Join(...);  if (job.follows()) return job.Leave(job.Follow(flags, log));
//   ... config.link = job.link() ... a command's work ... return job.Leave(exec::EndFollowers(*executor));
// Thread: main's. Destroy every executor of job.link() first.
#pragma once

#include <memory>
#include <string_view>

#include "base/log.h"
#include "cli/options.h"
#include "comm/link.h"

namespace weft::cli {

// Whether this weft was built with -DWEFT_MPI=ON.
bool HasMpi();

// For a command that has no ranks in other processes. Errors: kUnsupported naming it, if started as
// one.
Status RefuseJob(std::string_view command);

class Job {
 public:
  // Joins the job if there is one, and fits --tensor-parallel-size to it where that was left at 1.
  // Errors: kUnsupported for a job of several processes without HasMpi(); the link's.
  static Result<Job> Join(ModelFlags* flags, LogSink* log);

  comm::Link* link() const { return link_.get(); }  // nullptr: this process is alone
  bool follows() const { return link_ != nullptr && link_->rank() != 0; }
  // Loads the model and does what rank 0 sends until that ends.
  Status Follow(const ModelFlags& flags, LogSink* log);
  // The end, for all ranks alike; an error is told to the others. Returns `status`, or why not all
  // have come to the end.
  Status Leave(Status status);

 private:
  std::unique_ptr<comm::Link> link_;
};

}  // namespace weft::cli
