// One request and the answer to it, as the handler holds it.
// Thread: the loop's, all of it (HttpServer::Post brings others there).
// Invariant: every exchange is answered once: by Send(), or by BeginStream() .. End() or Fail().
// One that its last holder drops unanswered becomes a 500, or a broken-off stream.
#pragma once

#include <functional>
#include <string_view>

#include "serve/http/message.h"

namespace weft::serve {

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual HttpRequest& request() = 0;
  // Nothing made of the body's bytes is kept any more: they no longer count against
  // HttpLimits::bodies_bytes_max. The end of the answer says so too.
  virtual void BodyDone() = 0;

  virtual void Send(HttpResponse response) = 0;

  // The head of an answer that comes in parts; `head.body` is empty.
  virtual void BeginStream(HttpResponse head) = 0;
  // False: the client is gone, or reads too slowly for HttpLimits::stream_queue_bytes_max and is
  // now cut off. Nothing more will be sent.
  virtual bool Write(std::string_view bytes) = 0;
  virtual void End() = 0;
  // Breaks the stream off, so that the client sees that it is not complete.
  virtual void Fail() = 0;

  // The client can still be answered.
  virtual bool open() const = 0;
  // Called once if the client goes away before the answer is complete.
  virtual void OnGone(std::function<void()> callback) = 0;
};

}  // namespace weft::serve
