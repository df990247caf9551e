// Messages between the processes of an MPI job: a transfer goes to and comes from all peers at
// once. mpi_link.cc alone knows MPI.
//
// No call waits inside MPI, since that could not end at a deadline: all is polled, and who
// polls lets others have the core. A process that gives up tells its peers and hears them for
// kGraceNs, so that all of them name the rank that is to blame and not the one they happened to
// wait for (hold_up.h). MPI cannot repair a job that has lost a process: after an error a link
// stays broken, says the same reason again, and leaves MPI as it is; the caller ends the process.
// Thread: one at a time, not always the same; the abort flag from any.
#pragma once

#include <memory>

#include "base/result.h"
#include "comm/byte_stream.h"
#include "device/barrier.h"

namespace weft::comm {

class MpiLink {
 public:
  static constexpr int64_t kGraceNs = 500'000'000;

  struct Options {
    int64_t spin_ns = device::kSpinNs;           // 0: more workers than cores
    int64_t message_bytes = int64_t{256} << 10;  // longer streams travel in several messages
  };
  struct Traffic {
    int64_t messages_in = 0, messages_out = 0;
    int64_t bytes_in = 0, bytes_out = 0;
  };

  // Starts MPI if nobody has, and joins all processes of the job. MPI's own start has no deadline.
  static Result<std::unique_ptr<MpiLink>> Open(const Options& options,
                                               const device::WaitSite& site);
  ~MpiLink();
  MpiLink(const MpiLink&) = delete;
  MpiLink& operator=(const MpiLink&) = delete;

  int rank() const;
  int ranks() const;

  // What the next Transfer() brings to a peer and from it; both sides say the same number of bytes.
  // REQUIRES: peer != rank().
  ByteStream& To(int peer);
  ByteStream& From(int peer);
  // A message to and from the peer even if they have nothing to say.
  void Meet(int peer);
  // Returns when everything has come and left, and forgets it.
  // Errors: kDeadline naming who is missing; kInternal: a peer sent another number of bytes, MPI's
  // own.
  Status Transfer(const device::WaitSite& site);

  // Ends MPI together with all peers if Open() started it. Without it the destructor leaves MPI
  // alone.
  Status Close(const device::WaitSite& site);

  // Set it to break the link: the next transfer, or the one that waits now, tells the peers why.
  device::AbortFlag& abort();
  Traffic traffic() const;

 private:
  struct State;
  explicit MpiLink(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft::comm
