// Stories of a job in two clusters, each with an API server in memory: what home tells when the
// other one is away, and what the pods there are given.
#include "operator/controller/clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "operator/controller/controller.h"
#include "operator/controller/testing/client_under_test.h"
#include "operator/controller/testing/cluster_under_test.h"

namespace swarm::controller {
namespace {

using kube::resources::PodDisruptionBudgets;
using kube::resources::Pods;
using kube::resources::SwarmJobs;
using nlohmann::json;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

const std::string kTwoPools = R"({"workers": {"replicas": 4, "minReplicas": 3, "pools": [
    {"name": "here", "maxReplicas": 2}, {"name": "there", "cluster": "west"}]}})";

TEST(ClusterSightsTest, AClusterIsAsItIsSinceTheFirstLookThatFoundItSo) {
  const Timepoint began{};
  ClusterSights sights;
  EXPECT_EQ(sights.See("west", false, began + seconds(1)), began + seconds(1));
  EXPECT_EQ(sights.See("west", false, began + seconds(5)), began + seconds(1));
  EXPECT_EQ(sights.See("west", true, began + seconds(7)), began + seconds(7));
  EXPECT_EQ(sights.See("east", true, began + seconds(8)), began + seconds(8));
  EXPECT_EQ(sights.See("west", true, began + seconds(9)), began + seconds(7));
  EXPECT_EQ(sights.See("west", false, began + seconds(9)), began + seconds(9));
}

class ClustersTest : public testing::Test {
 protected:
  /// The satellite of west comes to this operator.
  void Connect(OperatorUnderTest& home) {
    reachable_ = true;
    home.AddCluster("west", west_, [this] { return reachable_.load(); });
    ASSERT_TRUE(west_->Await([&] { return home.Reaches("west"); }));
  }
  /// Reconciles until the status says so; caches of the other cluster follow by themselves.
  bool Says(OperatorUnderTest& home, const std::string& ready) {
    return west_->Await([&] {
      home.FillCaches();
      const Status status = home.Look();
      EXPECT_TRUE(status.ok()) << status.ToString();
      return cluster_.status().value("readyByCluster", "") == ready;
    });
  }
  void RunPodsThere() {
    for (const json& pod : west_->All(Pods())) {
      west_->Edit(Pods(), kube::NameOf(pod), [](json& running) {
        running["status"] = {{"phase", "Running"},
                             {"podIP", "10.9.0.1"},
                             {"conditions",
                              {{{"type", "PodScheduled"}, {"status", "True"}},
                               {{"type", "Ready"}, {"status", "True"}}}}};
      });
    }
  }
  static int Kept(const FakeApiServer& server) {
    const auto budget = server.Find(PodDisruptionBudgets(), {"team", "tiny-workers"});
    return budget ? (*budget)["spec"]["minAvailable"].get<int>() : -1;
  }
  static void WaitLonger(Duration more, OperatorUnderTest* home) {
    home->later += more;
    home->aged += more;
  }
  std::string connected() const { return cluster_.condition("ClustersConnected"); }

  ClusterUnderTest cluster_;
  std::shared_ptr<FakeApiServer> west_ = std::make_shared<FakeApiServer>();
  std::atomic<bool> reachable_ = false;
  OperatorUnderTest& operator_ = cluster_.first;
};

TEST_F(ClustersTest, ASatelliteThatHasNotComeIsExpectedAndThenToldToBeAway) {
  cluster_.Submit(kTwoPools);
  operator_.Settle();
  EXPECT_THAT(cluster_.pods(), ElementsAre("tiny-trainer-1", "tiny-w0", "tiny-w1"));
  EXPECT_THAT(connected(), StartsWith("Unknown: ClusterExpected"));
  ASSERT_TRUE(operator_.look_again.has_value());
  EXPECT_LE(*operator_.look_again, seconds(30));
  WaitLonger(seconds(31), &operator_);
  operator_.Settle();
  EXPECT_THAT(connected(), AllOf(StartsWith("False: ClusterAway"), HasSubstr("cluster west")));
}

