// The parts of an update that replicas divide, as one worker sees them (docs/protocol.md, rule 31):
// gets the moments of the parts that become its own, updates these, and exchanges the new weights.
//
// Owned by the worker's control loop; work on tensors goes to the compute thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/model/stage.h"
#include "worker/protocol/commit.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/data.h"
#include "worker/stage/join/part_fetch.h"
#include "worker/stage/memory/account.h"
#include "worker/stage/runner_parts.h"

namespace swarm::stage {

class HeldParts {
 public:
  /// Called on the control loop but for the last.
  struct Events {
    /// The moments of the parts that a reduce has given to this worker are on their way to the
    /// stage.
    std::function<void()> on_moments;
    /// The record has been applied, or cannot be. kUnavailable: holders do not send their weights.
    std::function<void(const protocol::CommitRecord&, const Status&)> on_applied;
    /// Called on the compute thread, behind an update: the state is that of the next version.
    std::function<void(const protocol::CommitRecord&, const std::shared_ptr<model::Stage>&,
                       const std::vector<bool>& own)>
        on_state;
  };

  HeldParts(const RunnerParts& parts, Events events);

  /// Begins to serve the stage, whose first `count` parameters are parts; 0: nothing is divided.
  void Install(protocol::Generation generation, std::shared_ptr<model::Stage> stage,
               std::size_t count, protocol::Version version);
  /// Forgets the stage and all that belongs to it.
  void Forget();

  /// All moments are here.
  bool whole() const;
  /// The moments of the part are here, or on their way to the stage.
  bool Has(std::uint64_t part) const { return part < held_.size() && held_[part]; }
  /// The stage is between two versions. Ask it when the compute thread has stopped, or on it.
  bool half_applied() const { return half_applied_; }
  /// The result of the record that has holders; null: none.
  const protocol::GroupResult* FindDivided(const protocol::CommitRecord& record) const;

  /// Gets the moments of the parts that the reduce makes this worker's, if any are not here.
  void OnReduce(const protocol::Reduce& reduce);
  void StopReduce() { moments_.reset(); }

  /// Applies a record that has holders. `sums`: as model::Stage::BeginApply; sums[0] is empty on a
  /// worker that holds no part. `holds`: the worker has the sums of its parts.
  void Apply(const protocol::CommitRecord& record, std::vector<Bytes> sums, bool holds);
  /// The replica has applied what leads to this version.
  void OnVersion(protocol::Version version);
  /// Forgets the weights that steps below this one have made.
  void Release(protocol::Step below);

  /// A request for moments or weights. Answers it at once, or when they are here.
  void OnFetch(const protocol::WorkerId& from, const protocol::Fetch& fetch);
  /// False: nothing here asked for it.
  bool OnFetched(const protocol::WorkerId& from, const protocol::Fetched& fetched,
                 const Bytes& payload, Timepoint now);
  void OnTick(Timepoint now);
  void OnDonorLost(const protocol::WorkerId& donor, Timepoint now);

 private:
  struct Running {
    protocol::Step step;
    protocol::Attempt k;
    std::unique_ptr<PartFetch> fetch;
  };
  struct Updated {
    protocol::Attempt k;
    std::vector<Bytes> weights;  // by part
    MemoryCharge charge;
  };

  bool IsCurrent(protocol::Generation generation) const {
    return stage_ != nullptr && generation_ == generation;
  }
  Span UpdateSpan(const protocol::CommitRecord& record) const {
    return {.kind = SpanKind::kUpdate,
            .stage = static_cast<std::uint64_t>(parts_.metrics.stage.load()),
            .step = record.step.value};
  }
  void OnMoments(const protocol::Reduce& reduce, Result<std::vector<Bytes>> moments);
  void OnHalfApplied(const protocol::CommitRecord& record, const std::vector<bool>& own,
                     Result<std::vector<Bytes>> made);
  void FetchWeights(const protocol::CommitRecord& record, std::vector<PartFetch::Part> parts);
  void FinishApply(const protocol::CommitRecord& record, std::vector<Bytes> weights);
  void SendMoments(const protocol::WorkerId& to, const protocol::Fetch& fetch);
  void AnswerEarlyFetches();
  PartFetch::Done Post(std::function<void(Result<std::vector<Bytes>>)> then);
  SendFetch Send();

  const RunnerParts parts_;
  const Events events_;
  protocol::Generation generation_;
  std::shared_ptr<model::Stage> stage_;  // entered by the compute thread alone
  protocol::Version version_;
  std::vector<bool> held_;  // by part
  std::optional<Running> moments_, weights_;
  std::map<protocol::Step, Updated> updated_;
  std::vector<std::pair<protocol::WorkerId, protocol::Fetch>> early_fetches_;
  std::atomic<bool> half_applied_ = false;
};

}  // namespace swarm::stage
