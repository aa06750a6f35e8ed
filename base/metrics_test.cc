#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>

namespace swarm {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

bool IsSnakeCase(std::string_view name) {
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

/// Whether it is named by controller-runtime or client-go.
bool IsCommonToOperators(std::string_view name) {
  return std::ranges::any_of(
      std::array{"controller_runtime_", "workqueue_", "rest_client_", "leader_election_"},
      [name](const char* prefix) { return name.starts_with(prefix); });
}

std::string_view WhoServes(MetricServer server) {
  switch (server) {
    case MetricServer::kTrainer:
      return "trainer";
    case MetricServer::kStageWorker:
      return "worker";
    case MetricServer::kBoth:
      return "both";
    case MetricServer::kOperator:
      return "operator";
    case MetricServer::kSatellite:
      return "satellite";
  }
  return "";
}

/// The rows of docs/metrics.md.
std::string Table() {
  std::ostringstream table;
  table << "| Name | Type | Served by | Labels | Meaning |\n|---|---|---|---|---|\n";
  for (const MetricDefinition& metric : MetricCatalogue()) {
    table << "| `" << metric.name << "` | " << NameOf(metric.type) << " | "
          << WhoServes(metric.server) << " | ";
    for (std::size_t i = 0; i < metric.labels.size(); ++i) {
      table << (i > 0 ? ", " : "") << metric.labels[i];
    }
    table << " | " << metric.help << " |\n";
  }
  return table.str();
}

TEST(MetricsTest, NamesFollowTheConventionsOfPrometheus) {
  std::set<std::string_view> names;
  for (const MetricDefinition& metric : MetricCatalogue()) {
    SCOPED_TRACE(metric.name);
    const std::string name(metric.name);
    EXPECT_TRUE(names.insert(metric.name).second);
    EXPECT_TRUE(IsSnakeCase(name));
    EXPECT_TRUE(name.starts_with("swarmjob_") ||
                (metric.server == MetricServer::kOperator && IsCommonToOperators(name)));
    EXPECT_EQ(metric.type == MetricType::kCounter, name.ends_with("_total"));
    for (const char* reserved : {"_count", "_sum", "_bucket", "_info"}) {
      EXPECT_THAT(name, Not(EndsWith(reserved)));
    }
    EXPECT_TRUE(metric.type != MetricType::kHistogram || name.ends_with("_seconds"));
    for (const char* scaled : {"milliseconds", "_ms", "kilobytes", "mebibytes", "percent"}) {
      EXPECT_THAT(name, Not(HasSubstr(scaled)));
    }
  }
}

TEST(MetricsTest, EveryMetricSaysWhatItMeansInOneLine) {
  for (const MetricDefinition& metric : MetricCatalogue()) {
    SCOPED_TRACE(metric.name);
    EXPECT_GT(metric.help.size(), 10u);
    EXPECT_EQ(metric.help.find_first_of("\n|"), std::string_view::npos);
    EXPECT_NE(metric.help.back(), '.');
  }
}

TEST(MetricsTest, LabelsAreFewAndLeaveThoseOfPrometheusAlone) {
  const std::set<std::string_view> reserved{"job", "instance", "le", "quantile", "__name__"};
  for (const MetricDefinition& metric : MetricCatalogue()) {
    SCOPED_TRACE(metric.name);
    EXPECT_LE(metric.labels.size(), 4u);
    for (const std::string_view label : metric.labels) {
      EXPECT_TRUE(IsSnakeCase(label)) << label;
      EXPECT_FALSE(reserved.contains(label)) << label;
    }
    EXPECT_EQ(std::set<std::string_view>(metric.labels.begin(), metric.labels.end()).size(),
              metric.labels.size());
  }
}

TEST(MetricsTest, TheDocumentIsTheCatalogue) {
  std::ifstream file(SWARM_SOURCE_DIR "/docs/metrics.md");
  std::stringstream document;
  document << file.rdbuf();
  const std::string text = document.str();
  const std::size_t begin = text.find("| Name |");
  const std::size_t end = text.find("\n\n", begin);
  ASSERT_NE(begin, std::string::npos) << "docs/metrics.md has no table";
  EXPECT_EQ(text.substr(begin, end == std::string::npos ? end : end - begin + 1), Table())
      << "put this into docs/metrics.md:\n\n"
      << Table();
}

TEST(SecondsHistogramTest, CountsEachObservationInTheBucketThatHoldsIt) {
  SecondsHistogram histogram;
  histogram.Observe(0.0001);
  histogram.Observe(0.0005);  // a bound belongs to the bucket below it
  histogram.Observe(0.3);
  histogram.Observe(1e6);
  const HistogramReading reading = histogram.Read();
  EXPECT_EQ(reading.counts.front(), 2u);
  EXPECT_EQ(reading.counts[9], 1u);  // 0.25 to 0.5
  EXPECT_EQ(reading.counts.back(), 1u);
  EXPECT_DOUBLE_EQ(reading.sum, 1e6 + 0.3006);
}

}  // namespace
}  // namespace swarm
