// What a trainer and its workers serve while they train: everything in the catalogue, and numbers
// that agree with each other.
#include <gmock/gmock.h>

#include <future>
#include <map>
#include <set>

#include "base/metrics/exporter.h"
#include "base/metrics/testing/scrape.h"
#include "tests/swarm/local_swarm.h"
#include "worker/stage/export_metrics.h"
#include "worker/trainer/export_metrics.h"

namespace swarm::tests {
namespace {

using metrics::Exporter;
using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::Le;

constexpr auto kPatience = std::chrono::seconds(60);

/// A peer that speaks where only the trainer may.
class Stranger : public net::EndpointHandler {
 public:
  Stranger(net::LoopbackNetwork& network, const protocol::WorkerId& victim) {
    endpoint_ = *network.CreateEndpoint(protocol::WorkerId("stranger"), this);
    endpoint_->Connect(victim, {});
    EXPECT_EQ(up_.get_future().wait_for(kPatience), std::future_status::ready);
    const protocol::Shutdown order{.reason = "because I say so"};
    EXPECT_TRUE(endpoint_->Send(victim, net::Lane::kControl, {order, {}}).ok());
  }
  void OnMessage(const net::WorkerId&, net::Lane, net::Envelope) override {}
  void OnPeerUp(const net::WorkerId&) override { up_.set_value(); }
  void OnPeerDown(const net::WorkerId&, const Status&) override {}

 private:
  std::promise<void> up_;
  std::unique_ptr<net::Endpoint> endpoint_;
};

/// The text of a scrape, taken apart.
class Page {
 public:
  explicit Page(std::string text) : text_(std::move(text)) {
    std::istringstream in(text_);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("#")) continue;
      const std::size_t space = line.rfind(' ');
      values_[line.substr(0, space)] = std::stod(line.substr(space + 1));
    }
  }
  const std::string& text() const { return text_; }
  /// All values of a metric, whose name and first labels begin like this.
  std::vector<double> Values(const std::string& begin) const {
    std::vector<double> values;
    for (auto it = values_.lower_bound(begin); it != values_.end(); ++it) {
      if (!it->first.starts_with(begin)) break;
      values.push_back(it->second);
    }
    return values;
  }
  double Sum(const std::string& begin) const {
    double sum = 0;
    for (const double value : Values(begin)) sum += value;
    return sum;
  }
  bool Has(std::string_view metric) const {
    return text_.find("# TYPE " + std::string(metric) + " ") != std::string::npos;
  }

 private:
  std::string text_;
  std::map<std::string, double> values_;
};

/// Two stages, of two workers and of one, in one process, and an exporter for each program.
class MetricsTest : public testing::Test {
 protected:
  MetricsTest() {
    job_ = TinyJob(folder_);
    job_.spec.training.maxSteps = 6;
    trainer_ =
        *StartTrainer(network_, {.job = job_, .replicas = {2, 1}, .out_dir = folder_ / "out"});
    trainer_exporter_ = Serve([this] { return trainer::ExportMetrics(*trainer_); });
    for (const char* name : {"w0", "w1", "w2"}) {
      workers_.push_back(*StartWorker(network_, {.id = protocol::WorkerId(name)}));
      worker_exporters_.push_back(
          Serve([worker = workers_.back().get()] { return stage::ExportMetrics(*worker); }));
    }
  }

  static std::unique_ptr<Exporter> Serve(metrics::ReadSamples read) {
    return *Exporter::Start("127.0.0.1:0", {.metrics = std::move(read)});
  }
  Page TrainerPage() const { return Page(metrics::Scrape(trainer_exporter_->address())); }
  Page WorkerPage(std::size_t i) const {
    return Page(metrics::Scrape(worker_exporters_[i]->address()));
  }
  Page AllWorkers() const {
    std::string all;
    for (std::size_t i = 0; i < workers_.size(); ++i) all += WorkerPage(i).text();
    return Page(all);
  }

  /// Looks again and again until it is `as_expected`, or for as long as it is worth waiting.
  static Page LookUntil(const std::function<Page()>& look,
                        const std::function<bool(const Page&)>& as_expected) {
    const Timepoint deadline = Clock::now() + kPatience;
    Page page = look();
    while (!as_expected(page) && Clock::now() < deadline) page = look();
    return page;
  }

