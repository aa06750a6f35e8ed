// Machines that join over networks that the test makes: one that is cut, and one behind a router.
#include "tests/system/join_story.h"
#include "tests/system/machines.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;

class JoinOverNetwork : public JoinStory {
 protected:
  /// Where the commands with this name run, and all that they start.
  void Place(const std::string& name, const Machine& machine) { places_[name] = &machine; }

  void Launch(const std::string& name, std::vector<std::string> arguments) override {
    arguments.insert(arguments.begin(),
                     {places_.at(name)->enter(), std::string(SWARM_BIN_DIR) + "/swarmctl"});
    const Status status = entered_.Start({name, WorkerRole::kStage, std::move(arguments)});
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  int EndOf(const std::string& name) override { return EndIn(entered_, name); }
  /// What Ctrl-C does.
  void EndRun() { entered_.Terminate("swarmctl", std::chrono::seconds(100)); }

  Machine home_;

 private:
  std::map<std::string, const Machine*> places_;
  Processes entered_{{"/usr/bin/nsenter", folder_.path() / "logs"}};
};

class SystemJoinNetworkTest : public JoinOverNetwork {
 protected:
  SystemJoinNetworkTest() {
    home_.Connect("cable", "10.77.0.1", laptop_, "cable", "10.77.0.2");
    Place("swarmctl", home_);
    Place("laptop", laptop_);
  }

  Machine laptop_;
};

TEST_F(SystemJoinNetworkTest, AMachineThatWasCutOffComesBackByItself) {
  job_.spec.training.maxSteps = 200;
  StartHome(2, "10.77.0.1");
  Join("laptop", token_);
  AwaitSteps(20);
  home_.Run("ip link set cable down");
  AwaitWords("laptop", "does not answer");
  AwaitEvent("WorkerLost");
  home_.Run("ip link set cable up");
  AwaitWords("laptop", "home answers again");
  ExpectAllSucceed({"laptop"});
}

TEST_F(SystemJoinNetworkTest, AMachineWhoseCertificateHasEndedMeanwhileEnrolsAgainAndServes) {
  job_.spec.training.maxSteps = kNeverReached;
  StartHome(2, "10.77.0.1", {"--joined-validity", "10"});
  Join("laptop", token_);
  AwaitSteps(20);
  home_.Run("ip link set cable down");
  AwaitWords("laptop", "the certificate of joined-0 has ended");
  AwaitEvent("WorkerLost");
  home_.Run("ip link set cable up");
  AwaitWords("laptop", "enrolled again, as joined-1");
  AwaitWords("laptop", "joined-1 serves stage");
  EndRun();
  EXPECT_EQ(EndOf("swarmctl"), 0) << Output();
  EXPECT_EQ(EndOf("laptop"), 0) << LogOf("laptop");
}

TEST_F(SystemJoinNetworkTest, AMachineWhoseTokenIsUsedUpMeanwhileSaysThatItNeedsAnother) {
  job_.spec.training.maxSteps = kNeverReached;
  StartHome(3, "10.77.0.1", {"--joined-validity", "10"});
  Place("token-1", home_);
  Join("laptop", NewToken({"--uses", "1"}));
  AwaitWords("laptop", "joined-0 serves stage");
  home_.Run("ip link set cable down");
  AwaitWords("laptop", "the certificate of joined-0 has ended");
  home_.Run("ip link set cable up");
  EXPECT_EQ(EndOf("laptop"), 2) << LogOf("laptop");
  EXPECT_THAT(LogOf("laptop"), HasSubstr("has ended, and home gives no other: the token"));
  EXPECT_THAT(LogOf("laptop"), HasSubstr("is used up; ask for another one"));
  EndRun();
  EXPECT_EQ(EndOf("swarmctl"), 0) << Output();
}

/// Two homes behind routers, which let nobody in, and the internet between them.
class SystemJoinRouterTest : public JoinOverNetwork {
 protected:
  SystemJoinRouterTest() {
    PutBehindRouter(laptop_, router_, "77", "inside");
    PutBehindRouter(tower_, other_router_, "78", "within");
    Place("swarmctl", home_);
    Place("laptop", laptop_);
    Place("tower", tower_);
  }
  void PutBehindRouter(const Machine& machine, const Machine& router, const std::string& net,
                       const std::string& home_device) {
    home_.Connect(home_device, "10." + net + ".0.1", router, "wan", "10." + net + ".0.2");
    router.Connect("lan", "192.168.0.1", machine, "lan", "192.168.0.2");
    machine.Run("ip route add default via 192.168.0.1");
    router.Run("ip route add default via 10." + net + ".0.1");
    router.Run("sysctl -q -w net.ipv4.ip_forward=1");
    router.Run("nft add table ip nat");
    router.Run("nft add chain ip nat out '{ type nat hook postrouting priority 100 ; }'");
    router.Run("nft add rule ip nat out oifname wan masquerade");
  }

  Machine laptop_, tower_, router_, other_router_;
};

TEST_F(SystemJoinRouterTest, AMachineBehindARouterOnlyDialsAndServes) {
  StartHome(2, "10.77.0.1");
  Join("laptop", token_);
  EXPECT_EQ(EndOf("swarmctl"), 0) << Output();
  EXPECT_EQ(EndOf("laptop"), 0) << LogOf("laptop");
  EXPECT_THAT(LogOf("laptop"), HasSubstr("this machine is 192.168.0.2, and home sees 10.77.0.2: a"
                                         " router is between, so the worker only dials"));
  ExpectReferenceBits();
}

TEST_F(SystemJoinRouterTest, WhatTwoOfThemTellEachOtherGoesThroughTheRelay) {
  job_.spec.pipeline.stages = 2;
  job_.spec.workers = {.replicas = 2, .minReplicas = 2};
  StartHome(0, "10.77.0.1");
  Join("laptop", token_);
  Join("tower", token_);
  ExpectAllSucceed({"laptop", "tower"});
}

TEST_F(SystemJoinRouterTest, TheyTrainBesideAWorkerThatBothReach) {
  StartHome(1, "10.77.0.1");
  Join("laptop", token_);
  Join("tower", token_);
  ExpectAllSucceed({"laptop", "tower"});
}

}  // namespace
}  // namespace swarm::tests
