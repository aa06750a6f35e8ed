// Gets the stage that a welcome asks for, with its state: from the checkpoint or the initial
// weights that the welcome names, from replicas of the stage when the worker joins them, or from
// what the worker has kept of it.
//
// Owned by the worker's control loop. The stage is made on the compute thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/swarmjob.h"
#include "base/loop.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/data.h"
#include "worker/stage/compute.h"
#include "worker/stage/join/joining.h"
#include "worker/stage/join/kept_state.h"
#include "worker/stage/worker_options.h"
#include "worker/storage/places.h"

namespace swarm::stage {

/// What a loader needs of its worker. Called on the control loop.
class LoaderHost {
 public:
  virtual ~LoaderHost() = default;
  virtual void SendFetch(const protocol::WorkerId& to, const protocol::Fetch& fetch) = 0;
  virtual void Meet(const protocol::Member& donor) = 0;
  /// The stage is loaded. `digest` is that of its state.
  virtual void OnLoaded(std::unique_ptr<model::Stage> stage, const Digest& digest) = 0;
  /// The stage cannot be loaded.
  virtual void OnLoadFailed(const Status& why) = 0;
  /// No donor gives the state; the worker may come back and join again.
  virtual void OnCopyFailed(const Status& why) = 0;
};

class StateLoader {
 public:
  /// All outlive this, or the loops are stopped before.
  StateLoader(const WorkerOptions& options, Loop& control, Compute& compute, LoaderHost& host)
      : options_(options), control_(control), compute_(compute), host_(host) {}

  /// Begins a load; one that runs already is dropped. It asks a bucket that does not answer again
  /// every few seconds. `round_trips`: as storage::Reader has them. `kept`: counts if the welcome
  /// says to go on from it; dropped otherwise.
  void Begin(const api::SwarmJob& job, const protocol::Welcome& welcome,
             std::map<std::string, double> round_trips, std::shared_ptr<const KeptState> kept);
  /// Drops the load that runs, if any. Its host hears nothing of it any more.
  void Cancel();

  /// As StateFetch.
  void OnTick(Timepoint now);
  bool OnFetched(const protocol::WorkerId& from, const protocol::Fetched& fetched,
                 const Bytes& payload, Timepoint now);
  void OnDonorLost(const protocol::WorkerId& donor, Timepoint now);

 private:
  void BeginCopy();
  void Load(std::optional<checkpoint::TensorLookup> tensors);
  void OnMade(Result<std::unique_ptr<model::Stage>> stage, const Digest& digest,
              std::uint64_t load);

  const WorkerOptions& options_;
  Loop& control_;
  Compute& compute_;
  LoaderHost& host_;
  api::SwarmJob job_;
  protocol::Welcome welcome_;
  storage::Reader reader_;
  std::uint64_t loads_ = 0;  // begun or cancelled: results of an earlier load are dropped
  std::unique_ptr<StateFetch> fetch_;
};

}  // namespace swarm::stage
