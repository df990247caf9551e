// From the engine's thread to the HTTP loop: every request's sink puts its events here, and the
// loop is woken once for all that came since it last looked (one system call a step, not one a
// token).
// Thread: sinks by the engine's; Take by the loop; Close by any. Sinks may outlive everything else:
// they hold the hub.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/request.h"

namespace weft::serve {

class EventHub : public std::enable_shared_from_this<EventHub> {
 public:
  struct Item {
    uint64_t answer = 0;
    uint32_t choice = 0;
    engine::TokenEvent event;
  };

  // `wake` is called under the hub's lock when the hub was empty; it must not call the hub.
  explicit EventHub(std::function<void()> wake) : wake_(std::move(wake)) {}

  engine::TokenSink SinkFor(uint64_t answer, uint32_t choice);
  // Everything that has come, oldest first.
  void Take(std::vector<Item>* out);
  // Later events are dropped and nobody is woken.
  void Close();

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<Item> items_;
  bool closed_ = false;
};

}  // namespace weft::serve
