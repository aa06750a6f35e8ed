#include "worker/pod/pages.h"

#include <chrono>
#include <map>
#include <sstream>
#include <utility>

#include "base/metrics/get.h"

namespace swarm::pod {
namespace {

/// For all workers together; a kubelet waits for 5 s.
constexpr Duration kLimit = std::chrono::seconds(4);

std::string WithWorker(const std::string& sample, const std::string& worker) {
  const std::string label = "worker=\"" + worker + "\"";
  const std::size_t end = sample.find_first_of("{ ");
  if (end == sample.npos || sample.find("worker=\"") != sample.npos) return sample;
  if (sample[end] == ' ') return sample.substr(0, end) + "{" + label + "}" + sample.substr(end);
  const char* const comma = sample[end + 1] == '}' ? "" : ",";
  return sample.substr(0, end + 1) + label + comma + sample.substr(end + 1);
}

Result<metrics::Answer> Ask(const PodPages::Source& source, const std::string& page,
                            Timepoint deadline) {
  const std::string address = source.address();
  if (address.empty()) return Unavailable("it serves no pages yet");
  return metrics::GetPage(address, page, deadline);
}

/// What is wrong with the worker, by its page; OK: nothing.
Status Check(const PodPages::Source& source, const std::string& page, Timepoint deadline) {
  const auto answer = Ask(source, page, deadline);
  if (!answer.ok()) return answer.status().WithContext(source.worker);
  if (answer->code == 200) return Status();
  return Unavailable(source.worker + ": " + answer->text.substr(0, answer->text.find('\n')));
}

}  // namespace

std::string MergeMetrics(const std::vector<std::pair<std::string, std::string>>& texts) {
  struct Family {
    const std::string* from;  // the worker whose text names it first
    std::string head, samples;
  };
  std::vector<Family> families;
  std::map<std::string, std::size_t> places;
  for (const auto& [worker, text] : texts) {
    std::istringstream lines(text);
    std::size_t place = families.size();
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string mark, keyword, name;
      if (line.starts_with("# ") && words >> mark >> keyword >> name) {
        place = places.try_emplace(name, families.size()).first->second;
        if (place == families.size()) families.push_back({&worker, "", ""});
        if (families[place].from == &worker) families[place].head += line + "\n";
      } else if (!line.empty() && place < families.size()) {
        families[place].samples += WithWorker(line, worker) + "\n";
      }
    }
  }
  std::string merged;
  for (const Family& family : families) merged += family.head + family.samples;
  return merged;
}

PodPages::PodPages(std::vector<Source> sources)
    : sources_(std::move(sources)), states_(sources_.size()) {}

metrics::Pages PodPages::Get() {
  return {.metrics = nullptr,
          .healthz = [this] { return CheckHealth(); },
          .readyz = [this] { return CheckReady(); },
          .metrics_text = [this] { return Metrics(); }};
}

void PodPages::Set(std::size_t index, State state) {
  const std::lock_guard lock(mutex_);
  states_.at(index) = state;
}

PodPages::State PodPages::At(std::size_t index) {
  const std::lock_guard lock(mutex_);
  return states_[index];
}

std::string PodPages::Metrics() {
  const Timepoint deadline = Clock::now() + kLimit;
  std::vector<std::pair<std::string, std::string>> texts;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (!At(i).runs) continue;
    auto answer = Ask(sources_[i], "/metrics", deadline);
    if (answer.ok() && answer->code == 200) {
      texts.emplace_back(sources_[i].worker, std::move(answer->text));
    }
  }
  return MergeMetrics(texts);
}

Status PodPages::CheckHealth() {
  const Timepoint deadline = Clock::now() + kLimit;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const State before = At(i);
    if (!before.runs) continue;
    const Status status = Check(sources_[i], "/healthz", deadline);
    const std::lock_guard lock(mutex_);
    if (!states_[i].runs) continue;  // it has ended meanwhile
    if (status.ok()) states_[i].answered = true;
    if (!status.ok() && before.answered && states_[i].answered) return status;
  }
  return Status();
}

Status PodPages::CheckReady() {
  const Timepoint deadline = Clock::now() + kLimit;
  bool one = false;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (!At(i).runs) continue;
    RETURN_IF_ERROR(Check(sources_[i], "/readyz", deadline));
    one = true;
  }
  return one ? Status() : Unavailable("no worker runs");
}

}  // namespace swarm::pod
