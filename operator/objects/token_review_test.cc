#include "operator/objects/token_review.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace swarm::objects {
namespace {

using nlohmann::json;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(TokenReviewTest, AnAnswerTellsWhosePodTheTokenIs) {
  const plan::TokenReviewed reviewed = ReadTokenReview(json::parse(R"({"status": {
      "authenticated": true, "audiences": ["swarmjob.dev/enrol/u1"],
      "user": {"username": "system:serviceaccount:training:default",
               "extra": {"authentication.kubernetes.io/pod-name": ["tiny-w3"],
                         "authentication.kubernetes.io/pod-uid": ["p3"]}}}})"));
  EXPECT_TRUE(reviewed.authenticated);
  EXPECT_THAT(reviewed.audiences, UnorderedElementsAre("swarmjob.dev/enrol/u1"));
  EXPECT_EQ(reviewed.user, "system:serviceaccount:training:default");
  EXPECT_EQ(reviewed.pod, "tiny-w3");
  EXPECT_EQ(reviewed.pod_uid, "p3");
}

TEST(TokenReviewTest, AnAnswerWithWrongTypesShowsNothing) {
  for (const char* text :
       {"[]", "null", R"({"status": 1})", R"({"status": {"authenticated": "true"}})",
        R"({"status": {"audiences": {}, "user": {"extra": []}, "error": 7}})",
        R"({"status": {"user": {"username": 1, "extra": {
            "authentication.kubernetes.io/pod-uid": ["a", "b"],
            "authentication.kubernetes.io/pod-name": "tiny-w3"}}}})"}) {
    const plan::TokenReviewed reviewed = ReadTokenReview(json::parse(text));
    EXPECT_FALSE(reviewed.authenticated) << text;
    EXPECT_THAT(reviewed.pod + reviewed.pod_uid + reviewed.user + reviewed.error, IsEmpty())
        << text;
  }
}

TEST(TokenReviewTest, AQuestionIsKnownAndNoOtherOneIs) {
  const json question = BuildTokenReview("ey.J", "swarmjob.dev/enrol/u1");
  EXPECT_TRUE(IsReviewOfProof(question));
  EXPECT_FALSE(IsReviewOfProof(BuildTokenReview("ey.J", "https://kubernetes.default.svc")));
  EXPECT_FALSE(IsReviewOfProof(BuildTokenReview("", "swarmjob.dev/enrol/u1")));
  EXPECT_FALSE(IsReviewOfProof(json::array()));
  json more = question;
  more["spec"]["audiences"].push_back("https://kubernetes.default.svc");
  EXPECT_FALSE(IsReviewOfProof(more)) << "a token for another program could be judged";
  json none = question;
  none["spec"].erase("audiences");
  EXPECT_FALSE(IsReviewOfProof(none)) << "that would be the API server's own audience";
  json odd = question;
  odd["metadata"]["name"] = "x";
  EXPECT_FALSE(IsReviewOfProof(odd));
}

}  // namespace
}  // namespace swarm::objects
