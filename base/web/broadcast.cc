#include "base/web/broadcast.h"

#include <utility>

namespace swarm::web {

std::shared_ptr<Broadcast::Viewer> Broadcast::Join(std::string first) {
  auto viewer = std::make_shared<Viewer>(shared_, std::move(first));
  const std::lock_guard lock(shared_->mutex);
  if (shared_->closed || shared_->viewers.size() >= shared_->limits.viewers) return nullptr;
  shared_->viewers.insert(viewer.get());
  return viewer;
}

void Broadcast::Send(std::string text) {
  const auto shared_text = std::make_shared<const std::string>(std::move(text));
  const std::lock_guard lock(shared_->mutex);
  for (Viewer* viewer : shared_->viewers) {
    viewer->bytes_ += shared_text->size();
    viewer->waiting_.push_back(shared_text);
    if (viewer->bytes_ > shared_->limits.waiting_bytes) viewer->dropped_ = true;
    if (viewer->dropped_) viewer->waiting_.clear(), viewer->bytes_ = 0;
  }
  shared_->news.notify_all();
}

std::size_t Broadcast::viewers() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->viewers.size();
}

void Broadcast::Close() {
  const std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  shared_->news.notify_all();
}

Broadcast::Viewer::Viewer(std::shared_ptr<Shared> shared, std::string first)
    : shared_(std::move(shared)), bytes_(first.size()) {
  waiting_.push_back(std::make_shared<const std::string>(std::move(first)));
}

Broadcast::Viewer::~Viewer() {
  const std::lock_guard lock(shared_->mutex);
  shared_->viewers.erase(this);
}

std::optional<std::string> Broadcast::Viewer::Take(Duration limit) {
  std::unique_lock lock(shared_->mutex);
  shared_->news.wait_for(lock, limit,
                         [&] { return !waiting_.empty() || dropped_ || shared_->closed; });
  if (waiting_.empty()) {
    return dropped_ || shared_->closed ? std::nullopt : std::optional(std::string());
  }
  const std::shared_ptr<const std::string> next = std::move(waiting_.front());
  waiting_.pop_front();
  bytes_ -= next->size();
  lock.unlock();
  return *next;
}

}  // namespace swarm::web
