#include "worker/stage/join/part_fetch.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "worker/checkpoint/pieces.h"

namespace swarm::stage {

using protocol::Fetch;
using protocol::Fetched;
using protocol::WorkerId;

namespace {

/// Parts that are asked for at a time: what the holders owe must have room on its way.
constexpr std::size_t kPartsAtOnce = 8;

}  // namespace

PartFetch::PartFetch(const Fetch& what, const std::vector<Part>& parts, SendFetch send, Done done)
    : what_(what), send_(std::move(send)), done_(std::move(done)) {
  for (const Part& part : parts) {
    Running running{part, protocol::Fetcher({.donors = part.holders, .patience = kDonorPatience}),
                    std::shared_ptr<std::byte[]>(new std::byte[part.bytes])};
    running.fetcher.Want((part.bytes + checkpoint::kPieceBytes - 1) / checkpoint::kPieceBytes);
    running_.push_back(std::move(running));
  }
}

void PartFetch::OnTick(Timepoint now) {
  std::size_t asked = 0;
  for (Running& running : running_) {
    if (running.fetcher.done()) continue;
    if (asked++ == kPartsAtOnce) break;
    for (const protocol::Fetcher::Ask& ask : running.fetcher.Next(now)) {
      Fetch fetch = what_;
      fetch.piece = ask.piece;
      fetch.part = running.part.part;
      send_(ask.donor, fetch);
    }
  }
  Conclude();
}

bool PartFetch::OnFetched(const WorkerId& from, const Fetched& fetched, const Bytes& payload,
                          Timepoint now) {
  const bool mine = fetched.kind == what_.kind && fetched.generation == what_.generation &&
                    fetched.version == what_.version && fetched.group == what_.group &&
                    fetched.k == what_.k;
  const auto running =
      std::ranges::find(running_, fetched.part, [](const Running& r) { return r.part.part; });
  if (!mine || running == running_.end()) return false;
  if (!fetched.error.empty()) {
    running->fetcher.OnGone(from, fetched.error);
  } else {
    const std::uint64_t offset = fetched.piece * checkpoint::kPieceBytes;
    const bool intact =
        offset < running->part.bytes &&
        payload.size() == std::min(checkpoint::kPieceBytes, running->part.bytes - offset);
    if (intact && running->fetcher.Wants(fetched.piece)) {
      std::memcpy(running->memory.get() + offset, payload.data(), payload.size());
    }
    running->fetcher.OnPiece(from, fetched.piece, intact, now);
  }
  OnTick(now);
  return true;
}

void PartFetch::OnDonorLost(const WorkerId& donor, Timepoint now) {
  for (Running& running : running_) running.fetcher.OnGone(donor, "lost");
  OnTick(now);
}

void PartFetch::Conclude() {
  if (!done_) return;
  std::vector<Bytes> parts;
  for (const Running& running : running_) {
    if (!running.fetcher.done()) {
      if (running.fetcher.failure().empty()) return;
      const Done done = std::exchange(done_, nullptr);
      done(Unavailable("part " + std::to_string(running.part.part) + " of group " +
                       std::to_string(what_.group.value) + ": " + running.fetcher.failure()));
      return;
    }
    parts.resize(std::max<std::size_t>(parts.size(), running.part.part + 1));
    parts[running.part.part] =
        Bytes::Wrap(running.memory.get(), running.part.bytes, running.memory);
  }
  const Done done = std::exchange(done_, nullptr);
  done(std::move(parts));
}

}  // namespace swarm::stage
