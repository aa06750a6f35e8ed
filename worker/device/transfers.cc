#include "worker/device/transfers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

namespace swarm::device {
namespace {

constexpr std::size_t kSmallest = 4096;

/// Sizes in quarters of a power of two: pieces fit many requests, and waste at most a quarter.
std::size_t SizeOf(std::size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t quarter = std::bit_floor(bytes) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

}  // namespace

Transfers::Transfers(std::shared_ptr<Device> device, std::size_t pinned_max, CopyBytes copy)
    : pool_(std::make_shared<Pool>()), copy_(copy) {
  pool_->device = std::move(device);
  pool_->pinned_max = pinned_max;
}

Transfers::~Transfers() {
  std::unique_lock lock(pool_->mutex);
  pool_->returned.wait(lock, [&] { return pool_->under_way == 0; });
}

Transfers::Pool::~Pool() {
  for (const auto& place : free) {
    for (const auto& [size, held] : place) device->Free(held.memory);
  }
}

std::size_t Transfers::pinned_bytes() const {
  std::lock_guard lock(pool_->mutex);
  return pool_->pinned_bytes;
}

Result<Transfers::Held> Transfers::Pool::Take(Place place, std::size_t bytes) {
  const std::size_t size = SizeOf(bytes);
  auto& pieces = free[static_cast<std::size_t>(place)];
  std::unique_lock lock(mutex);
  while (true) {
    if (!broken.ok()) return broken;
    const auto fits = pieces.lower_bound(size);
    if (fits != pieces.end() && fits->first <= 2 * size) {
      Held held = std::move(fits->second);
      pieces.erase(fits);
      return held;
    }
    if (place == Place::kDevice || pinned_bytes + size <= pinned_max) break;
    if (!pieces.empty()) {  // of other sizes
      const auto largest = std::prev(pieces.end());
      device->Free(largest->second.memory);
      pinned_bytes -= largest->first;
      pieces.erase(largest);
      continue;
    }
    if (under_way == 0) {
      return ResourceExhausted("a transfer of " + std::to_string(bytes) + " bytes, where " +
                               std::to_string(pinned_max) + " may be pinned and " +
                               std::to_string(lent_bytes) + " are lent");
    }
    returned.wait(lock);
  }
  Result<Memory> memory = device->Allocate(place, size);
  if (!memory.ok()) return memory.status();
  if (place == Place::kPinned) pinned_bytes += size;
  return Held{*memory, {}};
}

void Transfers::Pool::Return(Held held) {
  std::lock_guard lock(mutex);
  const auto place = static_cast<std::size_t>(held.memory.place);
  const std::size_t size = held.memory.size;
  free[place].emplace(size, std::move(held));
  returned.notify_all();
}

Status Transfers::Pool::Judge(const Status& result) {
  std::lock_guard lock(mutex);
  return broken.ok() ? result : broken;
}

void Transfers::Pool::Finish(const Status& status) {
  std::lock_guard lock(mutex);
  if (broken.ok()) broken = status;
  --under_way;
  returned.notify_all();
}

Bytes Transfers::Lend(const std::shared_ptr<Pool>& pool, const Memory& memory, std::size_t bytes) {
  {
    std::lock_guard lock(pool->mutex);
    if (pool->lent_bytes + memory.size <= pool->pinned_max / 2) {
      pool->lent_bytes += memory.size;
      const std::shared_ptr<const std::byte> owner(memory.data, [pool, memory](const std::byte*) {
        {
          std::lock_guard lock(pool->mutex);
          pool->lent_bytes -= memory.size;
        }
        pool->Return({memory, {}});
      });
      return Bytes::Wrap(memory.data, bytes, owner);
    }
  }
  Bytes copy = Bytes::Copy(memory.data, bytes);
  pool->Return({memory, {}});
  return copy;
}

Status Transfers::ToDevice(const Bytes& bytes, const std::function<void(const std::byte*)>& read,
                           Access besides) {
  Device& device = *pool_->device;
  ASSIGN_OR_RETURN(Held pinned, pool_->Take(Place::kPinned, bytes.size()));
  Result<Held> place = pool_->Take(Place::kDevice, bytes.size());
  if (!place.ok()) {
    pool_->Return(std::move(pinned));
    return place.status();
  }
  device.OnHost({.reads = {}, .writes = {pinned.memory.slot}});
  if (!bytes.empty()) copy_(pinned.memory.data, bytes.data(), bytes.size());
  {
    std::lock_guard lock(pool_->mutex);
    ++pool_->under_way;
  }
  device.Wait(Stream::kIn, place->last_use);
  device.Copy(Stream::kIn, place->memory, pinned.memory, bytes.size());
  device.Wait(Stream::kCompute, device.Record(Stream::kIn));
  device.Then(Stream::kIn, [pool = pool_.get(), pinned](const Status& status) {
    pool->Return(pinned);
    pool->Finish(status);
  });
  besides.reads.push_back(place->memory.slot);
  device.Compute(besides, [&] { read(place->memory.data); });
  place->last_use = device.Record(Stream::kCompute);
  pool_->Return(*std::move(place));
  return {};
}

Status Transfers::ToHost(std::size_t bytes, const std::function<void(std::byte*)>& write,
                         std::function<void(Result<Bytes>)> done) {
  Device& device = *pool_->device;
  ASSIGN_OR_RETURN(Held pinned, pool_->Take(Place::kPinned, bytes));
  Result<Held> place = pool_->Take(Place::kDevice, bytes);
  if (!place.ok()) {
    pool_->Return(std::move(pinned));
    return place.status();
  }
  device.Wait(Stream::kCompute, place->last_use);
  device.Compute({.reads = {}, .writes = {place->memory.slot}}, [&] { write(place->memory.data); });
  Leave(Stream::kOut, pinned.memory, place->memory, bytes, device.Record(Stream::kCompute),
        std::move(done));
  place->last_use = device.Record(Stream::kOut);
  pool_->Return(*std::move(place));
  return {};
}

Status Transfers::CopyToHost(const Memory& from, const Event& behind,
                             std::function<void(Result<Bytes>)> done) {
  ASSIGN_OR_RETURN(const Held pinned, pool_->Take(Place::kPinned, from.size));
  Leave(Stream::kState, pinned.memory, from, from.size, behind, std::move(done));
  return {};
}

void Transfers::Leave(Stream stream, const Memory& pinned, const Memory& from, std::size_t bytes,
                      const Event& behind, std::function<void(Result<Bytes>)> done) {
  Device& device = *pool_->device;
  {
    std::lock_guard lock(pool_->mutex);
    ++pool_->under_way;
  }
  device.Wait(stream, behind);
  device.Copy(stream, pinned, from, bytes);
  device.Then(stream, [pool = std::weak_ptr(pool_), memory = pinned, bytes,
                       done = std::move(done)](const Status& result) mutable {
    // Until Finish, the destructor waits. So this thread, which is the device's, never holds the
    // last reference to the pool, which would end the device.
    Pool* const alive = pool.lock().get();
    const Status status = alive->Judge(result);
    if (status.ok()) {
      alive->device->OnHost({.reads = {memory.slot}, .writes = {}});
      done(Lend(pool.lock(), memory, bytes));
    } else {
      alive->Return({memory, {}});
      done(status);
    }
    done = {};
    alive->Finish(status);
  });
}

void Transfers::AfterCompute(std::function<void(const Status&)> done) {
  {
    std::lock_guard lock(pool_->mutex);
    ++pool_->under_way;
  }
  pool_->device->Then(Stream::kCompute,
                      [pool = pool_.get(), done = std::move(done)](const Status& result) mutable {
                        const Status status = pool->Judge(result);
                        done(status);
                        done = {};
                        pool->Finish(status);
                      });
}

void Transfers::Break(const Status& why) {
  std::lock_guard lock(pool_->mutex);
  if (pool_->broken.ok()) pool_->broken = why;
}

}  // namespace swarm::device
