#include "base/metrics/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/metrics/get.h"
#include "base/metrics/testing/scrape.h"

namespace swarm::metrics {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kAnyPort = "127.0.0.1:0";

/// One sample of each metric of the catalogue.
std::vector<MetricSample> OneOfEach(double value) {
  std::vector<MetricSample> samples;
  for (const MetricDefinition& definition : MetricCatalogue()) {
    MetricSample sample{definition.metric, {}, value};
    for (const std::string_view label : definition.labels) sample.labels.emplace_back(label);
    if (definition.type == MetricType::kHistogram) sample.value = HistogramReading{};
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::unique_ptr<Exporter> Serve(ReadSamples read) {
  auto exporter = Exporter::Start(kAnyPort, {.metrics = std::move(read)});
  EXPECT_TRUE(exporter.ok()) << exporter.status().ToString();
  return *std::move(exporter);
}

/// Runs `work` on a thread with a stack of `bytes`, whole pages. Below it lies no memory for 1 MiB.
void RunWithStack(std::size_t bytes, const std::function<void()>& work) {
  constexpr std::size_t kNoMemory = 1u << 20;
  void* const begin = mmap(nullptr, kNoMemory + bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  ASSERT_NE(begin, MAP_FAILED);
  void* const stack = static_cast<char*>(begin) + kNoMemory;
  ASSERT_EQ(mprotect(stack, bytes, PROT_READ | PROT_WRITE), 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstack(&attributes, stack, bytes), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  munmap(begin, kNoMemory + bytes);
}

TEST(ExporterTest, ServesEveryMetricOfTheCatalogueAndPromtoolAgrees) {
  const auto exporter = Serve([] { return OneOfEach(0.5); });
  const std::string text = Scrape(exporter->address());
  for (const MetricDefinition& definition : MetricCatalogue()) {
    const std::string name(definition.name);
    EXPECT_THAT(text, HasSubstr("# HELP " + name + " " + std::string(definition.help) + "\n"));
    EXPECT_THAT(text,
                HasSubstr("# TYPE " + name + " " + std::string(NameOf(definition.type)) + "\n"));
  }
  EXPECT_EQ(WhatPromtoolSays(text), "") << text;
}

TEST(ExporterTest, PromtoolNoticesABadName) {
  EXPECT_NE(WhatPromtoolSays("# HELP swarmBytes x\n# TYPE swarmBytes counter\nswarmBytes 1\n"), "");
}

TEST(ExporterTest, AnotherProgramReadsAPageAndPassesItOn) {
  const auto first = Exporter::Start(kAnyPort, {.metrics_text = [] { return "x 1\n"; }});
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  const Timepoint soon = Clock::now() + std::chrono::seconds(30);
  const auto text = GetPage((*first)->address(), "/metrics", soon);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(text->code, 200);
  EXPECT_EQ(text->text, "x 1\n");
  EXPECT_EQ(GetPage((*first)->address(), "/nothing", soon)->code, 404);
}

TEST(ExporterTest, APageIsReadWithinTheStackOfAWebServersThread) {
  const std::string page(1u << 20, 'x');
  const auto first = Exporter::Start(kAnyPort, {.metrics_text = [&] { return page; }});
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  // A third of what a thread of the web server has: other functions lie above and below.
  RunWithStack(32u << 10, [&] {
    const auto text =
        GetPage((*first)->address(), "/metrics", Clock::now() + std::chrono::seconds(30));
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    EXPECT_TRUE(text->text == page);
  });
}

TEST(ExporterTest, WhoDoesNotAnswerInTimeIsNotWaitedFor) {
  const auto slow = Exporter::Start(kAnyPort, {.healthz = [] {
                                      std::this_thread::sleep_for(std::chrono::milliseconds(300));
                                      return Status();
                                    }});
  ASSERT_TRUE(slow.ok()) << slow.status().ToString();
  const std::string address = (*slow)->address();
  const Timepoint soon = Clock::now() + std::chrono::milliseconds(10);
  EXPECT_EQ(GetPage(address, "/healthz", soon).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(GetPage("host:1", "/", soon).status().code(), StatusCode::kInvalidArgument);
}

TEST(ExporterTest, ReportsThePortThatItTook) {
  const auto exporter = Serve([] { return OneOfEach(1); });
  EXPECT_THAT(exporter->address(), StartsWith("127.0.0.1:"));
  EXPECT_THAT(exporter->address(), Not(EndsWith(":0")));
}

TEST(ExporterTest, ReadsTheValuesAtEachScrapeAndNeverBetween) {
  std::atomic<int> reads{0};
  const auto exporter = Serve([&] { return OneOfEach(++reads); });
  EXPECT_EQ(reads, 0);
  EXPECT_THAT(Scrape(exporter->address()), HasSubstr("\nswarmjob_trainer_steps_total 1\n"));
  EXPECT_THAT(Scrape(exporter->address()), HasSubstr("\nswarmjob_trainer_steps_total 2\n"));
  EXPECT_EQ(reads, 2);
}

TEST(ExporterTest, EscapesWhatLabelsSay) {
  const auto exporter =
      Serve([] { return std::vector<MetricSample>{{Metric::kNetSentBytes, {"a\"b\\c\nd"}, 7.0}}; });
  const std::string text = Scrape(exporter->address());
  EXPECT_THAT(text, HasSubstr("swarmjob_net_sent_bytes_total{program=\"a\\\"b\\\\c\\nd\"} 7\n"));
  EXPECT_EQ(WhatPromtoolSays(text), "") << text;
}

TEST(ExporterTest, CumulatesTheBucketsOfAHistogram) {
  SecondsHistogram steps;
  for (const double seconds : {0.0001, 0.2, 0.2, 1000.0}) steps.Observe(seconds);
  const auto exporter = Serve(
      [&] { return std::vector<MetricSample>{{Metric::kTrainerStepSeconds, {}, steps.Read()}}; });
  const std::string text = Scrape(exporter->address());
  const std::string name = "\nswarmjob_trainer_step_duration_seconds";
  EXPECT_THAT(text, HasSubstr(name + "_bucket{le=\"0.0005\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(name + "_bucket{le=\"0.25\"} 3\n"));
  EXPECT_THAT(text, HasSubstr(name + "_bucket{le=\"300\"} 3\n"));
  EXPECT_THAT(text, HasSubstr(name + "_bucket{le=\"+Inf\"} 4\n"));
  EXPECT_THAT(text, HasSubstr(name + "_count 4\n"));
  EXPECT_EQ(WhatPromtoolSays(text), "") << text;
}

TEST(ExporterTest, ManyMayScrapeWhileValuesChange) {
  SecondsHistogram steps;
  std::atomic<bool> done{false};
  std::thread trainer([&] {
    while (!done) steps.Observe(0.01);
  });
  const auto exporter = Serve(
      [&] { return std::vector<MetricSample>{{Metric::kTrainerStepSeconds, {}, steps.Read()}}; });
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      for (int n = 0; n < 10; ++n) {
        EXPECT_THAT(Scrape(exporter->address()), HasSubstr("step_duration_seconds_count "));
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  done = true;
  trainer.join();
}

TEST(ExporterTest, ProbesAnswerForTheProgramAtTheMoment) {
  std::atomic<bool> ready{false};
  const auto exporter = Exporter::Start(
      kAnyPort, {.readyz = [&] { return ready ? Status() : Unavailable("no stage yet"); }});
  ASSERT_TRUE(exporter.ok());
  const std::string& address = (*exporter)->address();
  EXPECT_THAT(Get(address, "/healthz"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nok\n")));
  EXPECT_THAT(Get(address, "/readyz"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("no stage yet")));
  ready = true;
  EXPECT_THAT(Get(address, "/readyz"), StartsWith("HTTP/1.1 200 "));
}

TEST(ExporterTest, AnswersNothingElse) {
  const auto probes = Exporter::Start(kAnyPort, {});
  ASSERT_TRUE(probes.ok());
  for (const char* path :
       {"/metrics", "/", "/healthzz", "/healthz/", "/../etc/passwd", "/%2e%2e"}) {
    EXPECT_THAT(Get((*probes)->address(), path),
                AnyOf(StartsWith("HTTP/1.1 404 "), StartsWith("HTTP/1.1 400 ")))
        << path;
  }
  EXPECT_THAT(Get((*probes)->address(), "/healthz", "DELETE"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Get((*probes)->address(), "/healthz", "HEAD"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n")));
}

TEST(ExporterTest, SaysThatAPortIsTaken) {
  const auto first = Serve([] { return OneOfEach(1); });
  const auto second = Exporter::Start(first->address(), {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr(first->address()));
}

TEST(ExporterTest, RefusesWhatIsNoAddressAndPort) {
  for (const char* listen : {"", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:66000",
                             "127.0.0.1:80s", "127.0.0.1:1,0.0.0.0:2", "localhost:9464",
                             "[127.0.0.1]:9464", "::1:9464", "[::1:9464", "+9464"}) {
    const auto exporter = Exporter::Start(listen, {});
    ASSERT_FALSE(exporter.ok()) << listen;
    EXPECT_EQ(exporter.status().code(), StatusCode::kInvalidArgument) << listen;
    EXPECT_THAT(exporter.status().message(), HasSubstr("127.0.0.1:9464"));
  }
}

}  // namespace
}  // namespace swarm::metrics
