// One connection: requests in order, each answered before the next is read.
// Internal to http/; free of Boost so that only two files pay for its headers.
// Thread: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve/http/server.h"

namespace boost::asio {
class io_context;
}

namespace weft::serve {

// What the sessions of one server share.
struct SessionContext {
  boost::asio::io_context* loop = nullptr;
  HttpLimits limits;
  HttpHandlers handlers;
  LogSink* log = nullptr;
  std::string scratch;      // one read's bytes; sized once
  size_t bodies_bytes = 0;  // held for all sessions
  uint64_t requests = 0;    // numbers the ids
  uint64_t id_salt = 0;
  bool draining = false;
};

class SessionHandle {
 public:
  virtual ~SessionHandle() = default;
  // No request is being read or answered.
  virtual bool idle() const = 0;
  // Closes now.
  virtual void Close() = 0;
  // Wakes the session to look at SessionContext::draining.
  virtual void Wake() = 0;
};

// Takes over the connected, non-blocking socket `fd`; `on_end` is called once when it is closed.
std::weak_ptr<SessionHandle> StartSession(int fd, bool ipv6, SessionContext* context,
                                          std::function<void()> on_end);

}  // namespace weft::serve
