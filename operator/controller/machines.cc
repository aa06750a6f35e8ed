#include "operator/controller/machines.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/job_for_machines.h"
#include "api/status_json.h"
#include "base/identity/authority.h"
#include "base/identity/trust.h"
#include "base/log.h"
#include "operator/kube/client/secret_text.h"
#include "operator/machines/admission.h"
#include "operator/names/names.h"
#include "operator/objects/read.h"

namespace swarm::controller {
namespace {

using nlohmann::json;

constexpr int kWritesMax = 4;
constexpr Duration kLookPeriod = std::chrono::seconds(10);
/// Machines have turns of their own, beside the pods of each cluster.
constexpr const char* kTurn = "machines";

std::string WorkerOf(const std::string& job, std::uint64_t ordinal) {
  return names::PodName(job, names::PodRole::kWorker, ordinal);
}

/// A word with which others cannot write lines of logs and events.
std::string Plain(const std::string& word) {
  constexpr std::size_t kMost = 40;
  std::string plain = word.substr(0, kMost);
  std::ranges::replace_if(plain, [](unsigned char c) { return !std::isgraph(c); }, '?');
  return plain;
}

/// What machines are told of the job; nothing while the planner has not chosen its stages.
std::string JobFor(const json& job) {
  const auto view = objects::ReadJob(job);
  return view.ok() && view->errors.empty() && !view->open ? api::JobForMachines(view->job) : "";
}

}  // namespace

void Machines::Enrol(const enrol::Caller& caller, const enrol::EnrolRequest& request,
                     enrol::Enrolled done) {
  const std::string source = caller.address + " with " + Plain(request.token_id);
  {
    const std::lock_guard lock(mutex_);
    const Status may = failures_.Admit(source, parts_.timing.Now());
    if (!may.ok()) return done(may);
  }
  const Status posted =
      turns_.Post(kTurn, [this, caller, request, source, done](const Status& turn) {
        auto reply = turn.ok() ? Admit(caller, request) : turn;
        const StatusCode code = reply.status().code();
        if (code == StatusCode::kUnauthenticated || code == StatusCode::kPermissionDenied) {
          LOG_WARN("no machine joins from {}: {}", source, reply.status().ToString());
          const std::lock_guard lock(mutex_);
          failures_.Count(source, parts_.timing.Now());
        }
        done(std::move(reply));
      });
  if (!posted.ok()) done(posted);
}

Result<enrol::EnrolReply> Machines::Admit(const enrol::Caller& caller,
                                          const enrol::EnrolRequest& request) {
  ASSIGN_OR_RETURN(const machines::TokenId id, machines::ParseTokenId(request.token_id));
  const auto job = Find(id.job_uid);
  if (!job.ok()) {
    return Status(StatusCode::kUnauthenticated,
                  "home has given no such token, or its job was deleted");
  }
  const kube::ObjectName name = kube::NameOf(**job);
  const std::string digest = identity::Sha256(request.secret);
  ASSIGN_OR_RETURN(const machines::Account account, ReadAccount(**job));
  ASSIGN_OR_RETURN(const machines::Token token,
                   machines::FindToken(account, id.name, digest, parts_.timing.WallNow()));
  const auto gateways = parts_.clusters.Gateways();
  const auto gateway = gateways.find(names::kHomeCluster);
  if (gateway == gateways.end() || gateway->second.empty()) {
    return FailedPrecondition(
        "the cluster of the job has no gateway, by which machines reach its"
        " workers: install the chart with gateway.enabled=true");
  }
  enrol::EnrolReply reply{.validity = machines::kCertificateValidity,
                          .job_uid = id.job_uid,
                          .job_name = name.name,
                          .trainer = names::TrainerAddress(name.ns, name.name),
                          .seen_as = caller.address,
                          .job = JobFor(**job)};
  reply.trainer_gateway = gateway->second + "/" + reply.trainer.substr(0, reply.trainer.rfind(':'));
  bool used = false;
  const Change change = [&](const objects::JobView& view, api::SwarmJobStatus* status) {
    RETURN_IF_ERROR(machines::MayJoin(view.job.spec, *status, token.pool));
    const std::uint64_t ordinal =
        machines::Admit(token.pool, id.name, parts_.timing.WallNow(), status);
    reply.worker = WorkerOf(name.name, ordinal);
    ASSIGN_OR_RETURN(const JobSecrets::Signed pair,
                     parts_.secrets.Sign(id.job_uid, request.request, reply.worker,
                                         identity::WorkerUri(id.job_uid, reply.worker),
                                         machines::kCertificateValidity));
    reply.certificate = pair.certificate;
    reply.authority = pair.authority;
    if (used) return Status();
    used = true;
    return kube::ChangeSecretText(
        parts_.client, {name.ns, names::TokensSecretName(name.name)}, machines::kAccount,
        [&](const json& secret) -> Result<std::string> {
          ASSIGN_OR_RETURN(machines::Account counted,
                           machines::ParseAccount(kube::SecretText(secret, machines::kAccount)));
          RETURN_IF_ERROR(machines::UseToken(id.name, digest, parts_.timing.WallNow(), &counted));
          return machines::ToText(counted);
        });
  };
  ASSIGN_OR_RETURN(const kube::Object written, ChangeStatus(name, id.job_uid, change));
  LOG_INFO("{}: a machine at {} has joined as {} with the token {}", name.ToString(),
           caller.address, reply.worker, id.name);
  Tell(*written, "MachineJoined",
       "A machine at " + caller.address + " has joined the pool " + token.pool + " as " +
           reply.worker + ", with the token " + id.name + ".");
  return reply;
}

void Machines::Refresh(const machines::Seat& seat, const std::string& request,
                       enrol::Refreshed done) {
  const auto job = Find(seat.job_uid);
  if (!job.ok()) return done(Unavailable("home does not know the job; it may have been deleted"));
  auto view = objects::ReadJob(**job);
  if (!view.ok()) return done(view.status());
  const auto ordinal = machines::OrdinalOf(view->name, seat.worker);
  if (!ordinal) return done(PermissionDenied("the job has no worker " + Plain(seat.worker)));
  const Status may = machines::MayRenew(*ordinal, view->status);
  if (!may.ok() || request.empty()) {
    return done(may.ok() ? Result<enrol::RefreshReply>(enrol::RefreshReply()) : may);
  }
  const Status posted = turns_.Post(kTurn, [this, seat, request, done](const Status& turn) {
    done(turn.ok() ? Renew(seat, request) : turn);
  });
  if (!posted.ok()) done(posted);
}

Result<enrol::RefreshReply> Machines::Renew(const machines::Seat& seat,
                                            const std::string& request) {
  ASSIGN_OR_RETURN(const kube::Object job, Find(seat.job_uid));
  enrol::RefreshReply reply{.validity = machines::kCertificateValidity};
  ASSIGN_OR_RETURN(const JobSecrets::Signed pair,
                   parts_.secrets.Sign(seat.job_uid, request, seat.worker,
                                       identity::WorkerUri(seat.job_uid, seat.worker),
                                       machines::kCertificateValidity));
  reply.certificate = pair.certificate;
  RETURN_IF_ERROR(ChangeStatus(kube::NameOf(*job), seat.job_uid,
                               [&](const objects::JobView& view, api::SwarmJobStatus* status) {
                                 const auto ordinal = machines::OrdinalOf(view.name, seat.worker);
                                 return machines::Renew(ordinal.value_or(~std::uint64_t{0}),
                                                        parts_.timing.WallNow(), status);
                               })
                      .status());
  return reply;
}

void Machines::Tend() {
  const Timepoint now = parts_.timing.Now();
  std::map<std::string, Timepoint> next_look;
  for (const kube::Object& job : parts_.jobs.List()) {
    const json::json_pointer place("/status/machines");
    if (!job->contains(place)) continue;
    const std::string uid = kube::UidOf(*job);
    const auto due = next_look_.find(uid);
    if (due != next_look_.end() && now < due->second) {
      next_look.insert(*due);
      continue;
    }
    next_look[uid] = now + kLookPeriod;
    const Status done = PutOut(*job);
    if (!done.ok()) {
      LOG_WARN("{}: machines that were revoked may stay: {}", kube::NameOf(*job).ToString(),
               done.ToString());
    }
  }
  next_look_ = std::move(next_look);
}

Status Machines::PutOut(const json& job) {
  auto account = ReadAccount(job);
  // The owner may delete the Secret, and all tokens with it.
  if (account.status().code() == StatusCode::kUnauthenticated) account = machines::Account();
  RETURN_IF_ERROR(account.status());
  ASSIGN_OR_RETURN(const objects::JobView before, objects::ReadJob(job));
  const kube::WallTime now = parts_.timing.WallNow();
  api::SwarmJobStatus pruned = before.status;
  if (!machines::Prune(*account, now, &pruned)) return Status();
  ASSIGN_OR_RETURN(const kube::Object written,
                   ChangeStatus(kube::NameOf(job), before.uid,
                                [&](const objects::JobView&, api::SwarmJobStatus* status) {
                                  machines::Prune(*account, now, status);
                                  return Status();
                                }));
  ASSIGN_OR_RETURN(const objects::JobView after, objects::ReadJob(*written));
  for (const api::MachineStatus& machine : before.status.machines) {
    if (std::ranges::find(after.status.machines, machine.ordinal, &api::MachineStatus::ordinal) !=
        after.status.machines.end()) {
      continue;
    }
    Tell(*written, "MachinePutOut",
         "The machine of " + WorkerOf(after.name, machine.ordinal) + " in the pool " +
             machine.pool + " is out: it or its token " + machine.token +
             " was revoked, or its certificate has ended.");
  }
  return Status();
}

Result<kube::Object> Machines::Find(const std::string& uid) const {
  for (const kube::Object& job : parts_.jobs.List()) {
    if (kube::UidOf(*job) == uid) return job;
  }
  return NotFound("there is no job " + uid);
}

Result<machines::Account> Machines::ReadAccount(const json& job) const {
  const kube::ObjectName name = kube::NameOf(job);
  const auto secret =
      parts_.client.Get(kube::resources::Secrets(), {name.ns, names::TokensSecretName(name.name)});
  // Without an owner it may be that of an earlier job of this name.
  if (secret.status().code() == StatusCode::kNotFound ||
      (secret.ok() && !kube::IsOwnedBy(**secret, kube::UidOf(job)))) {
    return Status(StatusCode::kUnauthenticated, "the job has no tokens");
  }
  RETURN_IF_ERROR(secret.status());
  return machines::ParseAccount(kube::SecretText(**secret, machines::kAccount));
}

Result<kube::Object> Machines::ChangeStatus(const kube::ObjectName& name, const std::string& uid,
                                            const Change& change) const {
  Status last;
  for (int tries = 0; tries < kWritesMax; ++tries) {
    ASSIGN_OR_RETURN(const kube::Object job, parts_.client.Get(kube::resources::SwarmJobs(), name));
    ASSIGN_OR_RETURN(objects::JobView view, objects::ReadJob(*job));
    if (view.uid != uid || view.deleting) return NotFound("the job was deleted");
    api::SwarmJobStatus status = view.status;
    RETURN_IF_ERROR(change(view, &status));
    if (status == view.status) return job;
    json object = *job;
    object["status"] = api::StatusToJson(status);
    auto written =
        parts_.client.Update(kube::resources::SwarmJobs(), object, {.subresource = "status"});
    if (written.ok() || written.status().code() != StatusCode::kAborted) return written;
    last = written.status();
  }
  return Unavailable("others keep writing the status of the job: " + last.message());
}

void Machines::Tell(const json& job, const std::string& reason, const std::string& message) {
  parts_.events.Record(kube::ReferenceTo(job), kube::EventType::kNormal, reason, "Enrol", message);
}

}  // namespace swarm::controller
