// A link between the processes of an MPI job. mpi_link.cc alone knows MPI; it is there if weft is
// built with -DWEFT_MPI=ON.
//
// No call waits inside MPI, since that could not end at a deadline: all is polled, and who polls
// lets others have the core. A process that gives up tells its peers and hears them, so that all of
// them name the rank that is to blame and not the one they happened to wait for (hold_up.h). MPI
// cannot repair a job that has lost a process: a broken link leaves MPI as it is.
#pragma once

#include <memory>

#include "comm/link.h"

namespace weft::comm {

struct MpiOptions {
  int64_t spin_ns = device::kSpinNs;           // 0: more workers than cores
  int64_t message_bytes = int64_t{256} << 10;  // longer streams travel in several messages
};

// Starts MPI if nobody has, and joins all processes of the job. MPI's own start has no deadline.
Result<std::unique_ptr<Link>> OpenMpiLink(const MpiOptions& options, const device::WaitSite& site);

}  // namespace weft::comm
