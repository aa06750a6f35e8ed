// What home needs of those who know the jobs, to let machines join them.
#pragma once

#include <string>

#include "worker/enrol/service/join.h"

namespace swarm::machines {

/// Whose worker a machine's certificate for home names.
struct Seat {
  std::string job_uid;
  std::string worker;
  bool operator==(const Seat&) const = default;
};

/// As enrol::JoinDesk, without what home's own authority signs.
class Desk {
 public:
  virtual ~Desk() = default;
  virtual void Enrol(const enrol::Caller& caller, const enrol::EnrolRequest& request,
                     enrol::Enrolled done) = 0;
  virtual void Refresh(const Seat& seat, const std::string& request, enrol::Refreshed done) = 0;
};

}  // namespace swarm::machines
