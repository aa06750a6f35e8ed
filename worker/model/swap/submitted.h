// Tasks that were submitted to a stage, whose results come later.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "base/status.h"
#include "worker/model/stage.h"

namespace swarm::model {

template <typename T>
bool IsThere(const std::future<Result<T>>& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// What a call is given that takes a Done, and the result that comes.
template <typename T>
std::pair<Done<T>, std::future<Result<T>>> Expect() {
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  return {[promise](Result<T> result) { promise->set_value(std::move(result)); },
          promise->get_future()};
}

/// Tasks that were submitted, in order, and what to do with each when its result is there.
template <typename Task, typename T>
class Submitted {
 public:
  using End = std::function<void(Task, Result<T>)>;
  /// `most` of them wait while another is submitted.
  Submitted(std::size_t most, End end) : most_(most), end_(std::move(end)) {}

  void Add(Task task, std::future<Result<T>> result) {
    waiting_.emplace_back(std::move(task), std::move(result));
    while (!waiting_.empty() && (waiting_.size() > most_ || IsThere(waiting_.front().second))) {
      EndFirst();
    }
  }
  void Finish() {
    while (!waiting_.empty()) EndFirst();
  }

 private:
  void EndFirst() {
    auto [task, result] = std::move(waiting_.front());
    waiting_.pop_front();
    end_(std::move(task), result.get());
  }

  const std::size_t most_;
  const End end_;
  std::deque<std::pair<Task, std::future<Result<T>>>> waiting_;
};

}  // namespace swarm::model
