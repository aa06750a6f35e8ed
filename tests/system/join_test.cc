// A run whose workers are not all its own: others join with a token.
#include "tests/system/join_story.h"
#include "worker/enrol/token.h"

namespace swarm::tests {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SystemJoinTest : public JoinStory {};

TEST_F(SystemJoinTest, AMachineBringsTheWorkerThatIsMissingAndTheLossesAreThoseOfOneProcess) {
  StartHome(2);
  Join("laptop", token_);
  ExpectAllSucceed({"laptop"});
  EXPECT_THAT(LogOf("laptop"), HasSubstr("home has dismissed joined-0: the job is complete"));
  EXPECT_THAT(Noted(), testing::ElementsAre("TokenCreated", "WorkerEnrolled"));
  EXPECT_THAT(Programs(), IsEmpty());
}

TEST_F(SystemJoinTest, AMachineSaysWhatItIsAndItsLineOfAFleetIsOneForAPlan) {
  probes_ = true;
  StartHome(2);
  Join("laptop", token_, {"--region", "eu"});
  ExpectAllSucceed({"laptop"});
  EXPECT_THAT(LogOf("laptop"), HasSubstr("teraflops on layers of the model with 1 thread, "));
  EXPECT_THAT(LogOf("laptop"), HasSubstr(" ms from home and back; "));
  std::string fleet = Content("laptop/fleet.yaml");
  EXPECT_THAT(fleet, HasSubstr("name: \"joined-0\", count: 1, region: \"eu\""));
  fleet.replace(fleet.find("count: 1"), 8, "count: 3");  // as many as the job has workers
  ASSERT_TRUE(WriteFile(Path("fleet.yaml"), fleet).ok());
  Launch("plan", {"plan", "-f", Path("laptop/manifest.json"), "--fleet", Path("fleet.yaml")});
  EXPECT_EQ(EndOf("plan"), 0) << LogOf("plan");
  EXPECT_THAT(LogOf("plan"), HasSubstr("tokens/s"));
}

TEST_F(SystemJoinTest, AllWorkersMayBeElsewhere) {
  StartHome(0);
  for (const char* name : {"one", "two", "three"}) Join(name, token_);
  ExpectAllSucceed({"one", "two", "three"});
}

/// A run whose only stage is on a machine that nobody can dial, and another machine that comes.
class SystemJoinDonorTest : public JoinStory {
 protected:
  void JoinAndThenAlso(const std::string& next, const std::vector<std::string>& more) {
    job_.spec.pipeline.stages = 1;
    job_.spec.workers = {.replicas = 1, .minReplicas = 1};
    job_.spec.training.maxSteps = 300;
    StartHome(0);
    Join("laptop", token_, {"--dial-only"});
    AwaitSteps(5);
    Join(next, token_, more);
    AwaitWords(next, "joined-1 serves stage 0");
    ExpectAllSucceed({"laptop", next});
  }
};

TEST_F(SystemJoinDonorTest, AWorkerThatNobodyCanDialGivesItsStateToOneThatComes) {
  JoinAndThenAlso("desktop", {});
}

TEST_F(SystemJoinDonorTest, OfTwoWorkersThatNobodyCanDialOneGivesItsStateToTheOther) {
  JoinAndThenAlso("tower", {"--dial-only"});
}

TEST_F(SystemJoinTest, AWorkerThatIsKilledIsStartedAgainAndTheLossesAreThoseOfOneProcess) {
  job_.spec.training.maxSteps = 200;
  StartHome(2);
  Join("laptop", token_);
  AwaitSteps(20);
  Signal("joined-0", SIGKILL);
  AwaitWords("laptop", "starting it again in");
  ExpectAllSucceed({"laptop"});
}

/// Of runs that go on until the test has seen enough.
class SystemJoinLongTest : public JoinStory {
 protected:
  SystemJoinLongTest() { job_.spec.training.maxSteps = kNeverReached; }

