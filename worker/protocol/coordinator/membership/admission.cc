#include "worker/protocol/coordinator/membership/admission.h"

#include "worker/protocol/numeric_class.h"

namespace swarm::protocol {

std::string Admission::ClassOf(const Hello& hello) const {
  return ClassInJob(hello.numeric_class, job_.options.probes);
}

bool Admission::Admit(const Hello& hello, bool is_first, Turn& turn) {
  if (hello.protocol_version != kProtocolVersion) {
    Refuse(hello.id,
           "it speaks protocol version " + std::to_string(hello.protocol_version) +
               ", this job speaks " + std::to_string(kProtocolVersion),
           false, turn);
    return false;
  }
  if (job_.convicted.contains(hello.id)) {
    Refuse(hello.id, "an audit has found that what it computes is wrong", false, turn);
    return false;
  }
  if (job_.retired.Has(hello.id)) {
    Refuse(hello.id, "its pod is gone: its certificate counts no more", false, turn);
    return false;
  }
  if (job_.retired.below > 0) turn.Tell(hello.id, Retire{job_.options.term, job_.retired});
  const bool taking_over = job_.phase == Phase::kTakingOver;
  const std::string numeric_class = ClassOf(hello);
  // A worker that serves may have said hello, and not told its holding yet.
  if (is_first && !taking_over) numeric_class_.clear();
  if (!job_.options.exact) return true;
  if (taking_over ? hello.serving : numeric_class_.empty()) numeric_class_ = numeric_class;
  if (numeric_class_.empty() || numeric_class == numeric_class_) return true;
  Refuse(hello.id,
         "its results would differ from those of the others: it is of numeric class " +
             numeric_class + ", this exact job is of " + numeric_class_,
         false, turn);
  return false;
}

void Admission::Refuse(const WorkerId& id, const std::string& reason, bool rejoin,
                       Turn& turn) const {
  if (!rejoin) turn.Report(EventKind::kWorkerRefused, id.value + ": " + reason, {.worker = id});
  turn.Tell(id, Shutdown{job_.options.term, reason, rejoin});
}

void Admission::RefuseOtherClasses(Turn& turn) {
  if (!job_.options.exact) return;
  auto& workers = members_.all();
  for (auto it = workers.begin(); it != workers.end();) {
    const auto entry = it++;
    const Worker& worker = entry->second;
    if (worker.role() != Role::kWaiting) continue;
    if (numeric_class_.empty()) numeric_class_ = worker.numeric_class;
    if (worker.numeric_class == numeric_class_) continue;
    Refuse(entry->first, "its results would differ from those of the others", false, turn);
    members_.Erase(WorkerId(entry->first));
  }
}

}  // namespace swarm::protocol
