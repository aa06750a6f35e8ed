// One look at one job: observe, decide, reserve, act, report.
//
// The caches may be behind what this very process did a moment ago. So they only tell whether there
// is something to do; what is done is decided once more, on what the API server says at that
// moment.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "operator/controller/actor.h"
#include "operator/controller/figures.h"
#include "operator/controller/job_memory.h"
#include "operator/controller/observe.h"
#include "operator/controller/trainer_links.h"
#include "operator/kube/client/client.h"
#include "operator/kube/leader/events.h"
#include "operator/kube/watch/store.h"

namespace swarm::controller {

/// What a reconcile reads without asking the server.
struct Caches {
  const kube::Store& jobs;
  const kube::Store& pods;             ///< with PodIndexes
  const kube::Store* nodes = nullptr;  ///< null: nodes may not be read
};

/// How a reconcile ended.
struct Reconciled {
  Status status;  ///< kAborted: somebody else has written meanwhile, look again at once
  std::optional<Duration> look_again;
};

/// Of one leadership. Thread-safe; of one job only one call runs at a time.
class Reconciler {
 public:
  using ReadClocks = std::function<Now()>;
  struct Parts {
    kube::Client& client;
    Caches caches;
    Actor& actor;
    TrainerLinks& links;
    JobSecrets& secrets;
    kube::EventRecorder& events;
    Figures& figures;
  };

  /// `parts` must outlive this.
  Reconciler(const Parts& parts, std::uint64_t leader_term, ReadClocks clocks)
      : parts_(parts), leader_term_(leader_term), clocks_(std::move(clocks)) {}

  Reconciled Reconcile(const kube::ObjectName& name);

 private:
  /// A decision and what it was made on.
  struct Decision {
    Snapshot snapshot;
    objects::JobView view;
    plan::Observed observed;
    plan::Plan plan;
    Now now;
  };

  void Forget(const kube::ObjectName& name);
  Snapshot ReadCaches(kube::Object job) const;
  Result<Snapshot> ReadServer(const kube::ObjectName& name, const std::string& uid,
                              const JobMemory& memory);
  Status AddNodes(const JobMemory* memory, Snapshot* snapshot) const;
  Result<Decision> Decide(Snapshot snapshot, JobMemory* memory);
  Status Judge(const objects::JobView& view, JobMemory* memory);
  void Link(const Decision& decision, JobMemory* memory);
  Status CarryOut(Decision& decision, JobMemory* memory);
  Status Write(const Decision& decision, JobMemory* memory);
  void Show(const Decision& decision);
  Acting ActingFor(const Decision& decision, JobMemory* memory) const;

  const Parts parts_;
  const std::uint64_t leader_term_;
  const ReadClocks clocks_;
  JobMemories memories_;
};

}  // namespace swarm::controller
