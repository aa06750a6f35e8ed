#include "operator/controller/trainer_links.h"

#include <pthread.h>

#include <utility>
#include <vector>

#include "base/log.h"

namespace swarm::controller {
namespace {

constexpr Duration kRetryAfterRefusal = std::chrono::seconds(5);

bool SameMembers(const std::vector<protocol::StageStatus>& one,
                 const std::vector<protocol::StageStatus>& other) {
  if (one.size() != other.size()) return false;
  for (std::size_t s = 0; s < one.size(); ++s) {
    const auto &a = one[s].workers, &b = other[s].workers;
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i].id != b[i].id || a[i].state != b[i].state) return false;
    }
  }
  return true;
}

std::uint64_t NewestLoss(const protocol::JobStatus& status) {
  return status.evicted.empty() ? 0 : status.evicted.back().number;
}

}  // namespace

bool DiffersForDecisions(const protocol::JobStatus& one, const protocol::JobStatus& other) {
  return one.state != other.state || one.term != other.term || one.generation != other.generation ||
         one.waiting_for != other.waiting_for || one.failure_class != other.failure_class ||
         one.spares != other.spares || one.checkpoint.version != other.checkpoint.version ||
         one.balance.moving != other.balance.moving ||
         one.balance.by_operator != other.balance.by_operator ||
         one.balance.one_region != other.balance.one_region ||
         NewestLoss(one) != NewestLoss(other) || !SameMembers(one.stages, other.stages);
}

struct TrainerLinks::Link {
  TrainerAddress address;
  TrainerView view;
  std::unique_ptr<TrainerConnection> connection;  // set once, by the polling thread
  Timepoint connect_at{};
};

TrainerLinks::TrainerLinks(Connect connect, OnChange on_change, Duration interval)
    : connect_(std::move(connect)),
      on_change_(std::move(on_change)),
      interval_(interval),
      thread_([this] { Run(); }) {}

TrainerLinks::~TrainerLinks() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void TrainerLinks::Want(const std::string& job, const TrainerAddress& address) {
  std::shared_ptr<Link> old;  // closes its connection when the lock is free again
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Link>& link = links_[job];
    if (link && link->address == address) return;
    old = std::exchange(link, std::make_shared<Link>());
    link->address = address;
    link->view.wanted_since = Clock::now();
    // With a renewed certificate, it is still the same trainer.
    if (old && old->address.dial == address.dial && old->address.job_uid == address.job_uid) {
      link->view = old->view;
    }
  }
  wake_.notify_all();
}

void TrainerLinks::Forget(const std::string& job) {
  std::shared_ptr<Link> old;  // outlives the lock: closing a connection takes a while
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(job);
  if (found == links_.end()) return;
  old = std::move(found->second);
  links_.erase(found);
}

std::optional<TrainerView> TrainerLinks::View(const std::string& job) const {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(job);
  if (found == links_.end()) return std::nullopt;
  return found->second->view;
}

Status TrainerLinks::Send(const std::string& job, protocol::Direct direct) {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(job);
  if (found == links_.end() || !found->second->connection) {
    return Unavailable("no connection to the trainer of " + job);
  }
  return found->second->connection->Send(std::move(direct));
}

std::size_t TrainerLinks::count() const {
  const std::lock_guard lock(mutex_);
  return links_.size();
}

void TrainerLinks::Run() {
  pthread_setname_np(pthread_self(), "links");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const std::map<std::string, std::shared_ptr<Link>> links = links_;
    lock.unlock();
    for (const auto& [job, link] : links) Look(job, *link);
    lock.lock();
    if (!stopping_) wake_.wait_for(lock, interval_);
  }
}

void TrainerLinks::Look(const std::string& job, Link& link) {
  if (!link.connection) {
    if (Clock::now() < link.connect_at) return;
    auto made = connect_(link.address);
    if (!made.ok()) {
      LOG_WARN("{}: no connection to its trainer: {}", job, made.status().ToString());
      link.connect_at = Clock::now() + kRetryAfterRefusal;
      return;
    }
    const std::lock_guard lock(mutex_);
    link.connection = std::move(made).value();
  }
  std::optional<protocol::JobStatus> taken = link.connection->Take();
  if (!taken) return;
  bool changed;
  {
    const std::lock_guard lock(mutex_);
    changed = !link.view.status || DiffersForDecisions(*link.view.status, *taken);
    link.view.status = std::move(taken);
    link.view.heard = Clock::now();
  }
  if (changed) on_change_(job);
}

}  // namespace swarm::controller
