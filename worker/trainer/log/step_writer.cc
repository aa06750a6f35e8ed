#include "worker/trainer/log/step_writer.h"

#include "base/log.h"

namespace swarm::trainer {
namespace {

constexpr Duration kPeriod = std::chrono::seconds(10);

}  // namespace

void StepWriter::OnTick(Timepoint now) {
  if (writing_ > 0 || now - written_ < kPeriod) return;
  written_ = now;
  Write();
}

void StepWriter::Write() {
  if (!archive_.changed()) return;
  ++writing_;
  storage_.Post([this, pieces = archive_.TakeChanged()]() mutable {
    auto storage = storage::Storage::Open(uri_, options_);
    Status status = storage.status();
    std::erase_if(pieces, [&](const StepPiece& piece) {
      // Do not ask a storage that does not answer again for the other pieces.
      if (status.ok()) status = (*storage)->Write(piece.name, Bytes::Copy(piece.lines));
      return status.ok();
    });
    control_.Post([this, status, left = std::move(pieces)]() mutable {
      --writing_;
      if (!status.ok())
        LOG_WARN("the steps cannot be written beside the checkpoints yet, trying again: {}",
                 status.message());
      archive_.Retry(std::move(left));
    });
  });
}

}  // namespace swarm::trainer
