#include "worker/protocol/fetcher.h"

#include <algorithm>
#include <tuple>

namespace swarm::protocol {

Fetcher::Fetcher(FetcherOptions options) : options_(std::move(options)) {
  for (const WorkerId& id : options_.donors) {
    if (Find(id) == nullptr) donors_.push_back({.id = id, .far = options_.far.contains(id)});
  }
  NoticeFailure();
}

void Fetcher::Want(std::uint64_t count) {
  if (count > held_.size()) held_.resize(count);
}

Fetcher::Donor* Fetcher::Find(const WorkerId& id) {
  const auto at = std::ranges::find(donors_, id, &Donor::id);
  return at == donors_.end() ? nullptr : &*at;
}

void Fetcher::Drop(Donor& donor, const std::string& why) {
  if (!donor.gone.empty()) return;
  donor.gone = why.empty() ? "gone" : why;
  again_.merge(donor.owed);
  donor.owed.clear();
}

void Fetcher::OnGone(const WorkerId& id, const std::string& why) {
  if (Donor* donor = Find(id)) Drop(*donor, why);
  NoticeFailure();
}

void Fetcher::OnPiece(const WorkerId& id, std::uint64_t piece, bool intact, Timepoint now) {
  if (!failure_.empty()) return;
  Donor* donor = Find(id);
  if (donor != nullptr) {
    donor->heard = now;
    donor->silent = 0;
  }
  if (!Wants(piece)) return;
  if (intact) {
    held_[piece] = true;
    ++held_count_;
    asks_.erase(piece);
    again_.erase(piece);
    for (Donor& each : donors_) each.owed.erase(piece);
    return;
  }
  if (donor == nullptr) return;
  if (donor->owed.erase(piece) > 0) again_.insert(piece);
  if (++donor->corrupt >= options_.corrupt_max) {
    Drop(*donor, "sent " + std::to_string(donor->corrupt) + " corrupt pieces");
  }
  NoticeFailure();
}

std::vector<Fetcher::Ask> Fetcher::Next(Timepoint now) {
  std::vector<Ask> asks;
  if (done()) return asks;
  NoticeSilence(now);
  NoticeFailure();
  // One piece per donor and round, so that all donors have something before one has much.
  for (bool more = failure_.empty(); more;) {
    more = false;
    for (Donor& donor : donors_) more |= AskOne(donor, now, asks);
  }
  return asks;
}

void Fetcher::NoticeSilence(Timepoint now) {
  for (Donor& donor : donors_) {
    if (donor.owed.empty() || now - donor.heard < options_.patience) continue;
    again_.merge(donor.owed);
    donor.owed.clear();
    if (++donor.silent >= options_.silent_max) Drop(donor, "silent");
  }
}

void Fetcher::NoticeFailure() {
  if (done() && !held_.empty()) return;
  const auto exhausted = [&](std::uint64_t piece) {
    return std::ranges::all_of(donors_, [&](const Donor& donor) {
      return !donor.gone.empty() || AsksOf(piece, donor) >= options_.asks_max;
    });
  };
  const bool none_left = std::ranges::none_of(donors_, &std::string::empty, &Donor::gone);
  const auto piece = std::ranges::find_if(again_, exhausted);
  if (!failure_.empty() || (!none_left && piece == again_.end())) return;
  failure_ = none_left ? "no donor is left"
                       : "piece " + std::to_string(*piece) + " did not come from any donor";
  for (const Donor& donor : donors_) {
    failure_ += "; " + donor.id.value + ": " + (donor.gone.empty() ? "there" : donor.gone);
  }
}

std::uint64_t Fetcher::AsksOf(std::uint64_t piece, const Donor& donor) const {
  const auto asked = asks_.find(piece);
  if (asked == asks_.end()) return 0;
  const auto times = asked->second.find(donor.id);
  return times == asked->second.end() ? 0 : times->second;
}

bool Fetcher::IsBest(const Donor& donor, std::uint64_t piece) const {
  const auto rank = [&](const Donor& each) {
    const std::uint64_t asks = AsksOf(piece, each);
    return std::tuple(asks >= options_.asks_max, each.silent > 0, asks, each.far);
  };
  return std::ranges::none_of(donors_, [&, mine = rank(donor)](const Donor& other) {
    return other.gone.empty() && rank(other) < mine;
  });
}

bool Fetcher::AskOne(Donor& donor, Timepoint now, std::vector<Ask>& asks) {
  if (!donor.gone.empty() || donor.owed.size() >= options_.owed_max) return false;
  while (fresh_ < held_.size() && held_[fresh_]) ++fresh_;
  const auto again =
      std::ranges::find_if(again_, [&](std::uint64_t piece) { return IsBest(donor, piece); });
  std::uint64_t piece = fresh_;
  if (again != again_.end()) {
    piece = *again;
    again_.erase(again);
  } else if (fresh_ < held_.size() && IsBest(donor, fresh_)) {
    ++fresh_;
  } else {
    return false;
  }
  if (donor.owed.empty()) donor.heard = now;
  donor.owed.insert(piece);
  ++asks_[piece][donor.id];
  asks.push_back({donor.id, piece});
  return true;
}

}  // namespace swarm::protocol
