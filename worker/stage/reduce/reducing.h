// The sums that a worker takes part in: their chunks, from the first to the digest of the result.
//
// Owns a loop, on which everything here runs; all methods may be called from any thread and only
// post to it, except where they say otherwise.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "worker/checkpoint/pieces.h"
#include "worker/model/stage.h"
#include "worker/net/outbox.h"
#include "worker/stage/memory/account.h"
#include "worker/stage/metrics/worker_metrics.h"
#include "worker/stage/reduce/reduce.h"

namespace swarm::stage {

/// One reduced gradient.
struct ReducedSum {
  protocol::Generation generation;
  protocol::Step step;
  protocol::GroupIndex group;
  protocol::Attempt k;
  Bytes elements;  ///< of the group, in its flat order; where parts have holders, of the own parts
  std::shared_ptr<const checkpoint::PiecedBytes>
      pieces;  ///< of the elements, for workers that fetch them; null where parts have holders
  std::vector<protocol::TensorNorm> norms;
  std::vector<protocol::PartDigest> parts;     ///< the own ones, where parts have holders
  std::vector<protocol::PartHolders> holders;  ///< of the parts; empty: none has one
  Timepoint begun = {};                        ///< here; unknown of a sum that was fetched
};

class Reducing {
 public:
  /// All are called on the loop.
  using Done = std::function<void(ReducedSum)>;
  /// Every second of a sum that is not done.
  using Wait = std::function<void(protocol::Awaiting)>;
  /// This worker's own part of a sum cannot be read: its device has fallen off.
  using Unreadable = std::function<void(const Status&)>;

  /// `metrics` and `account` outlive this. Digests and norms of a sum are computed on `threads`.
  Reducing(protocol::WorkerId self, int threads, WorkerMetrics* metrics, MemoryAccount* account,
           Done done, Wait wait, Unreadable unreadable);

  /// Before anything else. The endpoint must live until Stop.
  void Attach(net::Endpoint* endpoint);
  /// Stops and joins the loop.
  void Stop() { loop_.Stop(); }

  /// Sums `own`, which gives this worker's accumulator of stage->groups()[group] on the thread of
  /// this, with the other participants'.
  /// A lower attempt of the same sum is over. Floats are sent as `codec` says. `regions`: of the
  /// participants, for the count of bytes.
  void Begin(const protocol::Reduce& reduce, std::shared_ptr<const model::Stage> stage,
             std::uint64_t group, std::function<Result<model::GradientSum>()> own,
             api::ReduceCodec codec, std::map<protocol::WorkerId, std::string> regions = {});
  void OnChunk(const protocol::WorkerId& from, const protocol::ReduceChunk& chunk, Bytes payload);
  /// The sums of the step are over, without a result.
  void Abandon(protocol::Generation generation, protocol::Step step);
  /// Steps up to this one are over: their late chunks are refused.
  void Release(protocol::Generation generation, protocol::Step step);
  /// Sends what waits for peers.
  void Flush();
  /// Sends nothing to the peer until Expect.
  void Forget(const protocol::WorkerId& peer);
  void Expect(const protocol::WorkerId& peer);
  /// Releases all that belongs to an earlier generation: sums, stages, chunks. Ready when all of it
  /// is released.
  std::shared_future<void> ForgetBefore(protocol::Generation generation);

  /// For tests: messages that wait for peers. Blocks.
  std::size_t CountWaiting();

 private:
  struct Key {
    protocol::Generation generation;
    protocol::Step step;
    protocol::GroupIndex group;
    protocol::Attempt k;
    auto operator<=>(const Key&) const = default;
  };
  struct Sum {
    std::unique_ptr<const ReduceCodec> codec;
    std::unique_ptr<GroupReduce> reduce;
    std::shared_ptr<const model::Stage> stage;
    std::uint64_t group = 0;
    model::GradientSum own;
    Timepoint begun = {};
  };
  struct EarlyChunk {
    protocol::WorkerId from;
    protocol::ReduceChunk chunk;
    Bytes payload;
    MemoryCharge charge;
  };

  // On the loop.
  /// Keeps a chunk of a sum that this worker has not begun, if the share allows.
  void KeepEarly(const Key& key, const protocol::WorkerId& from, const protocol::ReduceChunk& chunk,
                 Bytes payload);
  /// Forgets the unwanted ones of the chunks that wait to be sent.
  void ForgetChunks(const std::function<bool(const protocol::ReduceChunk&)>& unwanted);
  /// Sums below the floor are over.
  void RaiseFloor(protocol::Generation generation, protocol::Step step);
  void Take(const protocol::WorkerId& from, const protocol::ReduceChunk& chunk, Bytes payload);
  /// Forgets the early chunks of earlier attempts of the sum.
  void ForgetEarlyBefore(const Key& key);
  void FinishIfDone(const Key& key);
  /// A sum has begun, or is over.
  void NoteSumming();
  /// Reports the sum as long as it waits for chunks.
  void ReportLater(const Key& key);
  /// The residual of the group's last sum before this step's, of the same fragment of so many;
  /// empty if there is none.
  Bytes ResidualBefore(const Key& key, std::uint64_t fragments) const;
  void KeepResidual(const Key& key, std::uint64_t fragments, Bytes residual);
  void ForgetResidualsBefore(protocol::Generation generation);

  const protocol::WorkerId self_;
  const int threads_;
  WorkerMetrics* const metrics_;
  MemoryAccount* const account_;
  const Done done_;
  const Wait wait_;
  const Unreadable unreadable_;
  std::unique_ptr<net::Outbox> outbox_;
  BufferPool buffers_;
  std::map<Key, Sum> sums_;
  std::map<Key, std::vector<EarlyChunk>> early_;
  /// Residuals of the last two steps' sums, by group and fragment (Stage::fragments); two, because
  /// the last sum may have to be made again.
  using ResidualKey = std::tuple<protocol::Generation, protocol::GroupIndex, std::uint64_t>;
  std::map<ResidualKey, std::map<protocol::Step, Bytes>> residuals_;
  std::set<protocol::WorkerId> gone_;
  std::pair<protocol::Generation, protocol::Step> floor_;  // sums below it are over
  Loop loop_{"reduce"};                                    // last: it uses the members above
};

}  // namespace swarm::stage
