// The validation of one version: forwards over the validation microbatches, and their mean loss.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "worker/protocol/coordinator/membership/members.h"
#include "worker/protocol/routing/router.h"

namespace swarm::protocol {

class Validation {
 public:
  Validation(Job* job, const Members* members, Router* router)
      : job_(*job), members_(*members), router_(*router) {}

  /// A commit has made the job's version: begins its validation if one is due.
  void OnNewVersion();
  /// A validation is going on. It reads the newest version, so the next commit waits for its end.
  bool IsOpen() const { return pass_.has_value(); }
  /// Not all of its microbatches are issued.
  bool HasUnissued() const { return pass_ && !pass_->missing.empty(); }
  /// Issues one microbatch; false if there is none, or no room for it.
  bool Issue(Turn& turn);
  void OnEvaluated(const WorkerId& from, const TaskReport& report);
  /// Tells the result, once all is evaluated and all replicas have reported the state that it was
  /// evaluated with.
  void FinishIfKnown(Turn& turn);
  /// The worker has to execute a microbatch that is not done.
  bool Needs(const WorkerId& worker, StageIndex stage) const;
  /// Issues the microbatches whose routes include the worker again.
  void Lose(const WorkerId& worker);
  /// Issues microbatches again that were issued longer than `patience` ago.
  void IssueAgainAfter(Duration patience, Timepoint now);
  /// What was evaluated is wrong.
  void BeginAgain();
  /// The version is of no interest any more.
  void Cancel() { pass_.reset(); }
  /// The newest result; 0 if there was none.
  double loss() const { return loss_; }

 private:
  struct Way {
    std::vector<Hop> hops;
    Timepoint since;
  };
  struct Pass {
    Version version;
    std::set<Microbatch> missing;
    std::map<Microbatch, Way> open;
    std::map<Microbatch, double> losses;
  };
  void Begin(Version version);
  template <typename Predicate>
  void IssueAgainIf(Predicate is_lost);
  void Release(const Way& way);

  Job& job_;
  const Members& members_;
  Router& router_;
  std::optional<Pass> pass_;
  double loss_ = 0;
};

}  // namespace swarm::protocol
