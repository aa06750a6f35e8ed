#include "worker/trainer/observer/status_memory.h"

#include <string>
#include <vector>

namespace swarm::trainer {
namespace {

std::size_t BytesOf(const std::string& text) { return text.capacity(); }
std::size_t BytesOf(const protocol::WorkerId& id) { return BytesOf(id.value); }
std::size_t BytesOf(const protocol::StageStatus::Worker& worker) { return BytesOf(worker.id); }
std::size_t BytesOf(const protocol::StageMove& move) { return BytesOf(move.worker); }
std::size_t BytesOf(const protocol::RegionTraffic& pair) {
  return BytesOf(pair.a) + BytesOf(pair.b);
}
std::size_t BytesOf(const protocol::Eviction& eviction) {
  return BytesOf(eviction.worker) + BytesOf(eviction.text);
}

template <typename Element>
std::size_t BytesOf(const std::vector<Element>& elements) {
  std::size_t bytes = elements.capacity() * sizeof(Element);
  for (const Element& element : elements) bytes += BytesOf(element);
  return bytes;
}

std::size_t BytesOf(const protocol::StageStatus& stage) { return BytesOf(stage.workers); }

}  // namespace

std::size_t BytesOf(const protocol::JobStatus& status) {
  std::size_t bytes = sizeof(status) + BytesOf(status.message) + BytesOf(status.waiting_for);
  bytes += status.stages.capacity() * sizeof(protocol::StageStatus);
  for (const protocol::StageStatus& stage : status.stages) bytes += BytesOf(stage);
  return bytes + BytesOf(status.spares) + BytesOf(status.evicted) +
         BytesOf(status.checkpoint.error) + BytesOf(status.balance.moving) +
         BytesOf(status.traffic);
}

bool StatusMemory::Take(std::size_t bytes) {
  if (bytes <= kFreeBytes) return true;
  const std::lock_guard lock(mutex_);
  if (bytes > bytes_max_ - bytes_) return false;
  bytes_ += bytes;
  return true;
}

void StatusMemory::Release(std::size_t bytes) {
  if (bytes <= kFreeBytes) return;
  const std::lock_guard lock(mutex_);
  bytes_ -= bytes;
}

}  // namespace swarm::trainer
