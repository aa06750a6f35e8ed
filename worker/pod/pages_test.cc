#include "worker/pod/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace swarm::pod {
namespace {

using testing::HasSubstr;

TEST(MergeMetricsTest, EachMetricStandsOnceWithTheSamplesOfAllWorkers) {
  const std::string text = MergeMetrics(
      {{"p-0",
        "# HELP a What\n# TYPE a counter\na 1\n# HELP h It\n# TYPE h histogram\n"
        "h_bucket{worker=\"p-0\",le=\"+Inf\"} 2\nh_sum{worker=\"p-0\"} 3\n"
        "h_count{worker=\"p-0\"} 2\n"},
       {"p-1",
        "# HELP b More\n# TYPE b gauge\nb{way=\"in\"} 5\n# HELP a What\n# TYPE a counter\n"
        "a 4\n"}});
  EXPECT_EQ(text,
            "# HELP a What\n# TYPE a counter\na{worker=\"p-0\"} 1\na{worker=\"p-1\"} 4\n"
            "# HELP h It\n# TYPE h histogram\nh_bucket{worker=\"p-0\",le=\"+Inf\"} 2\n"
            "h_sum{worker=\"p-0\"} 3\nh_count{worker=\"p-0\"} 2\n"
            "# HELP b More\n# TYPE b gauge\nb{worker=\"p-1\",way=\"in\"} 5\n");
  EXPECT_EQ(MergeMetrics({}), "");
  EXPECT_EQ(MergeMetrics({{"p-0", "no header 1\n"}}), "");
}

/// A worker as far as its pages go.
struct Worker {
  Worker() {
    auto started = metrics::Exporter::Start(
        "127.0.0.1:0",
        {.metrics = nullptr,
         .healthz = [this] { return healthy ? Status() : Internal("the loop stands still"); },
         .readyz = [this] { return ready ? Status() : Unavailable("not serving yet"); },
         .metrics_text = [] { return "# TYPE swarm_x gauge\nswarm_x 1\n"; }});
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    exporter = *std::move(started);
  }
  std::atomic<bool> healthy = true, ready = false;
  std::unique_ptr<metrics::Exporter> exporter;
};

class PodPagesTest : public testing::Test {
 protected:
  PodPagesTest() {
    pages_.OnStarted(0);
    pages_.OnStarted(1);
  }
  PodPages::Source SourceOf(int i) {
    return {"p-" + std::to_string(i),
            [this, i] { return workers_[i] ? workers_[i]->exporter->address() : ""; }};
  }

  std::unique_ptr<Worker> workers_[2] = {std::make_unique<Worker>(), std::make_unique<Worker>()};
  PodPages pages_{{SourceOf(0), SourceOf(1)}};
  const metrics::Pages served_ = pages_.Get();
};

TEST_F(PodPagesTest, ItIsReadyWhenAllWorkersThatRunAre) {
  workers_[0]->ready = true;
  EXPECT_THAT(served_.readyz().message(), HasSubstr("p-1: UNAVAILABLE: not serving yet"));
  workers_[1]->ready = true;
  EXPECT_TRUE(served_.readyz().ok()) << served_.readyz().ToString();
  workers_[1]->ready = false;
  pages_.OnEnded(1);
  EXPECT_TRUE(served_.readyz().ok()) << served_.readyz().ToString();
  pages_.OnEnded(0);
  EXPECT_FALSE(served_.readyz().ok()) << "none is left";
}

TEST_F(PodPagesTest, AWorkerThatStandsStillAfterItHasAnsweredIsAFailureOfThePod) {
  workers_[1]->healthy = false;
  EXPECT_TRUE(served_.healthz().ok()) << "it may not have begun";
  workers_[1]->healthy = true;
  EXPECT_TRUE(served_.healthz().ok());
  workers_[1]->healthy = false;
  EXPECT_THAT(served_.healthz().message(), HasSubstr("p-1: INTERNAL: the loop stands still"));
  pages_.OnEnded(1);
  EXPECT_TRUE(served_.healthz().ok());
  pages_.OnStarted(1);
  EXPECT_TRUE(served_.healthz().ok()) << "it begins again";
}

TEST_F(PodPagesTest, MetricsAreThoseOfTheWorkersThatAnswer) {
  EXPECT_EQ(served_.metrics_text(),
            "# TYPE swarm_x gauge\nswarm_x{worker=\"p-0\"} 1\nswarm_x{worker=\"p-1\"} 1\n");
  workers_[0].reset();
  EXPECT_EQ(served_.metrics_text(), "# TYPE swarm_x gauge\nswarm_x{worker=\"p-1\"} 1\n");
}

}  // namespace
}  // namespace swarm::pod
