// Messages between ranks that share no memory: a transfer goes to and comes from all peers at once.
// A link that has failed stays broken and says the same reason again; its caller ends the process.
// Thread: one at a time, not always the same; the abort flag from any.
// Errors: kDeadline naming the rank that holds things up; a peer's own error, as that rank's;
// kInternal: a peer sent another number of bytes, or the carrier failed.
#pragma once

#include "base/result.h"
#include "comm/byte_stream.h"
#include "device/barrier.h"

namespace weft::comm {

class Link {
 public:
  // After its deadline a wait hears its peers for this long, to learn who is to blame.
  static constexpr int64_t kGraceNs = 500'000'000;
  struct Traffic {
    int64_t messages_in = 0, messages_out = 0;
    int64_t bytes_in = 0, bytes_out = 0;
  };
  virtual ~Link() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // What the next Transfer() brings to a peer and from it; both sides say the same number of bytes.
  // REQUIRES: peer != rank().
  virtual ByteStream& To(int peer) = 0;
  virtual ByteStream& From(int peer) = 0;
  // A message to and from the peer even if they have nothing to say.
  virtual void Meet(int peer) = 0;
  // Sets off what To and From hold, as far as buffers go, and returns at once; they take no more
  // until Transfer().
  virtual Status Start() = 0;
  // Returns when everything has come and left, and forgets it. Starts it if need be.
  virtual Status Transfer(const device::WaitSite& site) = 0;
  // Ends what carries the messages, together with all peers. Without it the destructor leaves that
  // as it is.
  virtual Status Close(const device::WaitSite& site) = 0;

  // Set it to break the link: the next transfer, or the one that waits now, tells the peers why.
  virtual device::AbortFlag& abort() = 0;
  virtual Traffic traffic() const = 0;
  // How long a wait spins before it yields; 0: more workers than cores.
  virtual void set_spin_ns(int64_t) {}
};

}  // namespace weft::comm
