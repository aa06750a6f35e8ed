// Which workers may take part: those that speak this protocol and, in an exact job, compute the
// same bits as the others.
#pragma once

#include <string>

#include "worker/protocol/coordinator/membership/members.h"

namespace swarm::protocol {

class Admission {
 public:
  Admission(Job* job, Members* members) : job_(*job), members_(*members) {}

  /// Whether the worker may take part; if not, tells it why. The numeric class of an exact job is
  /// that of the workers that serve it, or else of the first to come. `is_first`: the coordinator
  /// knows no worker and no holding yet.
  bool Admit(const Hello& hello, bool is_first, Turn& turn);
  /// `rejoin`: it may come back as a new incarnation.
  void Refuse(const WorkerId& id, const std::string& reason, bool rejoin, Turn& turn) const;
  /// Refuses workers that came before the class of the job was known.
  void RefuseOtherClasses(Turn& turn);
  /// The part of the worker's numeric class that the job depends on.
  std::string ClassOf(const Hello& hello) const;

 private:
  Job& job_;
  Members& members_;
  std::string numeric_class_;  // of the job, if it is exact and known
};

}  // namespace swarm::protocol