  void ExpectRefused(const std::string& name, const std::string& token, const std::string& words) {
    Join(name, token);
    EXPECT_EQ(EndOf(name), 2) << LogOf(name);
    EXPECT_THAT(LogOf(name), HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(Path(name))) << "nothing was written";
  }
  void EndRun() {
    Interrupt();
    EXPECT_EQ(EndOf("swarmctl"), 0) << Output();
  }
};

TEST_F(SystemJoinLongTest, ATokenThatIsNotGoodIsRefusedWithTheReasonAndWhatToDo) {
  StartHome(3);
  const auto good = enrol::ParseJoinToken(token_);
  ASSERT_TRUE(good.ok());
  ExpectRefused("damaged", token_.substr(0, token_.size() - 3), "copy the word that follows");

  const std::string brief = NewToken({"--ttl", "1s"});
  Await("the end of a token", [&] { return !TokensThatAre("expired").empty(); });
  ExpectRefused("late", brief, "expired");

  const std::string once = NewToken({"--uses", "1"});
  Join("first", once);
  AwaitWords("first", "joined-0 ");
  ExpectRefused("second", once, "is used up");

  const auto out = enrol::ParseJoinToken(NewToken({}));
  ASSERT_TRUE(out.ok());
  EXPECT_THAT(Token({"revoke", Out(), out->id}), HasSubstr(out->id + " is revoked"));
  ExpectRefused("banned", enrol::ToText(*out), "was revoked");

  enrol::JoinToken forged = *good;
  forged.secret = std::string(forged.secret.size(), '0');
  ExpectRefused("guesser", enrol::ToText(forged), "of another run or job, or forged");
  forged = *good;
  forged.fingerprint = std::string(forged.fingerprint.size(), '0');
  ExpectRefused("misled", enrol::ToText(forged), "is not the home of this job");

  for (const char* advice : {"late", "second", "banned", "guesser"}) {
    EXPECT_THAT(LogOf(advice), HasSubstr("swarmctl token create"));
  }
  EXPECT_THAT(Noted(), Contains("JoinRefused").Times(4));
  EXPECT_THAT(Output(), HasSubstr("may not join: the token"));
  EndRun();
}

TEST_F(SystemJoinLongTest, AMachineWithoutRoomForAStageSaysSoAndLeaves) {
  probes_ = true;
  job_.spec.model.config.hidden_size = 8192;  // no machine has the memory for 3 x 10^12 parameters
  job_.spec.model.config.head_dim = 8192 / job_.spec.model.config.num_attention_heads;
  job_.spec.model.config.intermediate_size = 32768;
  job_.spec.model.config.num_hidden_layers = 4096;
  StartHome(0);
  Join("laptop", token_);
  EXPECT_EQ(EndOf("laptop"), 2) << LogOf("laptop");
  EXPECT_THAT(LogOf("laptop"), HasSubstr(" of 3 needs "));
  EXPECT_THAT(LogOf("laptop"), HasSubstr("it has no room for it"));
  EXPECT_FALSE(std::filesystem::exists(Path("laptop/tls")));
  EXPECT_FALSE(std::filesystem::exists(Path("laptop/workers"))) << "nothing was started";
  Interrupt();
  EXPECT_EQ(EndOf("swarmctl"), 3) << "there is no checkpoint yet: " << Output();
}

TEST_F(SystemJoinLongTest, ATokenOfAnEarlierRunIsWorthNothingInTheNext) {
  StartHome(3);
  AwaitEvent("CheckpointWritten");
  EndRun();
  const std::string old = token_;
  std::filesystem::remove(Path("logs/swarmctl.log"));
  StartHome(3, "127.0.0.1", {"--resume"});
  auto replayed = enrol::ParseJoinToken(old), current = enrol::ParseJoinToken(token_);
  ASSERT_TRUE(replayed.ok() && current.ok());
  replayed->address = current->address;
  ExpectRefused("replayer", enrol::ToText(*replayed), "is not the home of this job");
  EndRun();
}

TEST_F(SystemJoinLongTest, WhoIsRevokedIsOutAndTheJobGoesOnWithoutIt) {
  StartHome(3);
  Join("laptop", token_);
  AwaitWords("laptop", "joined-0 serves stage");
  const Timepoint before = Clock::now();
  EXPECT_THAT(Token({"revoke", Out(), "joined-0"}), HasSubstr("out within a minute: joined-0"));
  Await("the departure of joined-0", [&] {
    const auto names = Named("WorkerLost");
    return std::ranges::find(names, "joined-0") != names.end();
  });
  EXPECT_EQ(EndOf("laptop"), 1) << LogOf("laptop");
  EXPECT_THAT(LogOf("laptop"), HasSubstr("home refuses joined-0: joined-0 was revoked"));
  EXPECT_LT(Clock::now() - before, std::chrono::minutes(1));
  EXPECT_THAT(Content("out/workers/trainer.log"), HasSubstr("worker/joined-0 was revoked"));
  EXPECT_FALSE(std::filesystem::exists(Path("laptop/tls")));
  AwaitMoreSteps();
  EndRun();
}

TEST_F(SystemJoinLongTest, ACertificateIsRenewedBeforeItEndsAndTheWorkerGoesOn) {
  StartHome(2, "127.0.0.1", {"--joined-validity", "10"});
  Join("laptop", token_);
  AwaitSteps(1);
  Await("the third certificate", [&] {
    const auto noted = Noted();
    return std::ranges::count(noted, "CertificateRenewed") >= 2;
  });
  AwaitMoreSteps();
  // A process that begins now has the new certificate, as its peers see: the first has ended.
  Signal("joined-0", SIGKILL);
  AwaitWords("laptop", "starting it again in");
  AwaitMoreSteps();
  EXPECT_THAT(Noted(), Contains("WorkerEnrolled").Times(1));
  EndRun();
  EXPECT_EQ(EndOf("laptop"), 0) << LogOf("laptop");
}

TEST_F(SystemJoinLongTest, CtrlCLetsTheWorkerHandOverAndLeavesNoKeys) {
  StartHome(3);
  Join("laptop", token_);
  AwaitWords("laptop", "joined-0 serves stage");
  for (const auto& file : std::filesystem::directory_iterator(Path("laptop/tls"))) {
    EXPECT_EQ(file.status().permissions() & std::filesystem::perms(077),
              std::filesystem::perms::none)
        << file.path();
  }
  processes_.Terminate("laptop", std::chrono::seconds(100));
  EXPECT_EQ(EndOf("laptop"), 0) << LogOf("laptop");
  EXPECT_FALSE(std::filesystem::exists(Path("laptop/tls")));
  EXPECT_THAT(LogOf("laptop"), HasSubstr("joined-0 has left the job"));
  EXPECT_THAT(Named("WorkerLeft"), Contains("joined-0"));
  EXPECT_THAT(Events("WorkerLost"), IsEmpty());
  AwaitMoreSteps();
  EndRun();
}

TEST_F(SystemJoinLongTest, OnlyARunThatListensHasTokens) {
  EXPECT_THAT(Token({"list", Path("nowhere")}, 2), HasSubstr("no run with --listen goes on in"));
}

}  // namespace
}  // namespace swarm::tests
