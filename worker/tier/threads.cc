#include <unistd.h>

#include <cerrno>
#include <utility>

#include "worker/tier/mover.h"
#include "worker/tier/piece_threads.h"

namespace swarm::tier {
namespace {

class Threads final : public Mover {
 public:
  explicit Threads(const ScratchFile& file)
      : file_(file), threads_(kThreads, [this](Piece piece, std::size_t thread) {
          Passage passage(std::move(piece), buffers_.at(thread), file_.memory_alignment());
          while (!passage.Advance(Call(passage), file_.name())) {
          }
        }) {}

  void Move(std::vector<Piece> pieces) override { threads_.Add(std::move(pieces)); }

 private:
  /// Bytes that were moved, or a negated errno.
  ssize_t Call(const Passage& passage) const {
    const auto offset = static_cast<off_t>(passage.offset());
    const ssize_t moved =
        passage.reads() ? ::pread(file_.descriptor(), passage.memory(), passage.size(), offset)
                        : ::pwrite(file_.descriptor(), passage.memory(), passage.size(), offset);
    return moved < 0 ? -errno : moved;
  }

  const ScratchFile& file_;
  const Buffers buffers_{kThreads};
  PieceThreads threads_;  // last: they use the other members
};

}  // namespace

std::unique_ptr<Mover> MakeThreads(const ScratchFile& file) {
  return std::make_unique<Threads>(file);
}

}  // namespace swarm::tier
