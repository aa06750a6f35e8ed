#include "operator/controller/proofs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/identity/authority.h"
#include "base/log.h"
#include "operator/names/names.h"
#include "operator/objects/read.h"
#include "operator/objects/token_review.h"
#include "worker/enrol/proof.h"

namespace swarm::controller {
namespace {

/// Can be created alone: a question, whose answer is the object that the server returns.
kube::Resource TokenReviews() { return {"authentication.k8s.io", "v1", "tokenreviews", false}; }

}  // namespace

void Proofs::Prove(const enrol::Caller& caller, const enrol::ProveRequest& request,
                   enrol::Proved done) {
  const Asking asking{caller, request, caller.address + " as " + request.worker};
  if (const auto question = Consider(asking); !question.ok()) return done(question.status());
  {
    const std::lock_guard lock(mutex_);
    // Else its failures would count only when many of its questions have cost something.
    if (!asking_.insert(asking.source).second) {
      return done(ResourceExhausted(asking.source + " waits for an answer; try again later"));
    }
  }
  const auto end = [this, source = asking.source, done](Result<enrol::ProveReply> reply) {
    {
      const std::lock_guard lock(mutex_);
      asking_.erase(source);
    }
    done(std::move(reply));
  };
  const Status posted = turns_.Post(request.cluster, [this, asking, end](const Status& turn) {
    end(turn.ok() ? Judge(asking) : turn);
  });
  if (!posted.ok()) end(posted);
}

Result<Proofs::Question> Proofs::Consider(const Asking& asking) {
  {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(failures_.Admit(asking.source, parts_.timing.Now()));
  }
  ASSIGN_OR_RETURN(Question question, Look(asking.request));
  const auto allowed = plan::FindProver(question.asked, question.proving);
  if (allowed.status().code() == StatusCode::kNotFound) return allowed.status();
  if (!allowed.ok()) return Refuse(question, asking.source, allowed.status());
  return question;
}

Result<enrol::ProveReply> Proofs::Judge(const Asking& asking) {
  const enrol::ProveRequest& request = asking.request;
  // Again: the pod may have ended while it waited.
  ASSIGN_OR_RETURN(const Question question, Consider(asking));
  ASSIGN_OR_RETURN(const plan::TokenReviewed reviewed, Review(question, request.token));
  const Status judged = plan::JudgeProof(question.asked, question.proving, reviewed,
                                         enrol::ProofAudience(question.proving.uid));
  if (!judged.ok()) return Refuse(question, asking.source, judged);
  auto signed_pair = parts_.secrets.Sign(question.proving.uid, request.request, request.worker,
                                         identity::WorkerUri(question.proving.uid, request.worker),
                                         enrol::kProofValidity);
  if (signed_pair.status().code() == StatusCode::kInvalidArgument) {
    return Refuse(question, asking.source, signed_pair.status());
  }
  RETURN_IF_ERROR(signed_pair.status());
  LOG_INFO("{}: {} of cluster {} at {} has proved which pod it is",
           kube::NameOf(*question.job).ToString(), request.worker, request.cluster,
           asking.caller.address);
  return enrol::ProveReply{signed_pair->certificate, signed_pair->authority, enrol::kProofValidity};
}

Result<Proofs::Question> Proofs::Look(const enrol::ProveRequest& request) const {
  if (request.token.empty() || request.token.size() > enrol::kProofTokenBytesMax) {
    return InvalidArgument("a token of " + std::to_string(request.token.size()) + " bytes is none");
  }
  const bool at_home = request.cluster == names::kHomeCluster;
  Question question{.asked = {request.job_uid, at_home ? "" : request.cluster, request.worker}};
  const std::vector<kube::Object> jobs = parts_.jobs.List();
  const auto job = std::ranges::find_if(
      jobs, [&](const kube::Object& each) { return kube::UidOf(*each) == request.job_uid; });
  question.cluster = parts_.clusters.Find(question.asked.cluster);
  if (job == jobs.end() || (question.cluster == nullptr && !at_home)) {
    return NotFound("home knows no job " + request.job_uid + " or no cluster " + request.cluster +
                    "; a home that has just begun knows them soon");
  }
  question.job = *job;
  const kube::ObjectName name = kube::NameOf(**job);
  question.proving = {.uid = request.job_uid, .ns = name.ns};
  const kube::Store& pods = at_home ? parts_.pods : question.cluster->informers().pods();
  for (const kube::Object& pod : pods.ByIndex(kPodsByJob, name.ToString())) {
    if (!kube::IsOwnedBy(*pod, request.job_uid, kube::Ownership::kController)) continue;
    if (auto read = objects::ReadPod(*pod)) question.proving.pods.push_back(*std::move(read));
  }
  return question;
}

Result<plan::TokenReviewed> Proofs::Review(const Question& question, const std::string& token) {
  const std::string name = question.cluster ? question.asked.cluster : names::kHomeCluster;
  if (question.cluster != nullptr && !question.cluster->reachable()) {
    return Unavailable("the satellite of the cluster " + name + " is away; try again later");
  }
  kube::Client& client = question.cluster ? question.cluster->client() : parts_.client;
  const auto answer = client.Create(
      TokenReviews(), objects::BuildTokenReview(token, enrol::ProofAudience(question.proving.uid)));
  if (answer.ok()) return objects::ReadTokenReview(**answer);
  // That the API server refuses the question says nothing of the pod.
  LOG_WARN(
      "the API server of the cluster {} judges no tokens, so pods there get no certificates: {}",
      name, answer.status().ToString());
  return Unavailable("the API server of the cluster " + name +
                     " does not judge the token: " + answer.status().message());
}

Status Proofs::Refuse(const Question& question, const std::string& source, const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    failures_.Count(source, parts_.timing.Now());
  }
  LOG_WARN("{}: no certificate for {}: {}", kube::NameOf(*question.job).ToString(), source,
           why.ToString());
  parts_.events.Record(kube::ReferenceTo(*question.job), kube::EventType::kWarning,
                       "IdentityRefused", "Enrol",
                       "A caller at " + source + " of cluster " +
                           (question.cluster ? question.asked.cluster : names::kHomeCluster) +
                           " gets no certificate: " + why.message());
  return why;
}

}  // namespace swarm::controller
