#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
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
  /// `mover` is one of `file`; `name` is for the log.
  FileTier(std::unique_ptr<const ScratchFile> file, std::unique_ptr<Mover> mover, std::string name)
      : file_(std::move(file)), name_(std::move(name)), mover_(std::move(mover)) {}

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
  std::string name() const override { return name_; }

 private:
  const std::unique_ptr<const ScratchFile> file_;
  const std::string name_;
  std::atomic<std::uint64_t> size_{0};
  const std::unique_ptr<Mover> mover_;  // last: it uses the file until all is done
};

}  // namespace

Result<std::unique_ptr<Tier>> OpenFileTier(const std::string& folder, FileMover wanted) {
  Result<std::unique_ptr<const ScratchFile>> file = MakeScratchFile(folder, O_DIRECT);
  if (!file.ok()) {
    file = MakeScratchFile(folder);
    if (!file.ok()) return file.status();
    LOG_WARN(
        "{} does not offer direct I/O: scratch bytes go through the page cache, which counts "
        "as memory of a container",
        folder);
  }
  std::string name = (*file)->name() + ", read and written ";
  std::unique_ptr<Mover> mover;
  std::string why;
  if (wanted == FileMover::kRing) {
    Result<std::unique_ptr<Mover>> ring = MakeRing(**file);
    if (ring.ok()) {
      mover = *std::move(ring);
      name += "through io_uring";
    } else {
      why = " (" + ring.status().message() + ")";
    }
  }
  if (mover == nullptr) {
    mover = MakeThreads(**file);
    name += "by " + std::to_string(kThreads) + " threads" + why;
  }
  return std::unique_ptr<Tier>(
      std::make_unique<FileTier>(*std::move(file), std::move(mover), std::move(name)));
}

Result<std::unique_ptr<Tier>> OpenFileTier(const std::string& folder) {
  const char* const variable = std::getenv("SWARM_SCRATCH_IO");
  const std::string word = variable == nullptr ? "" : variable;
  if (word == "io_uring") return OpenFileTier(folder, FileMover::kRing);
  if (word.empty() || word == "threads") return OpenFileTier(folder, FileMover::kThreads);
  return InvalidArgument("SWARM_SCRATCH_IO is '" + word + "'; it may be threads or io_uring");
}

}  // namespace swarm::tier
