// The port that the server answers on: taken before a model is loaded, so that a taken one is an
// error at once, and listened on when there is somebody to answer, so that until then clients are
// refused and do not hang.
// Thread: the owner's.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace weft::serve {

class Listener {
 public:
  // Takes the port; 0: any free one. Nobody else can take it then, listening or not, unless
  // connections of an earlier server still wait for their end there.
  // Errors: kInvalid for a host that is no address or name of this machine and for a port out of
  // range, kUnavailable if the port cannot be had.
  static Result<Listener> Bind(const std::string& host, int port);

  Listener() = default;
  Listener(Listener&& other) noexcept { *this = std::move(other); }
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  // Clients may connect from now on. Errors: kUnavailable.
  Status Listen();
  // The socket becomes the caller's.
  int Release() { return std::exchange(fd_, -1); }

  int port() const { return port_; }
  bool loopback() const { return loopback_; }

 private:
  int fd_ = -1;
  int port_ = 0;
  bool loopback_ = false;
  std::string where_;  // "127.0.0.1:8000", for messages
};

// Whether the address is of this machine's own loopback.
bool IsLoopback(const sockaddr* address);

}  // namespace weft::serve
