#include "operator/controller/workloads.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "operator/names/names.h"
#include "operator/objects/trim.h"

namespace swarm::controller {
namespace {

/// How long the answer that Kueue is missing holds.
constexpr Duration kMissingFor = std::chrono::seconds(5);
constexpr Duration kSyncLimit = std::chrono::seconds(10);

}  // namespace

Workloads::Workloads(kube::Client& client, std::set<std::string> namespaces, Enqueue enqueue,
                     kube::Timing& timing)
    : client_(client),
      namespaces_(namespaces.empty() ? std::set<std::string>{""} : std::move(namespaces)),
      enqueue_(std::move(enqueue)),
      timing_(timing) {}

bool Workloads::IsMissing(const Status& status) {
  return status.code() == StatusCode::kNotFound || status.code() == StatusCode::kPermissionDenied;
}

Result<const kube::Store*> Workloads::Open() {
  const std::lock_guard lock(mutex_);
  // The right to read them may be taken away, and Kueue removed, while they are watched.
  // A watch that was allowed when it began goes on for minutes, so what was missing once stays in
  // doubt.
  const bool in_doubt = !missing_.ok() || std::ranges::any_of(reflectors_, [](const auto& each) {
    return IsMissing(each->failure());
  });
  if (reflectors_.empty() || in_doubt) RETURN_IF_ERROR(Look());
  if (reflectors_.empty()) Watch();
  const Timepoint end = timing_.Now() + kSyncLimit;
  for (const auto& each : reflectors_) {
    if (!each->WaitForSync(end - timing_.Now())) {
      return Unavailable("the first list of Workloads has not arrived yet");
    }
  }
  return store_.get();
}

Status Workloads::CanRead() {
  const std::lock_guard lock(mutex_);
  return Look();
}

Status Workloads::Look() {
  if (!missing_.ok() && timing_.Now() - looked_ < kMissingFor) return missing_;
  const Status found = LookForKueue();
  if (found.ok() || IsMissing(found)) missing_ = found;
  looked_ = timing_.Now();
  return found;
}

Status Workloads::LookForKueue() const {
  for (const std::string& ns : namespaces_) {
    // The empty answer shows that Workloads are served, and may be read.
    const Status status =
        client_
            .List(kube::resources::Workloads(),
                  {.ns = ns, .field_selector = "metadata.name=none", .page_size = 1})
            .status();
    if (status.code() == StatusCode::kNotFound) {
      return Status(StatusCode::kNotFound,
                    "the cluster does not serve Workloads of kueue.x-k8s.io/v1beta2; install a"
                    " Kueue that does");
    }
    if (status.code() == StatusCode::kPermissionDenied) {
      return Status(StatusCode::kPermissionDenied,
                    "the operator has no right to read Workloads; where Kueue is installed, the"
                    " value kueue.enabled=true of the operator's chart gives it");
    }
    RETURN_IF_ERROR(status);
  }
  return Status();
}

void Workloads::Watch() {
  LOG_INFO("a job has a queue; watching Workloads");
  for (const std::string& ns : namespaces_) {
    reflectors_.push_back(std::make_unique<kube::Reflector>(
        client_,
        kube::ReflectorOptions{.resource = kube::resources::Workloads(),
                               .ns = ns,
                               .label_selector = names::AnyPodSelector(),
                               .store = store_,
                               .trim = objects::TrimWorkload},
        [this](const kube::Change& change) {
          const kube::Object& workload = change.after ? change.after : change.before;
          const std::string job = kube::LabelOf(*workload, names::kJobLabel);
          enqueue_(kube::ObjectName{change.name.ns, job}.ToString());
        },
        timing_));
  }
  for (const auto& each : reflectors_) each->Start();
}

}  // namespace swarm::controller