TEST_F(ClustersTest, AClusterThatGoesIsToldAndItsWorkersGoOnCounting) {
  Connect(operator_);
  cluster_.Submit(kTwoPools);
  EXPECT_TRUE(Says(operator_, "home 0/2, west 0/2")) << cluster_.status();
  EXPECT_THAT(connected(), StartsWith("True: EveryClusterConnected"));
  EXPECT_THAT(west_->All(Pods()), SizeIs(2));
  cluster_.RunPods();
  RunPodsThere();
  WaitLonger(seconds(10), &operator_);  // counts are written seldom
  EXPECT_TRUE(Says(operator_, "home 2/2, west 2/2")) << cluster_.status();
  reachable_ = false;
  operator_.FillCaches();
  ASSERT_TRUE(operator_.Look().ok());
  EXPECT_THAT(connected(), StartsWith("True")) << "it may be back at once";
  WaitLonger(seconds(31), &operator_);
  EXPECT_TRUE(Says(operator_, "home 2/2, west 2/2 (away)")) << cluster_.status();
  EXPECT_THAT(connected(), AllOf(StartsWith("False: ClusterAway"), HasSubstr("2 of 2 ready")));
  reachable_ = true;
  operator_.FillCaches();
  ASSERT_TRUE(operator_.Look().ok());
  WaitLonger(seconds(31), &operator_);
  EXPECT_TRUE(Says(operator_, "home 2/2, west 2/2"));
  EXPECT_THAT(connected(), StartsWith("True: EveryClusterConnected"));
}

TEST_F(ClustersTest, EachClusterHasABudgetThatCountsWhatIsReadyInTheOther) {
  Connect(operator_);
  cluster_.Submit(kTwoPools);
  ASSERT_TRUE(Says(operator_, "home 0/2, west 0/2"));
  EXPECT_EQ(Kept(*cluster_.server), 3);
  EXPECT_EQ(Kept(*west_), 3);
  cluster_.RunPods();
  RunPodsThere();
  WaitLonger(seconds(10), &operator_);
  ASSERT_TRUE(Says(operator_, "home 2/2, west 2/2"));
  operator_.Settle();
  EXPECT_EQ(Kept(*cluster_.server), 1) << "three of four are to stay, and two are elsewhere";
  EXPECT_EQ(Kept(*west_), 1);
  const json budget = *west_->Find(PodDisruptionBudgets(), {"team", "tiny-workers"});
  EXPECT_EQ(budget["metadata"]["ownerReferences"][0]["name"], "tiny-outpost")
      << "it goes with the job";
}

TEST_F(ClustersTest, AnOperatorThatBeginsWhileAClusterIsAwayGoesOnWithTheJobsOwn) {
  Connect(operator_);
  cluster_.Submit(kTwoPools);
  ASSERT_TRUE(Says(operator_, "home 0/2, west 0/2"));
  cluster_.RunPods();
  const std::vector<json> there = west_->All(Pods());
  OperatorUnderTest second(cluster_.server, &cluster_.trainers, 2);
  WaitLonger(seconds(120), &second);
  second.Settle();
  cluster_.server->Remove(Pods(), {"team", "tiny-w0"});
  second.Settle();
  WaitLonger(seconds(31), &second);
  second.Settle();
  EXPECT_THAT(cluster_.pods(), ElementsAre("tiny-trainer-1", "tiny-w1", "tiny-w4"));
  EXPECT_EQ(cluster_.status()["openWorkers"], "1-4") << "those there are still in the account";
  EXPECT_THAT(connected(), StartsWith("False: ClusterAway"));
  Connect(second);
  second.FillCaches();
  ASSERT_TRUE(second.Look().ok());
  WaitLonger(seconds(31), &second);
  EXPECT_TRUE(Says(second, "home 1/2, west 0/2")) << cluster_.status();
  EXPECT_EQ(west_->All(Pods()), there);
}

