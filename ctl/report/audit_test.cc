#include "ctl/report/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/report/read_run.h"
#include "ctl/report/testing/recorded_run.h"

namespace swarm::ctl {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using Verdict = Audit::Verdict;

class AuditTest : public testing::Test {
 protected:
  Audit Judge() {
    const auto record = ReadRun(run_.path());
    EXPECT_TRUE(record.ok()) << record.status().message();
    return AuditRun(*record);
  }
  /// Expects that the audit fails, and says this about that line.
  void ExpectProblem(std::uint64_t line, const std::string& text) {
    const Audit audit = Judge();
    EXPECT_EQ(audit.verdict, Verdict::kFailed);
    EXPECT_THAT(audit.problems, Contains(AllOf(Field(&AuditProblem::line, line),
                                               Field(&AuditProblem::text, HasSubstr(text)))))
        << audit.sentence;
  }

  RecordedRun run_;
};

TEST_F(AuditTest, AnAccountThatHoldsIsToldInASentence) {
  const Audit audit = Judge();
  EXPECT_EQ(audit.verdict, Verdict::kPassed);
  EXPECT_THAT(audit.sentence, HasSubstr("8 committed steps is counted exactly once at each of 2"));
  EXPECT_THAT(audit.sentence, HasSubstr("The digests of all lines match."));
  ASSERT_EQ(audit.stages.size(), 2u);
  EXPECT_EQ(audit.stages[0].counted, 16u);
  EXPECT_EQ(audit.stages[0].workers, 2u);
  EXPECT_EQ(audit.stages[1].workers, 1u);
}

TEST_F(AuditTest, AMicrobatchThatAHandTookOutIsNamedWithItsLine) {
  run_.Alter("ledger.jsonl", 4, R"("microbatches":[0,1])", R"("microbatches":[0])");
  ExpectProblem(4, "step 3: microbatch 1 is not counted at stage 1");
  ExpectProblem(4, "step 3: the line, or the one before it, is not the one that was written");
  EXPECT_THAT(Judge().sentence, HasSubstr("2 problems, the first in line 4"));
}

TEST_F(AuditTest, AWorkerWhoseNameAHandChangedIsFoundByTheDigest) {
  run_.Alter("ledger.jsonl", 4, "worker-0", "worker-9");
  ExpectProblem(4, "its digest does not match");
}

TEST_F(AuditTest, ALineThatLostItsDigestIsNamed) {
  run_.Alter("ledger.jsonl", 4, ",\"digest\":\"", ",\"digest\":\"x");
  ExpectProblem(4, "step 3: the line has lost its digest");
}

TEST_F(AuditTest, AMicrobatchThatCountsTwiceIsNamed) {
  run_.Alter("ledger.jsonl", 2, R"("microbatches":[0])", R"("microbatches":[0,1])");
  ExpectProblem(2, "step 1: microbatch 1 is counted 2 times at stage 0");
}

TEST_F(AuditTest, AMicrobatchThatTheJobDoesNotHaveIsNamed) {
  run_.Alter("ledger.jsonl", 2, R"("microbatches":[0,1])", R"("microbatches":[0,1,7])");
  ExpectProblem(2, "step 1: microbatch 7 is not of this job, but counted at stage 1");
}

TEST_F(AuditTest, AContributionThatWasMovedToAnotherStageIsMissedThere) {
  run_.Alter("ledger.jsonl", 5, R"("stage":1)", R"("stage":0)");
  ExpectProblem(5, "step 4: microbatch 0 is not counted at stage 1");
}

TEST_F(AuditTest, AStepWhoseLineWasTakenOutIsMissed) {
  run_.RemoveLine("ledger.jsonl", 6);
  ExpectProblem(0, "step 5 has no line in ledger.jsonl");
}

TEST_F(AuditTest, AStepThatWasRenumberedIsThereTwiceAndMissing) {
  run_.Alter("ledger.jsonl", 6, R"("step":5)", R"("step":4)");
  ExpectProblem(6, "step 4 is committed 2 times");
  ExpectProblem(0, "step 5 has no line in ledger.jsonl");
}

TEST_F(AuditTest, AStepWithALossAndNoAccountIsMissed) {
  run_.RemoveLine("steps.jsonl", 3);
  ExpectProblem(3, "step 2 has 0 lines in steps.jsonl");
}

TEST_F(AuditTest, ALineThatIsNoLineAnyMoreIsAProblemAndNoError) {
  run_.Alter("ledger.jsonl", 3, "{", "");
  ExpectProblem(3, "the line cannot be read");
}

TEST_F(AuditTest, AWholeStageThatWasTakenOutIsMissed) {
  run_.Alter("ledger.jsonl", 3, R"({"group":1,)", R"({"group":2,)");
  ExpectProblem(3, "step 2: stage 1 has no sum");
}

TEST_F(AuditTest, AnEarlierTrainerBehindALaterOneIsAProblem) {
  run_.Alter("ledger.jsonl", 3, R"("k":[1,)", R"("k":[2,)");
  ExpectProblem(4, "is of term 1, behind one of term 2");
}

TEST_F(AuditTest, StepsThatAnEarlierTrainerHadDecidedAreToldApart) {
  protocol::CommitRecord adopted{.step = protocol::Step(8)};
  adopted.groups.push_back({protocol::GroupIndex(0), {protocol::Term(2), 1}, {}, 0});
  run_.log().Step({.record = adopted, .tokens = 128, .seconds = 1});
  run_.log().Ledger({adopted, {}});
  const Audit audit = Judge();
  EXPECT_EQ(audit.verdict, Verdict::kPassed) << audit.sentence;
  EXPECT_THAT(audit.sentence, HasSubstr("1 further step"));
}

TEST_F(AuditTest, ARunOfOneProcessHasNothingToAudit) {
  run_.Remove("ledger.jsonl");
  EXPECT_EQ(Judge().verdict, Verdict::kNotRecorded);
}

}  // namespace
}  // namespace swarm::ctl
