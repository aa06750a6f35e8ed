#include "operator/machines/admission.h"

#include <gtest/gtest.h>

namespace swarm::machines {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

const WallTime kStart{hours(24 * 365 * 60)};

class AdmissionTest : public testing::Test {
 protected:
  AdmissionTest() {
    spec_.workers.machinePools = {{"friends", 2}, {"guests", {}}};
    status_.state = api::JobState::kRunning;
    status_.nextWorkerOrdinal = 4;
  }
  StatusCode MayJoinBy(const std::string& pool) const {
    return MayJoin(spec_, status_, pool).code();
  }

  api::Spec spec_;
  api::SwarmJobStatus status_;
  const Account account_{{{"ab12", {"digest", "friends", kStart, 0}}}, {}};
};

TEST_F(AdmissionTest, AMachineGetsANumberThatNoWorkerHasOrWillHave) {
  EXPECT_EQ(Admit("friends", "ab12", kStart, &status_), 4u);
  EXPECT_EQ(Admit("guests", "cd34", kStart, &status_), 5u);
  EXPECT_EQ(status_.nextWorkerOrdinal, 6u);
  ASSERT_EQ(status_.machines.size(), 2u);
  EXPECT_EQ(status_.machines[1],
            (api::MachineStatus{5, "guests", "cd34", api::WholeSeconds(kStart + hours(1))}));
}

TEST_F(AdmissionTest, APoolHasItsLimitAndAJobThatIsOverTakesNobody) {
  EXPECT_EQ(MayJoinBy("friends"), StatusCode::kOk);
  Admit("friends", "ab12", kStart, &status_);
  EXPECT_EQ(MayJoinBy("friends"), StatusCode::kOk);
  Admit("friends", "ab12", kStart, &status_);
  EXPECT_EQ(MayJoinBy("friends"), StatusCode::kResourceExhausted);
  EXPECT_EQ(MayJoinBy("guests"), StatusCode::kOk);
  EXPECT_EQ(MayJoinBy("default"), StatusCode::kPermissionDenied);
  for (const auto over : {api::JobState::kSucceeded, api::JobState::kFailed}) {
    status_.state = over;
    EXPECT_EQ(MayJoinBy("guests"), StatusCode::kFailedPrecondition);
  }
}

TEST_F(AdmissionTest, AWorkersIdSaysWhichMachineItIs) {
  EXPECT_EQ(OrdinalOf("tiny", "tiny-w12"), 12u);
  for (const std::string id : {"tiny-w", "tiny-w1-0", "tiny-w01", "small-w1", "tiny-trainer-1"}) {
    EXPECT_EQ(OrdinalOf("tiny", id), std::nullopt) << id;
  }
}

TEST_F(AdmissionTest, AMachineRenewsAsLongAsItIsListed) {
  EXPECT_EQ(MayRenew(4, status_).code(), StatusCode::kUnavailable) << "the status is old";
  const std::uint64_t machine = Admit("friends", "ab12", kStart, &status_);
  EXPECT_TRUE(Renew(machine, kStart + minutes(40), &status_).ok());
  EXPECT_EQ(status_.machines[0].certificateEnds, api::WholeSeconds(kStart + minutes(100)));
  EXPECT_EQ(Renew(3, kStart, &status_).code(), StatusCode::kPermissionDenied) << "a pod's number";
}

TEST_F(AdmissionTest, AMachineIsOutOnceItOrItsTokenIsRevoked) {
  const std::uint64_t machine = Admit("friends", "ab12", kStart, &status_);
  EXPECT_FALSE(Prune(account_, kStart, &status_)) << "that the token has ended says nothing";
  Account revoked = account_;
  revoked.revoked.insert(machine);
  api::SwarmJobStatus status = status_;
  EXPECT_TRUE(Prune(revoked, kStart, &status));
  EXPECT_EQ(MayRenew(machine, status).code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(Prune(Account(), kStart, &status_));
  EXPECT_TRUE(status_.machines.empty());
  EXPECT_EQ(status_.nextWorkerOrdinal, 5u) << "its number is used no more";
}

TEST_F(AdmissionTest, AMachineThatWasNotHeardForLongIsOut) {
  Admit("friends", "ab12", kStart, &status_);
  const WallTime end = WallTime(status_.machines[0].certificateEnds);
  EXPECT_FALSE(Prune(account_, end + minutes(59), &status_)) << "home may have been away";
  EXPECT_TRUE(Prune(account_, end + hours(1), &status_));
}

}  // namespace
}  // namespace swarm::machines
