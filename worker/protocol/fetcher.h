// Decides which piece to ask of which donor, when several workers hold the same content. It asks
// all donors at once, and bounds the number of pieces that each of them owes. If a donor does not
// send a piece (it is gone, silent, refuses, or sends other bytes), the piece is asked of another.
//
// Pure: no clock, no bytes. The shell sends the requests of Next and reports the answers. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/protocol/ids.h"

namespace swarm::protocol {

struct FetcherOptions {
  std::vector<WorkerId> donors;  ///< in the order in which they are asked first
  /// Of these: asked for a piece only when each other one was asked for it as often, is silent or
  /// is gone.
  std::set<WorkerId> far = {};
  std::uint64_t owed_max = 4;  ///< pieces that one donor owes at a time
  /// A donor that owes pieces and has sent none for so long is silent. Others are asked for them,
  /// and it is asked for more only when all donors are silent, or it has spoken again.
  Duration patience = std::chrono::seconds(5);
  std::uint64_t silent_max = 3;   ///< times in a row; then the donor is dropped
  std::uint64_t corrupt_max = 2;  ///< corrupt pieces; then the donor is dropped
  /// How often one piece is asked of one donor, at most.
  std::uint64_t asks_max = 3;
};

class Fetcher {
 public:
  explicit Fetcher(FetcherOptions options);

  /// Pieces 0 to count - 1 are wanted. The count may grow, when the first pieces reveal more.
  void Want(std::uint64_t count);

  struct Ask {
    WorkerId donor;
    std::uint64_t piece = 0;
    bool operator==(const Ask&) const = default;
  };
  /// The requests to send now; counts them as sent. Call it after every event, and a few times
  /// within `patience` when there is none.
  std::vector<Ask> Next(Timepoint now);

  /// Whether `piece` is wanted and missing: only then is it worth checking.
  bool Wants(std::uint64_t piece) const { return piece < held_.size() && !held_[piece]; }
  /// `donor` has sent `piece`, intact or not. An intact piece counts, even if another was asked for
  /// it.
  void OnPiece(const WorkerId& donor, std::uint64_t piece, bool intact, Timepoint now);
  /// `donor` does not hold the content, or is gone: it is not asked again.
  void OnGone(const WorkerId& donor, const std::string& why);

  /// All wanted pieces are here.
  bool done() const { return held_count_ == held_.size(); }
  /// Why the rest will never come; empty while it still may. Final: later pieces do not count.
  const std::string& failure() const { return failure_; }

 private:
  struct Donor {
    WorkerId id;
    bool far = false;
    std::set<std::uint64_t> owed;
    Timepoint heard;  ///< last, or began to owe
    std::uint64_t silent = 0;
    std::uint64_t corrupt = 0;
    std::string gone;  ///< why it is dropped; empty: it is not
  };

  Donor* Find(const WorkerId& id);
  void Drop(Donor& donor, const std::string& why);
  void NoticeSilence(Timepoint now);
  void NoticeFailure();
  std::uint64_t AsksOf(std::uint64_t piece, const Donor& donor) const;
  /// No other donor is a better source of `piece` than `donor`.
  bool IsBest(const Donor& donor, std::uint64_t piece) const;
  bool AskOne(Donor& donor, Timepoint now, std::vector<Ask>& asks);

  const FetcherOptions options_;
  std::vector<Donor> donors_;
  std::vector<bool> held_;
  std::uint64_t held_count_ = 0;
  std::uint64_t fresh_ = 0;        ///< pieces from here on were never asked
  std::set<std::uint64_t> again_;  ///< were asked, and no donor owes them
  /// How often each missing piece was asked of each donor.
  std::map<std::uint64_t, std::map<WorkerId, std::uint64_t>> asks_;
  std::string failure_;
};

}  // namespace swarm::protocol
