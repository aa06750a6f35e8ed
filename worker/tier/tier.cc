#include "worker/tier/tier.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

namespace swarm::tier {
namespace {

class MemoryTier final : public Tier {
 public:
  Status Grow(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (bytes > bytes_.size()) bytes_.resize(bytes);
    return {};
  }
  void SubmitRead(std::uint64_t offset, std::span<std::byte> to, Done done) override {
    {
      const std::lock_guard lock(mutex_);
      SWARM_CHECK(offset + to.size() <= bytes_.size(), "a read behind the end of a tier");
      if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
    }
    done(Status());
  }
  void SubmitWrite(std::uint64_t offset, std::span<const std::byte> from, Done done) override {
    {
      const std::lock_guard lock(mutex_);
      SWARM_CHECK(offset % kBlock == 0 && offset + from.size() <= bytes_.size(),
                  "a write behind the end of a tier");
      if (!from.empty()) std::memcpy(bytes_.data() + offset, from.data(), from.size());
    }
    done(Status());
  }
  Result<Bytes> Map(std::uint64_t offset, std::uint64_t size,
                    std::shared_ptr<const void>) override {
    const std::lock_guard lock(mutex_);
    SWARM_CHECK(offset + size <= bytes_.size(), "a map behind the end of a tier");
    return Bytes::Copy(bytes_.data() + offset, size);
  }
  std::string name() const override { return "memory"; }

 private:
  std::mutex mutex_;
  std::vector<std::byte> bytes_;
};

Status WaitFor(const std::function<void(Tier::Done)>& submit) {
  std::promise<Status> promise;
  submit([&](Status status) { promise.set_value(std::move(status)); });
  return promise.get_future().get();
}

}  // namespace

std::shared_ptr<std::byte[]> MakeMemory(std::size_t bytes) {
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  const std::size_t size = RoundUpToBlocks(std::max<std::size_t>(bytes, 1));
  // Only whole large pages between its ends become some.
  const std::size_t alignment = size < kLargePage ? kBlock : kLargePage;
  void* const memory =
      std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  SWARM_CHECK(memory != nullptr, "no memory for the bytes of a tier");
  if (alignment == kLargePage) ::madvise(memory, size, MADV_HUGEPAGE);  // else it is only slower
  return {static_cast<std::byte*>(memory), [](std::byte* m) { std::free(m); }};
}

Status Tier::Read(std::uint64_t offset, std::span<std::byte> to) {
  return WaitFor([&](Done done) { SubmitRead(offset, to, std::move(done)); });
}

Status Tier::Write(std::uint64_t offset, std::span<const std::byte> from) {
  return WaitFor([&](Done done) { SubmitWrite(offset, from, std::move(done)); });
}

std::unique_ptr<Tier> MakeMemoryTier() { return std::make_unique<MemoryTier>(); }

}  // namespace swarm::tier
