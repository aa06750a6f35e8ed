// Loops on several threads, for work that takes much longer than threads take to start.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace swarm {

/// Calls body(0) to body(count - 1), each once, on at most so many threads, of which the caller's
/// is one. Returns when all are done. `body` must not throw.
inline void ForEachOn(int threads, std::size_t count,
                      const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) body(i);
  };
  const std::size_t others =
      std::min(count, static_cast<std::size_t>(std::max(threads, 1))) - (count > 0 ? 1 : 0);
  std::vector<std::jthread> started;
  for (std::size_t i = 0; i < others; ++i) started.emplace_back(work);
  work();
}

}  // namespace swarm
