#include "serve/event_hub.h"

namespace weft::serve {

engine::TokenSink EventHub::SinkFor(uint64_t answer, uint32_t choice) {
  return [hub = shared_from_this(), answer, choice](engine::TokenEvent event) {
    const std::lock_guard lock(hub->mutex_);
    if (hub->closed_) return;
    const bool was_empty = hub->items_.empty();
    hub->items_.push_back({answer, choice, std::move(event)});
    if (was_empty) hub->wake_();
  };
}

void EventHub::Take(std::vector<Item>* out) {
  out->clear();
  const std::lock_guard lock(mutex_);
  out->swap(items_);
}

void EventHub::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  items_.clear();
}

}  // namespace weft::serve