TEST_F(ClustersTest, AnOperatorThatDoesNotKnowThePodsThereSaysSoAndChangesNothing) {
  Connect(operator_);
  cluster_.Submit(kTwoPools);
  ASSERT_TRUE(Says(operator_, "home 0/2, west 0/2"));
  cluster_.server->Edit(SwarmJobs(), kTestJob, [](json& job) {  // as an earlier version wrote it
    for (json& cluster : job["status"]["clusters"]) cluster.erase("workers");
  });
  OperatorUnderTest second(cluster_.server, &cluster_.trainers, 2);
  WaitLonger(seconds(120), &second);  // an earlier operator is about nothing more
  EXPECT_EQ(second.Look().code(), StatusCode::kUnavailable);
  EXPECT_THAT(connected(), StartsWith("True")) << "the satellite may come at once";
  const auto writes = cluster_.server->writes().size();
  WaitLonger(seconds(31), &second);
  second.FillCaches();
  EXPECT_EQ(second.Look().code(), StatusCode::kUnavailable);
  EXPECT_THAT(connected(),
              AllOf(StartsWith("False: ClusterAway"), HasSubstr("changes nothing of the job")));
  EXPECT_EQ(cluster_.status()["readyByCluster"], "home 0/2, west 0/2 (away)");
  second.FillCaches();
  EXPECT_EQ(second.Look().code(), StatusCode::kUnavailable);
  EXPECT_EQ(cluster_.server->writes().size(), writes + 1) << "it is said once";
  Connect(second);
  const auto decides = [&] {
    second.FillCaches();
    return second.Look().ok();
  };
  EXPECT_TRUE(west_->Await(decides)) << "it finds the pods there";
  WaitLonger(seconds(31), &second);
  EXPECT_TRUE(west_->Await([&] { return decides() && connected().starts_with("True"); }))
      << connected();
}

/// A whole operator, with its own threads.
class ControllerOfClustersTest : public testing::Test {
 protected:
  static ControllerOptions Options() {
    ControllerOptions options;
    options.pods.worker_image = "worker:1";
    options.instance = "test";
    return options;
  }
  double Value(Metric metric) const {
    for (const MetricSample& sample : controller_.Samples()) {
      if (sample.metric == metric && sample.labels == std::vector<std::string>{"west"}) {
        return std::get<double>(sample.value);
      }
    }
    return -1;
  }

  ClusterUnderTest cluster_;
  std::shared_ptr<FakeApiServer> west_ = std::make_shared<FakeApiServer>();
  std::atomic<bool> reachable_ = true;
  std::stop_source stop_;
  std::unique_ptr<kube::Client> client_ = MakeClientUnderTest(cluster_.server, stop_.get_token());
  Controller controller_{*client_, Options(), cluster_.trainers.connect(), kube::SystemTiming()};
};

TEST_F(ControllerOfClustersTest, ItsMetricsSayWhichClustersAreConnected) {
  controller_.Start();
  controller_.Lead(1);
  EXPECT_EQ(Value(Metric::kOperatorClusterConnected), -1) << "nobody has named it";
  cluster_.Submit(kTwoPools);
  EXPECT_TRUE(
      cluster_.server->Await([&] { return Value(Metric::kOperatorClusterConnected) == 0; }));
  EXPECT_GE(Value(Metric::kOperatorClusterSilence), 0);
  controller_.AddCluster("west", MakeClientUnderTest(west_, stop_.get_token()),
                         [this] { return reachable_.load(); });
  EXPECT_TRUE(west_->Await([&] {
    controller_.LookAtClusters();
    return Value(Metric::kOperatorClusterConnected) == 1 && !west_->All(Pods()).empty();
  })) << "its jobs were woken";
  reachable_ = false;
  EXPECT_EQ(Value(Metric::kOperatorClusterConnected), 0);
}

TEST_F(ControllerOfClustersTest, AStandbySaysNothingOfClusters) {
  cluster_.Submit(kTwoPools);
  cluster_.server->Edit(SwarmJobs(), kTestJob,
                        [](json& job) { job["status"]["clusters"] = {{{"name", "west"}}}; });
  controller_.Start();
  ASSERT_TRUE(cluster_.server->Await([&] { return controller_.synced(); }));
  EXPECT_EQ(Value(Metric::kOperatorClusterConnected), -1) << "no satellite dials it";
}

}  // namespace
}  // namespace swarm::controller
