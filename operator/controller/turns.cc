#include "operator/controller/turns.h"

#include <pthread.h>

#include <utility>

namespace swarm::controller {

Turns::~Turns() {
  std::vector<Work> left;
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    for (auto& [cluster, line] : lines_) {
      for (Work& work : line.waiting) left.push_back(std::move(work));
      line.waiting.clear();
      for (std::thread& thread : line.threads) threads.push_back(std::move(thread));
      line.wake.notify_all();
    }
  }
  for (const Work& work : left) work(Unavailable("home ends; try again later"));
  for (std::thread& thread : threads) thread.join();
}

Status Turns::Post(const std::string& cluster, Work work) {
  const std::lock_guard lock(mutex_);
  Line& line = lines_[cluster];
  if (line.waiting.size() >= limits_.waiting) {
    return ResourceExhausted("too many pods of the cluster " + cluster +
                             " ask at once; try again later");
  }
  line.waiting.push_back(std::move(work));
  if (line.idle < line.waiting.size() && line.threads.size() < limits_.at_once) {
    line.threads.emplace_back([this, &line] { Serve(line); });
  }
  line.wake.notify_one();
  return Status();
}

void Turns::Serve(Line& line) {
  pthread_setname_np(pthread_self(), "judge");
  std::unique_lock lock(mutex_);
  while (true) {
    ++line.idle;
    line.wake.wait(lock, [&] { return ends_ || !line.waiting.empty(); });
    --line.idle;
    if (ends_) return;
    const Work work = std::move(line.waiting.front());
    line.waiting.pop_front();
    lock.unlock();
    work(Status());
    lock.lock();
  }
}

}  // namespace swarm::controller
