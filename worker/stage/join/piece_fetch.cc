#include "worker/stage/join/piece_fetch.h"

#include <cstring>
#include <utility>

#include "base/log.h"

namespace swarm::stage {

using protocol::Fetch;
using protocol::Fetched;
using protocol::FetchKind;
using protocol::WorkerId;

namespace {

FetchKind IndexKind(FetchKind kind) {
  return kind == FetchKind::kState ? FetchKind::kStateIndex : FetchKind::kGradientIndex;
}

}  // namespace

Result<std::shared_ptr<std::byte>> MakeHeapMemory(std::uint64_t bytes) {
  return std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
}

PieceFetch::PieceFetch(const Fetch& what, const Digest& digest, std::optional<std::uint64_t> bytes,
                       std::vector<WorkerId> donors, SendFetch send, MakeMemory make_memory,
                       std::set<WorkerId> far)
    : what_(what),
      digest_(digest),
      bytes_(bytes),
      send_(std::move(send)),
      make_memory_(std::move(make_memory)),
      fetcher_({.donors = std::move(donors), .far = std::move(far), .patience = kDonorPatience}) {
  fetcher_.Want(1);
}

void PieceFetch::OnTick(Timepoint now) {
  if (!status().ok()) return;
  for (const protocol::Fetcher::Ask& ask : fetcher_.Next(now)) {
    Fetch fetch = what_;
    fetch.kind = ask.piece == 0 ? IndexKind(what_.kind) : what_.kind;
    fetch.piece = ask.piece == 0 ? 0 : ask.piece - 1;
    send_(ask.donor, fetch);
  }
}

bool PieceFetch::IsMine(const Fetched& fetched) const {
  const bool kind = fetched.kind == what_.kind || fetched.kind == IndexKind(what_.kind);
  const bool group =
      what_.kind == FetchKind::kState || (fetched.group == what_.group && fetched.k == what_.k);
  return kind && group && fetched.generation == what_.generation &&
         fetched.version == what_.version;
}

bool PieceFetch::OnFetched(const WorkerId& from, const Fetched& fetched, const Bytes& payload,
                           Timepoint now) {
  if (!IsMine(fetched)) return false;
  const bool is_index = fetched.kind != what_.kind;
  if (!fetched.error.empty()) {
    fetcher_.OnGone(from, fetched.error);
  } else if (is_index || index_) {
    const std::uint64_t wanted = is_index ? 0 : fetched.piece + 1;
    const bool intact = !fetcher_.Wants(wanted) ||
                        (is_index ? TakeIndex(payload) : TakePiece(fetched.piece, payload));
    if (!intact) LOG_WARN("{}: {} has sent a corrupt piece", Text(), from.value);
    fetcher_.OnPiece(from, wanted, intact, now);
  }
  OnTick(now);
  return true;
}

bool PieceFetch::TakeIndex(const Bytes& payload) {
  if (ComputeDigest(payload.span()) != digest_) return false;
  auto index = checkpoint::DecodePieceIndex(payload.span());
  if (!index.ok()) {
    misfit_ = index.status().WithContext(Text());
  } else if (bytes_ && index->bytes != *bytes_) {
    misfit_ = InvalidArgument(Text() + " has " + std::to_string(index->bytes) + " bytes, not " +
                              std::to_string(*bytes_) + ": another model?");
  } else {
    Result<std::shared_ptr<std::byte>> memory = make_memory_(index->bytes);
    if (!memory.ok()) {
      misfit_ = memory.status().WithContext(Text());
      return true;
    }
    memory_ = *std::move(memory);
    fetcher_.Want(1 + index->count());
    index_ = *std::move(index);
  }
  return true;
}

bool PieceFetch::TakePiece(std::uint64_t piece, const Bytes& payload) {
  if (!index_->Matches(piece, payload.span())) return false;
  std::memcpy(memory_.get() + checkpoint::PieceIndex::Offset(piece), payload.data(),
              payload.size());
  return true;
}

void PieceFetch::OnDonorLost(const WorkerId& donor, Timepoint now) {
  fetcher_.OnGone(donor, "lost");
  OnTick(now);
}

Status PieceFetch::status() const {
  if (!misfit_.ok()) return misfit_;
  if (done() || fetcher_.failure().empty()) return {};
  return Unavailable(Text() + ": " + fetcher_.failure());
}

std::string PieceFetch::Text() const {
  const std::string number = std::to_string(what_.version.value);
  if (what_.kind == FetchKind::kState) return "the state of version " + number;
  return "the reduced gradient of group " + std::to_string(what_.group.value) + " of step " +
         number;
}

}  // namespace swarm::stage
