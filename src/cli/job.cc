#include "cli/job.h"

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "cli/load.h"
#include "comm/agree.h"
#include "exec/rank_executor.h"
#ifdef WEFT_WITH_MPI
#include "comm/mpi_link.h"
#endif

namespace weft::cli {
namespace {

// Processes that start late, and ends that wait for a last step.
device::WaitSite Patient(const char* what) {
  return {.deadline_ns = SteadyNowNs() + 120 * kNsPerSecond, .what = what};
}

// Set by Open MPI, MPICH and whatever else starts processes by PMI or PMIx.
bool StartedAsRank() {
  constexpr const char* kVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
  return std::any_of(std::begin(kVariables), std::end(kVariables),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace

bool HasMpi() {
#ifdef WEFT_WITH_MPI
  return true;
#else
  return false;
#endif
}

Status RefuseJob(std::string_view command) {
  if (!StartedAsRank()) return Status::Ok();
  return Status::Unsupported("{} runs in one process; start it without mpirun", command);
}

Result<Job> Job::Join(ModelFlags* flags, LogSink* log) {
  Job job;
  if (!StartedAsRank()) return job;
#ifdef WEFT_WITH_MPI
  WEFT_ASSIGN_OR_RETURN(job.link_, comm::OpenMpiLink({}, Patient("start")));
#else
  (void)log;
  return Status::Unsupported(
      "started as a rank of an MPI job, but this weft was built without MPI (cmake -DWEFT_MPI=ON)");
#endif
  const int ranks = job.link_->ranks();
  if (ranks == 1) return job;
  if (flags->tensor_parallel_size == 1) flags->tensor_parallel_size = ranks;
  if (job.link_->rank() == 0)
    log->Info("an MPI job of {} processes, each of which is one rank", ranks);
  return job;
}

Status Job::Follow(const ModelFlags& flags, LogSink* log) {
  WEFT_ASSIGN_OR_RETURN(exec::ExecConfig config, ExecConfigOf(flags, log));
  WEFT_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(flags, log));
  FitToModel(flags, model.checkpoint->config(), &config);
  config.link = link();
  WEFT_ASSIGN_OR_RETURN(const auto executor, MakeExecutor(model, std::move(config), log));
  if (Status pinned = executor->PinCaller(); !pinned.ok())
    log->Warning("rank {} is not pinned: {}", link_->rank(), pinned.message());
  return exec::FollowRankZero(*executor);
}

Status Job::Leave(Status status) {
  if (link_ == nullptr) return status;
  if (!status.ok()) {
    comm::TellFailure(*link_, status);
    return status;
  }
  return link_->Close(Patient("end"));
}

}  // namespace weft::cli
