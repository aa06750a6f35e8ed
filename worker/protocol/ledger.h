// The account of one step's contributions: for each (microbatch, stage) a cell with the worker that
// has to fold it, or has. The trainer builds its ledger from hints (progress reports); the workers'
// fold sets are the truth, and Reconcile applies them (docs/protocol.md, rules 7 to 9). Pure.
//
// A report about a cell costs O(log n), whatever the numbers of microbatches, stages and workers:
// the cells of each worker are kept by state.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/data.h"
#include "worker/protocol/messages/recovery.h"

namespace swarm::protocol {

/// One worker of a reduce, and its exact contribution.
struct Participant {
  WorkerId worker;
  ClaimSet claims;
  bool operator==(const Participant&) const = default;
};

/// An execution of a cell that does not count, so that the cell was issued again.
struct Redone {
  WorkerId worker;  ///< that had the cell
  StageIndex stage;
  Microbatch microbatch;
  bool folded = false;  ///< the contribution went with its worker's sum, and was replayed
  bool operator==(const Redone&) const = default;
};

class Ledger {
 public:
  /// Beyond so many, Redone are not kept.
  static constexpr std::size_t kRedoneMax = 1u << 16;

  struct Cell {
    enum class State : std::uint8_t {
      kMissing,  ///< must be issued
      kOpen,     ///< `worker` is to fold it, as `attempt`
      kFolded,   ///< `worker` has folded it
    };
    State state = State::kMissing;
    WorkerId worker;
    Attempt attempt;
    bool forwarded = false;  ///< the worker has reported that its forward is done
    double loss = 0;         ///< of a folded cell of the last stage
  };
  /// The cells of one microbatch, by stage.
  using Row = std::vector<Cell>;

  Ledger(std::uint64_t microbatches, std::uint64_t stages);

  const Row& row(Microbatch microbatch) const { return rows_.at(microbatch.value); }
  const Cell& cell(Microbatch microbatch, StageIndex stage) const {
    return row(microbatch).at(stage.value);
  }
  std::uint64_t microbatches() const { return rows_.size(); }
  std::uint64_t stages() const { return folded_.size(); }

  /// The cell now belongs to `attempt` by `worker`. Requires: it is missing.
  void Issue(Microbatch microbatch, StageIndex stage, const WorkerId& worker, Attempt attempt);

  /// A report about the cell. Returns false, and changes nothing, if it belongs to another attempt
  /// or is folded already: late and doubled reports are harmless.
  bool MarkForwarded(const TaskKey& key, const WorkerId& worker);
  bool MarkFolded(const TaskKey& key, const WorkerId& worker, double loss);

  /// The contribution counts, whatever the cell was: for an account that is rebuilt from fold sets.
  /// Returns false, and changes nothing, if another worker has folded it.
  bool Adopt(StageIndex stage, const WorkerId& worker, const Contribution& contribution);

  /// The cell's attempt is closed: it is missing.
  void Close(Microbatch microbatch, StageIndex stage);
  /// All cells of the worker become missing: the worker is gone, or its part was voided.
  void Lose(const WorkerId& worker);
  /// The donor's folded cells become the heir's.
  void HandOver(const WorkerId& donor, const WorkerId& heir);

  /// Makes the cells of `worker` in the stage equal to the fold set that it states; other cells of
  /// the worker become missing. Returns false if the set contains a cell that another worker has
  /// folded: then the sums overlap and the worker's part must be voided.
  bool Reconcile(const WorkerId& worker, const ClaimSet& folded);

  /// Every microbatch of the stage is folded.
  bool StageComplete(StageIndex stage) const;
  /// Microbatches of which nothing is issued, in order.
  const std::set<Microbatch>& fresh() const { return fresh_; }
  /// Microbatches of which some cells are missing, and not all.
  const std::set<Microbatch>& broken() const { return broken_; }
  /// The worker owns an open cell.
  bool HasOpen(const WorkerId& worker) const;
  /// A cell below one of the worker's cells in the stage is open: its owner may still need a frame
  /// of the worker.
  bool Feeds(StageIndex stage, const WorkerId& worker) const;
  /// The worker has folded a microbatch of the stage.
  bool HasFolded(StageIndex stage, const WorkerId& worker) const;

  /// The worker's claims in the stage.
  ClaimSet ClaimsOf(StageIndex stage, const WorkerId& worker) const;
  /// The claims of each of `workers` in the stage, in the order given. When the stage is complete
  /// and all owners are among `workers`, these are disjoint and cover all microbatches.
  std::vector<Participant> Claims(StageIndex stage, const std::vector<WorkerId>& workers) const;
  /// In the order in which they were given up.
  const std::vector<Redone>& redone() const { return redone_; }
  /// By microbatch, as the last stage reported them.
  std::vector<double> Losses() const;

 private:
  /// The cells of one worker in one stage.
  struct Share {
    std::set<Microbatch> folded;
    std::set<Microbatch> open;
    std::uint64_t feeds = 0;  // cells of both above an open one
  };
  using Shares = std::map<std::pair<WorkerId, StageIndex>, Share>;

  Cell& At(Microbatch microbatch, StageIndex stage) {
    return rows_.at(microbatch.value).at(stage.value);
  }
  /// Every change of a cell's state or owner, with the accounts that follow from it.
  void Set(Microbatch microbatch, StageIndex stage, Cell next);
  /// Adds the cell to the accounts (sign 1), or removes it (sign -1).
  void Count(Microbatch microbatch, StageIndex stage, int sign);
  void Classify(Microbatch microbatch);
  void MakeFolded(Microbatch microbatch, StageIndex stage, double loss);
  const Share* FindShare(StageIndex stage, const WorkerId& worker) const;

  std::vector<Row> rows_;
  std::vector<std::uint64_t> folded_;   // per stage
  std::vector<std::uint64_t> missing_;  // per microbatch
  Shares shares_;
  std::set<Microbatch> fresh_, broken_;
  std::vector<Redone> redone_;
};

}  // namespace swarm::protocol
