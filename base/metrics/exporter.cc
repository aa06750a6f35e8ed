#include "base/metrics/exporter.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

namespace swarm::metrics {
namespace {

constexpr int kThreads = 2;

prometheus::MetricType TypeOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric::Histogram Cumulate(const HistogramReading& reading) {
  prometheus::ClientMetric::Histogram histogram;
  histogram.sample_sum = reading.sum;
  for (std::size_t i = 0; i < reading.counts.size(); ++i) {
    histogram.sample_count += reading.counts[i];
    const double bound =
        i < kSecondsBounds.size() ? kSecondsBounds[i] : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  return histogram;
}

prometheus::ClientMetric ToClientMetric(const MetricDefinition& definition,
                                        const MetricSample& sample) {
  SWARM_CHECK(sample.labels.size() == definition.labels.size(), std::string(definition.name));
  prometheus::ClientMetric metric;
  for (std::size_t i = 0; i < sample.labels.size(); ++i) {
    metric.label.push_back({std::string(definition.labels[i]), sample.labels[i]});
  }
  switch (definition.type) {
    case MetricType::kCounter:
      metric.counter.value = std::get<double>(sample.value);
      break;
    case MetricType::kGauge:
      metric.gauge.value = std::get<double>(sample.value);
      break;
    case MetricType::kHistogram:
      metric.histogram = Cumulate(std::get<HistogramReading>(sample.value));
      break;
  }
  return metric;
}

std::string ToText(const std::vector<MetricSample>& samples) {
  std::vector<prometheus::MetricFamily> families(kMetricCount);
  for (const MetricSample& sample : samples) {
    const MetricDefinition& definition = DefinitionOf(sample.metric);
    prometheus::MetricFamily& family = families[static_cast<std::size_t>(sample.metric)];
    if (family.name.empty()) {
      family.name = definition.name;
      family.help = definition.help;
      family.type = TypeOf(definition.type);
    }
    family.metric.push_back(ToClientMetric(definition, sample));
  }
  std::erase_if(families, [](const auto& family) { return family.name.empty(); });
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return text.str();
}

web::Answer Text(int code, std::string text) {
  return {
      .code = code, .type = "text/plain; version=0.0.4; charset=utf-8", .text = std::move(text)};
}

web::Answer Ask(const Probe& probe) {
  const Status status = probe ? probe() : Status();
  return status.ok() ? Text(200, "ok\n") : Text(503, status.ToString() + "\n");
}

web::Answer PageAt(const Pages& pages, std::string_view path) {
  if (path == "/metrics" && pages.metrics) return Text(200, ToText(pages.metrics()));
  if (path == "/metrics" && pages.metrics_text) return Text(200, pages.metrics_text());
  if (path == "/healthz") return Ask(pages.healthz);
  if (path == "/readyz") return Ask(pages.readyz);
  return Text(404, "not found\n");
}

}  // namespace

Result<std::unique_ptr<Exporter>> Exporter::Start(const std::string& listen, Pages pages) {
  ASSIGN_OR_RETURN(
      auto server,
      web::Server::Start({.listen = listen, .serves = "metrics or probes", .threads = kThreads},
                         [pages = std::move(pages)](const web::Request& request) {
                           return PageAt(pages, request.path);
                         }));
  return std::unique_ptr<Exporter>(new Exporter(std::move(server)));
}

}  // namespace swarm::metrics
