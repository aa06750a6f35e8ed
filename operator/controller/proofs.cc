#include "operator/controller/proofs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/identity/authority.h"
#include "base/log.h"
#include "operator/objects/read.h"
#include "operator/objects/token_review.h"
#include "worker/enrol/proof.h"

namespace swarm::controller {
namespace {

/// Each holds a thread of gRPC, which has as few as two, and needs another one for the satellite's
/// answer. Pods that are turned away come again.
constexpr std::size_t kReviewsMax = 1;

/// Can be created alone: a question, whose answer is the object that the server returns.
kube::Resource TokenReviews() { return {"authentication.k8s.io", "v1", "tokenreviews", false}; }

}  // namespace

Result<enrol::ProveReply> Proofs::Prove(const enrol::Caller& caller,
                                        const enrol::ProveRequest& request) {
  // Many pods may share one address, that of a router: one that fails does not stop the others.
  const std::string source = caller.address + " as " + request.worker;
  {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(failures_.Admit(source, parts_.timing.Now()));
  }
  ASSIGN_OR_RETURN(const Question question, Look(request));
  const auto allowed = plan::FindProver(question.asked, question.proving);
  if (allowed.status().code() == StatusCode::kNotFound) return allowed.status();
  if (!allowed.ok()) return Refuse(question, source, allowed.status());
  ASSIGN_OR_RETURN(const plan::TokenReviewed reviewed, Review(question, request.token));
  const Status judged = plan::JudgeProof(question.asked, question.proving, reviewed,
                                         enrol::ProofAudience(question.proving.uid));
  if (!judged.ok()) return Refuse(question, source, judged);
  auto signed_pair = parts_.secrets.Sign(question.proving.uid, request.request, request.worker,
                                         identity::WorkerUri(question.proving.uid, request.worker),
                                         enrol::kProofValidity);
  if (signed_pair.status().code() == StatusCode::kInvalidArgument) {
    return Refuse(question, source, signed_pair.status());
  }
  RETURN_IF_ERROR(signed_pair.status());
  LOG_INFO("{}: {} of cluster {} at {} has proved which pod it is",
           kube::NameOf(*question.job).ToString(), request.worker, request.cluster, caller.address);
  return enrol::ProveReply{signed_pair->certificate, signed_pair->authority, enrol::kProofValidity};
}

Result<Proofs::Question> Proofs::Look(const enrol::ProveRequest& request) const {
  if (request.token.empty() || request.token.size() > enrol::kProofTokenBytesMax) {
    return InvalidArgument("a token of " + std::to_string(request.token.size()) + " bytes is none");
  }
  Question question{.asked = {request.job_uid, request.cluster, request.worker}};
  const std::vector<kube::Object> jobs = parts_.jobs.List();
  const auto job = std::ranges::find_if(
      jobs, [&](const kube::Object& each) { return kube::UidOf(*each) == request.job_uid; });
  question.cluster = request.cluster.empty() ? nullptr : parts_.clusters.Find(request.cluster);
  if (job == jobs.end() || question.cluster == nullptr) {
    return NotFound("home knows no job " + request.job_uid + " or no cluster " + request.cluster +
                    "; a home that has just begun knows them soon");
  }
  question.job = *job;
  const kube::ObjectName name = kube::NameOf(**job);
  question.proving = {.uid = request.job_uid, .ns = name.ns};
  for (const kube::Object& pod :
       question.cluster->informers().pods().ByIndex(kPodsByJob, name.ToString())) {
    if (!kube::IsOwnedBy(*pod, request.job_uid, kube::Ownership::kController)) continue;
    if (auto read = objects::ReadPod(*pod)) question.proving.pods.push_back(*std::move(read));
  }
  return question;
}

Result<plan::TokenReviewed> Proofs::Review(const Question& question, const std::string& token) {
  const std::string& name = question.asked.cluster;
  if (!question.cluster->reachable()) {
    return Unavailable("the satellite of the cluster " + name + " is away; try again later");
  }
  {
    const std::lock_guard lock(mutex_);
    if (reviews_ >= kReviewsMax) {
      return ResourceExhausted("too many pods prove themselves at once; try again later");
    }
    ++reviews_;
  }
  const auto answer = question.cluster->client().Create(
      TokenReviews(), objects::BuildTokenReview(token, enrol::ProofAudience(question.proving.uid)));
  {
    const std::lock_guard lock(mutex_);
    --reviews_;
  }
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
                       "A caller at " + source + " of cluster " + question.asked.cluster +
                           " gets no certificate: " + why.message());
  return why;
}

}  // namespace swarm::controller