  /// Scrapes all programs again and again until the job is over; calls `look` with each page.
  void Train(const std::function<void(const Page&)>& look) {
    auto outcome = std::async(std::launch::async, [this] { return trainer_->Wait(); });
    do {
      look(TrainerPage());
      for (std::size_t i = 0; i < workers_.size(); ++i) look(WorkerPage(i));
    } while (outcome.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
    EXPECT_TRUE(outcome.get().succeeded);
  }

  TemporaryFolder folder_;
  api::SwarmJob job_;
  net::LoopbackNetwork network_;
  std::unique_ptr<trainer::Trainer> trainer_;
  std::vector<std::unique_ptr<stage::Worker>> workers_;
  // Exporters last: they read what stands above.
  std::unique_ptr<Exporter> trainer_exporter_;
  std::vector<std::unique_ptr<Exporter>> worker_exporters_;
};

TEST_F(MetricsTest, EachProgramServesItsPartOfTheCatalogueAndNothingElse) {
  Stranger stranger(network_, protocol::WorkerId("w0"));
  Train([](const Page&) {});
  const Page worker =
      LookUntil([this] { return WorkerPage(0); },
                [](const Page& page) { return page.Sum("swarmjob_worker_refused_total") > 0; });
  const Page trainer = TrainerPage();
  for (const MetricDefinition& metric : MetricCatalogue()) {
    SCOPED_TRACE(metric.name);
    const bool by_both = metric.server == MetricServer::kBoth;
    EXPECT_EQ(trainer.Has(metric.name), by_both || metric.server == MetricServer::kTrainer);
    EXPECT_EQ(worker.Has(metric.name), by_both || metric.server == MetricServer::kStageWorker);
  }
  EXPECT_EQ(metrics::WhatPromtoolSays(trainer.text()), "");
  EXPECT_EQ(metrics::WhatPromtoolSays(worker.text()), "");
}

TEST_F(MetricsTest, TheNumbersOfTheTrainerAndTheWorkersAgree) {
  Train([](const Page&) {});
  const Page trainer = TrainerPage();
  const auto& training = job_.spec.training;
  const auto steps = static_cast<double>(training.maxSteps);
  // The job is complete when the last step is committed; the workers may still be applying it.
  const Page workers =
      LookUntil([this] { return AllWorkers(); },
                [steps](const Page& page) {
                  return page.Values("swarmjob_worker_version") == std::vector(3, steps);
                });
  EXPECT_EQ(trainer.Sum("swarmjob_trainer_steps_total"), steps);
  EXPECT_EQ(trainer.Sum("swarmjob_trainer_version"), steps);
  EXPECT_EQ(trainer.Sum("swarmjob_trainer_step_duration_seconds_count"), steps);
  EXPECT_EQ(trainer.Sum("swarmjob_trainer_tokens_total"),
            steps * static_cast<double>(training.globalBatchSize * training.sequenceLength));
  EXPECT_EQ(trainer.Sum("swarmjob_trainer_loss"), trainer_->metrics().loss);
  EXPECT_GT(trainer.Sum("swarmjob_trainer_loss"), 0);
  EXPECT_EQ(trainer.Values("swarmjob_trainer_in_flight_microbatches"), std::vector(2, 0.0));

  EXPECT_EQ(workers.Values("swarmjob_worker_version"), std::vector(3, steps));
  EXPECT_EQ(workers.Values("swarmjob_worker_commits_total"), std::vector(3, steps));
  // Two stages and two directions for each microbatch.
  EXPECT_EQ(workers.Sum("swarmjob_worker_service_seconds_count"),
            4 * steps * static_cast<double>(job_.microbatches()));
  EXPECT_EQ(workers.Values("swarmjob_worker_boundary_bytes_total").size(), 3u);
  EXPECT_GT(workers.Sum("swarmjob_worker_boundary_bytes_total"), 0);
  EXPECT_EQ(workers.Sum("swarmjob_worker_boundary_bytes_total"),
            trainer.Sum("swarmjob_trainer_boundary_bytes_total"));
  EXPECT_GT(workers.Sum("swarmjob_worker_reduce_bytes_total"), 0);
  EXPECT_GT(workers.Sum("swarmjob_net_sent_bytes_total"),
            workers.Sum("swarmjob_worker_boundary_bytes_total"));
}

TEST_F(MetricsTest, WheneverOneLooksCountersHaveGrownAndUtilizationIsAShareOfTheTime) {
  double steps = 0;
  std::vector<double> utilization;
  Train([&](const Page& page) {
    for (const double now : page.Values("swarmjob_trainer_steps_total")) {
      EXPECT_GE(now, steps);
      steps = now;
    }
    for (const double now : page.Values("swarmjob_worker_utilization_ratio")) {
      utilization.push_back(now);
    }
  });
  const double last = WorkerPage(2).Sum("swarmjob_worker_utilization_ratio");
  EXPECT_GT(last, 0);
  EXPECT_LE(last, 1);
  EXPECT_THAT(utilization, Each(AllOf(Ge(0), Le(1))));
}

}  // namespace
}  // namespace swarm::tests
