#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "worker/tier/mover.h"
#include "worker/tier/piece.h"
#include "worker/tier/scratch_file.h"
#include "worker/tier/tier.h"

namespace swarm::tier {
namespace {

class FileTier final : public Tier {
 public:
  /// `mover` is one of `file`.
  FileTier(std::unique_ptr<const ScratchFile> file, std::unique_ptr<Mover> mover)
      : file_(std::move(file)), mover_(std::move(mover)) {}

  Status Grow(std::uint64_t bytes) override {
    if (bytes <= size_.load()) return {};
    RETURN_IF_ERROR(file_->Grow(RoundUpToBlocks(bytes)));
    size_ = RoundUpToBlocks(bytes);
    return {};
  }

  void SubmitRead(std::uint64_t offset, std::span<std::byte> to, Done done) override {
    if (to.empty()) return done(Status());
    mover_->Move(CutRead(offset, to, std::move(done)));
  }
  void SubmitWrite(std::uint64_t offset, std::span<const std::byte> from, Done done) override {
    SWARM_CHECK(offset % kBlock == 0 && offset + from.size() <= size_.load(),
                "a write behind the end of a tier");
    if (from.empty()) return done(Status());
    mover_->Move(CutWrite(offset, from, std::move(done)));
  }
  Result<Bytes> Map(std::uint64_t offset, std::uint64_t size,
                    std::shared_ptr<const void> owner) override {
    if (size == 0) return Bytes();
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_->descriptor(),
                                static_cast<off_t>(offset));
    if (memory == MAP_FAILED) {
      return ResourceExhausted(file_->name() + " cannot be mapped: " + std::strerror(errno));
    }
    const auto unmap = [size, owner = std::move(owner)](void* mapped) { ::munmap(mapped, size); };
    return Bytes::Wrap(memory, size, std::shared_ptr<void>(memory, unmap));
  }
  std::string name() const override { return file_->name(); }

 private:
  const std::unique_ptr<const ScratchFile> file_;
  std::atomic<std::uint64_t> size_{0};
  const std::unique_ptr<Mover> mover_;  // last: it uses the file until all is done
};

}  // namespace

Result<std::unique_ptr<Tier>> OpenFileTier(const std::string& folder) {
  Result<std::unique_ptr<const ScratchFile>> file = MakeScratchFile(folder, O_DIRECT);
  if (!file.ok()) {
    file = MakeScratchFile(folder);
    if (!file.ok()) return file.status();
    LOG_WARN(
        "{} does not offer direct I/O: scratch bytes go through the page cache, which counts "
        "as memory of a container",
        folder);
  }
  std::unique_ptr<Mover> mover = MakeThreads(**file);
  return std::unique_ptr<Tier>(std::make_unique<FileTier>(*std::move(file), std::move(mover)));
}

}  // namespace swarm::tier
