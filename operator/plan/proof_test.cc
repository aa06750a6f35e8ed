#include "operator/plan/proof.h"

#include <gmock/gmock.h>

#include <functional>

namespace swarm::plan {
namespace {

using testing::HasSubstr;

const std::string kAudience = "swarmjob.dev/enrol/u1";

/// A pod of the job asks for its own identity, and all is in order.
struct Story {
  ProofAsked asked{"u1", "west", "tiny-w3"};
  ProvingJob job{
      "u1",
      "training",
      {{.name = "tiny-w3", .uid = "p3", .number = 3, .cluster = "west", .proves_itself = true},
       {.name = "tiny-w4", .uid = "p4", .number = 4, .cluster = "west", .proves_itself = true},
       {.name = "tiny-w5", .uid = "p5", .number = 5, .cluster = "east", .proves_itself = true},
       {.name = "tiny-trainer-1", .uid = "t1", .role = PodRole::kTrainer, .number = 1}}};
  TokenReviewed reviewed{.authenticated = true,
                         .audiences = {kAudience},
                         .user = "system:serviceaccount:training:default",
                         .pod = "tiny-w3",
                         .pod_uid = "p3"};
  Status Judge() const { return JudgeProof(asked, job, reviewed, kAudience); }
};

TEST(ProofTest, APodThatProvesWhichOneItIsBecomesItsWorker) {
  const Status judged = Story().Judge();
  EXPECT_TRUE(judged.ok()) << judged.ToString();
}

TEST(ProofTest, WhateverElseTheTokenShowsIsRefusedAndTheReasonTold) {
  struct Case {
    const char* what;
    std::function<void(Story&)> change;
    StatusCode code;
    const char* words;
  };
  const Case cases[] = {
      {"the token is forged, or has expired",
       [](Story& story) { story.reviewed = {.error = "token has expired"}; },
       StatusCode::kUnauthenticated, "does not accept the token: token has expired"},
      {"another cluster's token, which this API server has not signed",
       [](Story& story) { story.reviewed = {}; }, StatusCode::kUnauthenticated,
       "does not accept the token"},
      {"a token for another audience", [](Story& story) { story.reviewed.audiences = {}; },
       StatusCode::kUnauthenticated, "is not for swarmjob.dev/enrol/u1"},
      {"a token for another job's audience",
       [](Story& story) { story.reviewed.audiences = {"swarmjob.dev/enrol/u2"}; },
       StatusCode::kUnauthenticated, "is not for swarmjob.dev/enrol/u1"},
      {"an account's token that is bound to no pod",
       [](Story& story) { story.reviewed.pod = story.reviewed.pod_uid = ""; },
       StatusCode::kPermissionDenied, "bound to no pod"},
      {"a pod that asks for another one's identity",
       [](Story& story) { story.asked.worker = "tiny-w4"; }, StatusCode::kPermissionDenied,
       "is that of the pod tiny-w3"},
      {"an earlier pod of the same name", [](Story& story) { story.reviewed.pod_uid = "p2"; },
       StatusCode::kPermissionDenied, "with the UID p2, which is not tiny-w3"},
      {"the same UID under another name, which no API server says",
       [](Story& story) { story.reviewed.pod = "tiny-w4"; }, StatusCode::kPermissionDenied,
       "which is not tiny-w3"},
      {"a pod of another namespace",
       [](Story& story) { story.reviewed.user = "system:serviceaccount:training2:default"; },
       StatusCode::kPermissionDenied, "not in the namespace training"},
      {"a pod of another job", [](Story& story) { story.asked.job_uid = "u2"; },
       StatusCode::kNotFound, "no worker tiny-w3 of the job u2"},
      {"a worker of another cluster", [](Story& story) { story.asked.worker = "tiny-w5"; },
       StatusCode::kNotFound, "no worker tiny-w5 of the job u1 in the cluster west"},
      {"the trainer",
       [](Story& story) {
         story.asked = {"u1", "", "tiny-trainer-1"};
         story.reviewed.pod = "tiny-trainer-1";
         story.reviewed.pod_uid = "t1";
       },
       StatusCode::kNotFound, "no worker tiny-trainer-1"},
      {"a pod that is told to end", [](Story& story) { story.job.pods[0].deleted = WallTime(); },
       StatusCode::kPermissionDenied, "is told to end"},
      {"a pod that has failed", [](Story& story) { story.job.pods[0].phase = PodPhase::kFailed; },
       StatusCode::kPermissionDenied, "has ended"},
      {"a pod whose container has ended",
       [](Story& story) { story.job.pods[0].end = ContainerEnd(); }, StatusCode::kPermissionDenied,
       "has ended"},
      {"a token that is shown again after its pod is gone",
       [](Story& story) { story.job.pods.erase(story.job.pods.begin()); }, StatusCode::kNotFound,
       "no worker tiny-w3"},
      {"a pod that has its certificate from a Secret",
       [](Story& story) { story.job.pods[0].proves_itself = false; }, StatusCode::kPermissionDenied,
       "from a Secret"},
  };
  for (const Case& each : cases) {
    Story story;
    each.change(story);
    const Status judged = story.Judge();
    EXPECT_EQ(judged.code(), each.code) << each.what << ": " << judged.ToString();
    EXPECT_THAT(judged.message(), HasSubstr(each.words)) << each.what;
  }
}

}  // namespace
}  // namespace swarm::plan
