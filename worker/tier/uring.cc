#include <liburing.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "worker/tier/mover.h"

namespace swarm::tier {
namespace {

void CloseRing(io_uring* ring) {
  ::io_uring_queue_exit(ring);
  delete ring;
}
using RingHandle = std::unique_ptr<io_uring, decltype(&CloseRing)>;

Status Refused(int error) {
  return FailedPrecondition(std::string("the kernel offers no io_uring: ") + std::strerror(error));
}

/// Errors: those of MakeRing.
Result<RingHandle> OpenRing(const ScratchFile& file) {
  auto memory = std::make_unique<io_uring>();
  // One more than pieces, for the thread's alarm.
  int result = ::io_uring_queue_init(kRingPieces + 1, memory.get(), 0);
  if (result < 0) return Refused(-result);
  RingHandle ring(memory.release(), &CloseRing);

  const Buffers buffers(1);
  ::io_uring_prep_read(::io_uring_get_sqe(ring.get()), file.descriptor(), buffers.at(0), kBlock, 0);
  result = ::io_uring_submit(ring.get());
  if (result < 0) return Refused(-result);
  io_uring_cqe* completion = nullptr;
  do {
    result = ::io_uring_wait_cqe(ring.get(), &completion);
  } while (result == -EINTR);
  if (result == 0) {
    result = completion->res;
    ::io_uring_cqe_seen(ring.get(), completion);
  }
  if (result < 0) return Refused(-result);
  return ring;
}

/// The ring, the slots and what is in them are the thread's. Others leave pieces to it, and wake it
/// through an eventfd, from which the ring always reads.
class Ring final : public Mover {
 public:
  /// Owns `alarm`, an eventfd.
  Ring(const ScratchFile& file, RingHandle ring, int alarm)
      : file_(file), ring_(std::move(ring)), alarm_(alarm), thread_([this] { Run(); }) {}
  ~Ring() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
    thread_.join();
    ::close(alarm_);
  }

  void Move(std::vector<Piece> pieces) override {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = waiting_.empty();
      std::ranges::move(pieces, std::back_inserter(waiting_));
    }
    if (first) Wake();  // behind others the thread finds them by itself
  }

 private:
  struct Slot {
    std::byte* buffer = nullptr;
    std::optional<Passage> passage;
  };

  void Wake() const { SWARM_CHECK(::eventfd_write(alarm_, 1) == 0, std::strerror(errno)); }

  void Run() {
    pthread_setname_np(pthread_self(), "tier");
    for (std::size_t i = 0; i < kRingPieces; ++i) {
      slots_[i].buffer = buffers_.at(i);
      free_.push_back(&slots_[i]);
    }
    SetAlarm();
    while (true) {
      BeginPieces();
      if (in_ring_ == 0) return;  // the alarm went off last, because this stops
      TakeCompletion();
    }
  }

  /// As many as there are free slots.
  void BeginPieces() {
    while (!free_.empty()) {
      std::optional<Piece> piece = TakeWaiting();
      if (!piece.has_value()) return;
      Slot* const slot = free_.back();
      free_.pop_back();
      slot->passage.emplace(*std::move(piece), slot->buffer, file_.memory_alignment());
      Submit(slot, 0);
    }
  }

  std::optional<Piece> TakeWaiting() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return {};
    Piece piece = std::move(waiting_.front());
    waiting_.pop_front();
    return piece;
  }

  bool stopping() {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }

  /// Waits for one.
  void TakeCompletion() {
    io_uring_cqe* completion = nullptr;
    while (::io_uring_peek_cqe(ring_.get(), &completion) != 0) Enter(1);
    auto* const slot = static_cast<Slot*>(::io_uring_cqe_get_data(completion));
    const int result = completion->res;
    ::io_uring_cqe_seen(ring_.get(), completion);
    --in_ring_;
    if (slot == nullptr) {
      if (!stopping()) SetAlarm();
    } else if (slot->passage->Advance(result, file_.name())) {
      slot->passage.reset();
      free_.push_back(slot);
    } else {
      // The kernel could not do all of it at once: a thread of its own may wait for the rest.
      Submit(slot, IOSQE_ASYNC);
    }
  }

  /// What the slot's passage has to move.
  void Submit(Slot* slot, unsigned flags) {
    const Passage& passage = *slot->passage;
    io_uring_sqe* const entry = NextEntry();
    const auto size = static_cast<unsigned>(passage.size());
    if (passage.reads()) {
      ::io_uring_prep_read(entry, file_.descriptor(), passage.memory(), size, passage.offset());
    } else {
      ::io_uring_prep_write(entry, file_.descriptor(), passage.memory(), size, passage.offset());
    }
    ::io_uring_sqe_set_flags(entry, flags);
    ::io_uring_sqe_set_data(entry, slot);
    Enter(0);
  }

  void SetAlarm() {
    io_uring_sqe* const entry = NextEntry();
    ::io_uring_prep_read(entry, alarm_, &alarms_, sizeof alarms_, 0);
    ::io_uring_sqe_set_data(entry, nullptr);
    Enter(0);
  }

  io_uring_sqe* NextEntry() {
    io_uring_sqe* const entry = ::io_uring_get_sqe(ring_.get());
    SWARM_CHECK(entry != nullptr, "more in a ring than it has entries");
    ++in_ring_;
    return entry;
  }

  /// Gives the kernel the entries that it does not have yet, and waits for so many completions.
  void Enter(unsigned completions) {
    const int result = ::io_uring_submit_and_wait(ring_.get(), completions);
    if (result >= 0 || result == -EINTR) return;
    SWARM_CHECK(result == -EAGAIN || result == -EBUSY,
                std::string("io_uring fails: ") + std::strerror(-result));
    // It has no memory for them now. They stay, and go with the next ones.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  const ScratchFile& file_;
  const RingHandle ring_;
  const int alarm_;
  std::uint64_t alarms_ = 0;  ///< what the kernel reads from the eventfd
  const Buffers buffers_{kRingPieces};
  std::array<Slot, kRingPieces> slots_;
  std::vector<Slot*> free_;
  std::size_t in_ring_ = 0;  ///< pieces and the alarm

  std::mutex mutex_;
  std::deque<Piece> waiting_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace

Result<std::unique_ptr<Mover>> MakeRing(const ScratchFile& file) {
  ASSIGN_OR_RETURN(RingHandle ring, OpenRing(file));
  const int alarm = ::eventfd(0, EFD_CLOEXEC);
  if (alarm < 0) return Refused(errno);
  return std::unique_ptr<Mover>(std::make_unique<Ring>(file, std::move(ring), alarm));
}

}  // namespace swarm::tier
