#include "operator/kube/watch/reflector.h"

#include <utility>

#include "base/log.h"

namespace swarm::kube {

Reflector::Reflector(Client& client, ReflectorOptions options, OnChange on_change, Timing& timing)
    : client_(client),
      options_(std::move(options)),
      on_change_(std::move(on_change)),
      timing_(timing),
      policy_(timing) {}

Reflector::~Reflector() = default;

void Reflector::Start() {
  heard_ = timing_.Now();
  thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

bool Reflector::WaitForSync(Duration limit, std::stop_token stop) const {
  std::unique_lock lock(mutex_);
  return synced_changed_.wait_for(lock, stop, limit, [this] { return synced_.load(); });
}

std::string Reflector::What() const {
  return options_.resource.plural + (options_.ns.empty() ? "" : " of " + options_.ns);
}

Status Reflector::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Reflector::OnFailed(const std::string& what, const Status& why) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) LOG_WARN("{}, will retry: {}", what, why.message());
  failure_ = why;
}

bool Reflector::OnWorked() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(failure_, Status()).ok();
}

void Reflector::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const ListWatchStep step = policy_.next();
    if (step.pause > Duration::zero() && !timing_.Sleep(step.pause, stop)) return;
    switch (step.kind) {
      case ListWatchStep::Kind::kList:
        List(step, stop);
        break;
      case ListWatchStep::Kind::kWatch:
        Watch(step, stop);
        break;
    }
  }
}

void Reflector::List(const ListWatchStep& step, std::stop_token stop) {
  ++lists_;
  ListOptions options;
  options.ns = options_.ns;
  options.label_selector = options_.label_selector;
  options.field_selector = options_.field_selector;
  options.resource_version = step.resource_version;
  options.trim = options_.trim;
  options.stop = stop;
  const auto list = client_.List(options_.resource, options);
  if (stop.stop_requested()) return;
  if (!list.ok()) {
    OnFailed("cannot list " + What(), list.status());
    return policy_.OnListFailed(list.status(), timing_.Now());
  }
  if (OnWorked()) LOG_INFO("listed {} again", What());
  heard_ = timing_.Now();
  policy_.OnListed(list->resource_version);
  options_.store->Replace(list->items, on_change_, options_.ns);
  const std::lock_guard lock(mutex_);
  synced_ = true;
  synced_changed_.notify_all();
}

void Reflector::Watch(const ListWatchStep& step, std::stop_token stop) {
  ++watches_;
  WatchOptions options;
  options.ns = options_.ns;
  options.label_selector = options_.label_selector;
  options.field_selector = options_.field_selector;
  options.resource_version = step.resource_version;
  options.timeout = step.timeout;
  options.idle_timeout = options_.idle_timeout;
  options.trim = options_.trim;
  policy_.OnWatchBegun(timing_.Now());
  const WatchEnd end = client_.Watch(
      options_.resource, options,
      [this](const WatchEvent& event) {
        OnWorked();
        heard_ = timing_.Now();
        policy_.OnEvent(event.resource_version);
        if (const auto change = options_.store->Apply(event)) on_change_(*change);
      },
      stop);
  const bool failed = end.kind == WatchEnd::Kind::kRefused || end.kind == WatchEnd::Kind::kBroken;
  if (failed) OnFailed("the watch of " + What() + " ended", end.status);
  policy_.OnWatchEnded(end, timing_.Now());
}

}  // namespace swarm::kube
