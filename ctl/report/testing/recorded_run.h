// For tests: the folder of a run, written by the trainer's own log, without training.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "api/parse.h"
#include "base/files.h"
#include "base/testing/temporary_folder.h"
#include "worker/trainer/log/run_log.h"

namespace swarm::ctl {

struct RecordedJob {
  std::string name = "recorded";
  std::uint64_t steps = 8;
  std::vector<std::string> overrides;
};

/// A job of two stages and two microbatches a step. worker-0 and worker-1 serve stage 0, worker-2
/// stage 1. The time of the events is the present: only steps.jsonl has a past.
class RecordedRun {
 public:
  explicit RecordedRun(const RecordedJob& job = {}) : job_(job) {
    WriteJob();
    auto log = trainer::RunLog::Open(path(), 0);
    EXPECT_TRUE(log.ok()) << log.status().message();
    log_ = *std::move(log);
    log_->Event(protocol::EventKind::kTrainingStarted, "3 workers in 2 stages, from version 0");
    for (std::uint64_t step = 0; step < job.steps; ++step) Commit(step, 0.5);
  }

  std::string path() const { return folder_ / "run"; }
  trainer::RunLog& log() { return *log_; }

  void Commit(std::uint64_t step, double seconds) {
    const protocol::CommitRecord record = RecordOf(step);
    log_->Step({.record = record, .tokens = 128, .seconds = seconds, .boundary_bytes = 4096});
    log_->Ledger(
        {record,
         {{Claim("worker-0", 0, {0}), Claim("worker-1", 0, {1})}, {Claim("worker-2", 1, {0, 1})}}});
  }

  /// Replaces the first `from` in a line, counted from 1, of a file: what a hand would do.
  void Alter(const std::string& file, std::size_t number, const std::string& from,
             const std::string& to) {
    std::vector<std::string> lines = Lines(file);
    ASSERT_LE(number, lines.size());
    std::string& line = lines[number - 1];
    ASSERT_NE(line.find(from), line.npos) << line;
    line.replace(line.find(from), from.size(), to);
    WriteLines(file, lines);
  }
  void RemoveLine(const std::string& file, std::size_t number) {
    std::vector<std::string> lines = Lines(file);
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(number - 1));
    WriteLines(file, lines);
  }
  void Append(const std::string& file, const std::string& text) {
    std::ofstream(path() + "/" + file, std::ios::app) << text;
  }
  void Remove(const std::string& file) { std::filesystem::remove(path() + "/" + file); }

 private:
  void WriteJob() {
    std::vector<std::string> overrides = {
        "metadata.name=" + job_.name,
        "training.maxSteps=" + std::to_string(std::max<std::uint64_t>(1, job_.steps))};
    overrides.insert(overrides.end(), job_.overrides.begin(), job_.overrides.end());
    const auto job = api::ParseYaml(kManifest, overrides);
    ASSERT_TRUE(job.ok()) << api::ToString(job.errors());
    ASSERT_TRUE(WriteFile(path() + "/job.json", api::ToJsonText(*job)).ok());
  }
  static protocol::CommitRecord RecordOf(std::uint64_t step) {
    protocol::CommitRecord record{.step = protocol::Step(step)};
    record.loss = 1 + 4 / std::sqrt(1.0 + static_cast<double>(step));
    record.grad_norm = 1 + 0.1 * std::sin(static_cast<double>(step));
    record.learning_rate = 1e-3;
    for (std::uint64_t group = 0; group < 2; ++group) {
      record.groups.push_back(
          {protocol::GroupIndex(group), protocol::Attempt{protocol::Term(1), step}, {}, 0});
    }
    return record;
  }
  static protocol::Participant Claim(const std::string& worker, std::uint64_t stage,
                                     const std::vector<std::uint64_t>& microbatches) {
    protocol::Participant participant{protocol::WorkerId(worker),
                                      {protocol::StageIndex(stage), {}}};
    for (const std::uint64_t m : microbatches) {
      participant.claims.microbatches.emplace_back(m);
    }
    return participant;
  }
  std::vector<std::string> Lines(const std::string& file) const {
    std::ifstream in(path() + "/" + file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  void WriteLines(const std::string& file, const std::vector<std::string>& lines) const {
    std::ofstream out(path() + "/" + file, std::ios::trunc);
    for (const std::string& line : lines) out << line << "\n";
  }

  static constexpr std::string_view kManifest = R"(
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: recorded}
spec:
  model:
    config: {hidden_size: 64, num_hidden_layers: 4, num_attention_heads: 4,
             intermediate_size: 128, vocab_size: 256}
  data: {uri: corpus.txt}
  training: {maxSteps: 8, globalBatchSize: 2, sequenceLength: 64}
  pipeline: {stages: 2}
  workers: {replicas: 3}
)";

  const RecordedJob job_;
  TemporaryFolder folder_;
  std::unique_ptr<trainer::RunLog> log_;
};

}  // namespace swarm::ctl
