#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "worker/tier/scratch_file.h"
#include "worker/tier/tier.h"

namespace swarm::tier {
namespace {

std::string ErrorText() { return std::strerror(errno); }

/// What a thread reads into and writes from: direct I/O wants aligned memory, which callers need
/// not have. A copy costs a tenth of what the disk takes.
using Buffer = std::unique_ptr<std::byte, decltype(&std::free)>;

Buffer MakeBuffer() {
  void* memory = std::aligned_alloc(kBlock, kPiece + kBlock);
  SWARM_CHECK(memory != nullptr, "no memory for a piece");
  return {static_cast<std::byte*>(memory), &std::free};
}

/// A request, of which several threads do the pieces.
struct Request {
  Tier::Done done;
  std::atomic<std::size_t> pieces;  ///< that are not done
  std::mutex mutex;
  Status status;  ///< the first error

  void Finish(const Status& of_piece) {
    if (!of_piece.ok()) {
      const std::lock_guard lock(mutex);
      if (status.ok()) status = of_piece;
    }
    if (--pieces == 0) done(status);
  }
};

struct Piece {
  std::shared_ptr<Request> request;
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::byte* to = nullptr;          ///< of a read
  const std::byte* from = nullptr;  ///< of a write
};

class FileTier final : public Tier {
 public:
  explicit FileTier(std::unique_ptr<const ScratchFile> file) : file_(std::move(file)) {
    for (std::thread& thread : threads_) thread = std::thread([this] { Run(); });
  }
  ~FileTier() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  Status Grow(std::uint64_t bytes) override {
    if (bytes <= size_.load()) return {};
    RETURN_IF_ERROR(file_->Grow(RoundUpToBlocks(bytes)));
    size_ = RoundUpToBlocks(bytes);
    return {};
  }

  void SubmitRead(std::uint64_t offset, std::span<std::byte> to, Done done) override {
    // Pieces end where blocks do.
    const std::uint64_t lead = offset % kBlock;
    Submit(offset, to.size(), lead, std::move(done),
           [&](Piece& piece, std::size_t at) { piece.to = to.data() + at; });
  }
  void SubmitWrite(std::uint64_t offset, std::span<const std::byte> from, Done done) override {
    SWARM_CHECK(offset % kBlock == 0 && offset + from.size() <= size_.load(),
                "a write behind the end of a tier");
    Submit(offset, from.size(), 0, std::move(done),
           [&](Piece& piece, std::size_t at) { piece.from = from.data() + at; });
  }
  Result<Bytes> Map(std::uint64_t offset, std::uint64_t size,
                    std::shared_ptr<const void> owner) override {
    if (size == 0) return Bytes();
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_->descriptor(),
                                static_cast<off_t>(offset));
    if (memory == MAP_FAILED) {
      return ResourceExhausted(file_->name() + " cannot be mapped: " + ErrorText());
    }
    const auto unmap = [size, owner = std::move(owner)](void* mapped) { ::munmap(mapped, size); };
    return Bytes::Wrap(memory, size, std::shared_ptr<void>(memory, unmap));
  }
  std::string name() const override { return file_->name(); }

 private:
  template <typename Place>
  void Submit(std::uint64_t offset, std::size_t size, std::uint64_t lead, Done done, Place place) {
    if (size == 0) return done(Status());
    const auto request = std::make_shared<Request>();
    request->done = std::move(done);
    request->pieces = (lead + size + kPiece - 1) / kPiece;
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < size;) {
      const std::size_t end = std::min(size, (lead + at) / kPiece * kPiece + kPiece - lead);
      Piece piece{.request = request, .offset = offset + at, .size = end - at};
      place(piece, at);
      waiting_.push_back(std::move(piece));
      at = end;
    }
    wake_.notify_all();
  }

  void Run() {
    pthread_setname_np(pthread_self(), "tier");
    const Buffer buffer = MakeBuffer();
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const Piece piece = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      piece.request->Finish(piece.to != nullptr ? ReadPiece(piece, buffer.get())
                                                : WritePiece(piece, buffer.get()));
      lock.lock();
    }
  }

  Status ReadPiece(const Piece& piece, std::byte* buffer) const {
    const std::uint64_t lead = piece.offset % kBlock;
    const std::uint64_t size = RoundUpToBlocks(lead + piece.size);
    for (std::uint64_t at = 0; at < size;) {
      const ssize_t n = ::pread(file_->descriptor(), buffer + at, size - at,
                                static_cast<off_t>(piece.offset - lead + at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        return DataLoss(file_->name() + " cannot be read: " + (n < 0 ? ErrorText() : "it ends"));
      }
      at += static_cast<std::uint64_t>(n);
    }
    std::memcpy(piece.to, buffer + lead, piece.size);
    return {};
  }

  Status WritePiece(const Piece& piece, std::byte* buffer) const {
    const std::uint64_t size = RoundUpToBlocks(piece.size);
    std::memcpy(buffer, piece.from, piece.size);
    std::memset(buffer + piece.size, 0, size - piece.size);
    for (std::uint64_t at = 0; at < size;) {
      const ssize_t n = ::pwrite(file_->descriptor(), buffer + at, size - at,
                                 static_cast<off_t>(piece.offset + at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return DataLoss(file_->name() + " cannot be written: " + ErrorText());
      at += static_cast<std::uint64_t>(n);
    }
    return {};
  }

  const std::unique_ptr<const ScratchFile> file_;
  std::atomic<std::uint64_t> size_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Piece> waiting_;
  bool stopping_ = false;
  std::array<std::thread, kThreads> threads_;  // last: they use the other members
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
  return std::unique_ptr<Tier>(std::make_unique<FileTier>(*std::move(file)));
}

}  // namespace swarm::tier
