#include "ctl/simulate/fleet/event_queue.h"

#include <algorithm>

namespace swarm::ctl {

void EventQueue::At(Timepoint at, Event event) {
  heap_.push_back({std::max(at, now_), numbers_++, std::move(event)});
  std::ranges::push_heap(heap_);
}

void EventQueue::RunUntil(Timepoint end) {
  while (!heap_.empty() && heap_.front().at <= end) {
    std::ranges::pop_heap(heap_);
    const Entry next = std::move(heap_.back());
    heap_.pop_back();
    now_ = next.at;
    ++events_;
    next.event();
  }
  now_ = std::max(now_, end);
}

}  // namespace swarm::ctl
