// Brings bytes to a device and back beside its computation, and keeps the order of streams right:
//
//   to the device:  host -> pinned -> [in] copy -> [compute] read
//   to the host:    [compute] write -> [out] copy -> pinned -> host, of the state [state] copy
//
// Each piece of device memory has one event, that of its last use; its next use waits for it.
// Pinned memory has a bound. Where that is reached, the calling thread waits until a transfer that
// is under way is done.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/device/device.h"

namespace swarm::device {

class Transfers {
 public:
  /// Copies bytes of the host as std::memcpy does.
  using CopyBytes = void (*)(void* to, const void* from, std::size_t bytes);
  /// `pinned_max`: bytes. `device` outlives this and all Bytes that it has given. `copy` brings
  /// bytes to pinned memory, on the thread that calls ToDevice.
  Transfers(std::shared_ptr<Device> device, std::size_t pinned_max, CopyBytes copy);
  /// Waits until no transfer is under way.
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Calls `read` at once: the kernels that it starts find the bytes at that place of the device.
  /// `besides`: what else of the device they touch. Errors: kResourceExhausted, kInternal (the
  /// device is of no use any more).
  Status ToDevice(const Bytes& bytes, const std::function<void(const std::byte*)>& read,
                  Access besides = {});

  /// Calls `write` at once: the kernels that it starts write so many bytes to that place of the
  /// device. `done` gets them on the host, on a thread of the device. On an error here it is not
  /// called. Errors: as ToDevice.
  Status ToHost(std::size_t bytes, const std::function<void(std::byte*)>& write,
                std::function<void(Result<Bytes>)> done);

  /// Copies memory of the device, as it is behind the event. Until `done` is called, nothing may
  /// write it. From any thread. `done` and errors: as of ToHost.
  Status CopyToHost(const Memory& from, const Event& behind,
                    std::function<void(Result<Bytes>)> done);

  /// Calls `done`, on a thread of the device, when the compute stream has done what stands in it.
  void AfterCompute(std::function<void(const Status&)> done);

  /// The device has refused work: transfers that are under way go wrong, and no other begins.
  void Break(const Status& why);

  /// Pinned bytes that exist, in use or not. From any thread.
  std::size_t pinned_bytes() const;
  /// As memcpy, between places of the host.
  void Copy(void* to, const void* from, std::size_t bytes) const { copy_(to, from, bytes); }

 private:
  struct Held {
    Memory memory;
    Event last_use;  // of device memory
  };
  /// What outlives the transfers: Bytes that were given out refer to it.
  struct Pool {
    std::shared_ptr<Device> device;
    std::size_t pinned_max = 0;
    std::mutex mutex;
    std::condition_variable returned;
    std::multimap<std::size_t, Held> free[2];  // by place; by size
    std::size_t pinned_bytes = 0;              // that exist
    std::size_t lent_bytes = 0;                // pinned, that callers read
    std::size_t under_way = 0;                 // transfers
    Status broken;                             // why the device is of no use

    ~Pool();
    Result<Held> Take(Place place, std::size_t bytes);
    void Return(Held held);
    /// What came of a transfer.
    Status Judge(const Status& result);
    /// The transfer is over.
    void Finish(const Status& status);
  };
  /// Appends to the stream the copy of what is there behind the event, and `done` behind it.
  void Leave(Stream stream, const Memory& pinned, const Memory& from, std::size_t bytes,
             const Event& behind, std::function<void(Result<Bytes>)> done);
  /// The bytes of a pinned piece, which goes back to the pool with the last reference to them; or a
  /// copy, if callers hold half of the pinned memory.
  static Bytes Lend(const std::shared_ptr<Pool>& pool, const Memory& memory, std::size_t bytes);

  const std::shared_ptr<Pool> pool_;
  const CopyBytes copy_;
};

}  // namespace swarm::device
