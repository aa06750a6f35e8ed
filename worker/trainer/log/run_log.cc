#include "worker/trainer/log/run_log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/chained_line.h"
#include "base/log.h"

namespace swarm::trainer {
namespace {

using Json = nlohmann::ordered_json;

struct Kept {
  std::string lines;
  std::string last;  // of the lines
  std::uint64_t next_step = 0;
};

/// The lines of `path` whose step is below `first_step`, unchanged. Stops at a line that a crash
/// has cut off.
Kept LinesBefore(const std::string& path, std::uint64_t first_step) {
  std::ifstream in(path);
  Kept kept;
  std::string line;
  while (first_step > 0 && std::getline(in, line)) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) break;
    const auto step = json["step"].get<std::uint64_t>();
    if (step >= first_step || in.eof()) break;
    kept.lines += line + "\n";
    kept.last = line;
    kept.next_step = step + 1;
  }
  return kept;
}

/// Keeps only the lines of `path` whose step is below `first_step`, atomically. Returns these.
Result<Kept> CutFile(const std::string& path, std::uint64_t first_step) {
  const std::string next = path + ".next";
  Kept kept = LinesBefore(path, first_step);
  {
    std::ofstream out(next, std::ios::binary | std::ios::trunc);
    out << kept.lines;
    out.close();
    if (!out) return Unavailable(next + ": cannot be written: " + std::strerror(errno));
  }
  std::error_code error;
  std::filesystem::rename(next, path, error);
  if (error) return Unavailable(path + ": " + error.message());
  return kept;
}

Json ToJson(const protocol::CommitRecord& record,
            const std::vector<std::vector<protocol::Participant>>& claims) {
  Json groups = Json::array();
  for (std::size_t i = 0; i < record.groups.size(); ++i) {
    const protocol::GroupResult& result = record.groups[i];
    Json group{{"group", result.group.value}, {"k", {result.k.term.value, result.k.n}}};
    if (i < claims.size()) {
      group["participants"] = Json::array();
      for (const protocol::Participant& participant : claims[i]) {
        Json microbatches = Json::array();
        for (const auto& m : participant.claims.microbatches) microbatches.push_back(m.value);
        group["participants"].push_back({{"worker", participant.worker.value},
                                         {"stage", participant.claims.stage.value},
                                         {"microbatches", std::move(microbatches)}});
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

/// By worker and stage: microbatches that were issued again, before and after they were folded.
Json ToJson(const std::vector<protocol::Redone>& redone) {
  std::map<std::pair<std::string, std::uint64_t>, Json> parts;
  for (const protocol::Redone& each : redone) {
    Json& part = parts[{each.worker.value, each.stage.value}];
    if (part.is_null()) {
      part = {{"worker", each.worker.value},
              {"stage", each.stage.value},
              {"retried", Json::array()},
              {"replayed", Json::array()}};
    }
    part[each.folded ? "replayed" : "retried"].push_back(each.microbatch.value);
  }
  Json json = Json::array();
  for (auto& [key, part] : parts) json.push_back(std::move(part));
  return json;
}

/// The newest version that was validated, according to events.jsonl.
std::uint64_t FindValidated(const std::string& path) {
  std::ifstream in(path);
  std::uint64_t newest = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"Validation\"") == line.npos) continue;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("step")) {
      newest = std::max(newest, json["step"].get<std::uint64_t>());
    }
  }
  return newest;
}

}  // namespace

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string FormatStep(const StepLine& line) {
  Json json;
  json["step"] = line.record.step.value;
  json["loss"] = line.record.loss;
  json["grad_norm"] = line.record.grad_norm;
  json["lr"] = line.record.learning_rate;
  json["tokens"] = line.tokens;
  json["seconds"] = line.seconds;
  json["tokens_per_second"] =
      line.seconds > 0 ? static_cast<double>(line.tokens) / line.seconds : 0.0;
  json["boundary_bytes"] = line.boundary_bytes;
  for (const protocol::order::StageTime& time : line.times) {
    json["stages"].push_back({{"workers", time.workers},
                              {"task_seconds", time.task_seconds},
                              {"busy_seconds", time.busy_seconds},
                              {"reduce_seconds", time.reduce_seconds}});
  }
  return json.dump();
}

Result<std::unique_ptr<RunLog>> RunLog::Open(const std::string& folder, std::uint64_t first_step,
                                             FenceCheck fence) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Unavailable(folder + ": " + error.message());
  const std::string events_path = folder + "/events.jsonl";
  using Start = LineFile::Start;
  ASSIGN_OR_RETURN(LineFile events,
                   LineFile::Open(events_path, first_step > 0 ? Start::kKeep : Start::kEmpty));
  std::unique_ptr<RunLog> log(new RunLog(folder, std::move(events), std::move(fence)));
  RETURN_IF_ERROR(log->CutTo(first_step));
  return log;
}

bool RunLog::MayWrite() {
  if (!fenced() && fence_) fence_said_ = fence_();
  return !fenced();
}

Status RunLog::CutTo(std::uint64_t first_step) {
  if (!MayWrite()) return fence_said_;
  // A cut would lose the rest of a line that is on the disk in part.
  if (!Settle()) return Unavailable(folder_ + ": lines of the log wait for room on the disk");
  const std::string path = folder_ + "/steps.jsonl", ledger_path = folder_ + "/ledger.jsonl";
  Kept ledger;
  std::error_code error;
  if (std::filesystem::exists(ledger_path, error)) {
    ASSIGN_OR_RETURN(ledger, CutFile(ledger_path, first_step));
  }
  ledger_ = LineFile(ledger_path);
  next_ledger_step_ = ledger.next_step;
  ledger_digest_ = ChainDigest(ledger.last);
  ASSIGN_OR_RETURN(const Kept steps, CutFile(path, first_step));
  ASSIGN_OR_RETURN(steps_, LineFile::Open(path));
  next_step_ = steps.next_step;
  validated_ = std::min(FindValidated(folder_ + "/events.jsonl"), first_step);
  return Status();
}

bool RunLog::Settle() {
  bool waiting = false;
  for (LineFile* file : {&steps_, &events_, &ledger_, &progress_}) {
    file->Flush();
    waiting |= file->waiting();
  }
  return !waiting;
}

void RunLog::Flush() {
  const auto files = {&steps_, &events_, &ledger_, &progress_};
  if (std::ranges::none_of(files, &LineFile::waiting)) return;
  if (MayWrite()) {
    (void)Settle();
  } else {
    for (LineFile* file : files) file->Abandon();
  }
}

bool RunLog::Step(const StepLine& line) {
  if (line.record.step.value < next_step_ || !MayWrite()) return false;
  next_step_ = line.record.step.value + 1;
  steps_.Add(FormatStep(line));
  if (progress_) {
    const Json committed{
        {"time", UnixSeconds()}, {"event", "Committed"}, {"step", line.record.step.value}};
    progress_.Add(committed.dump());
  }
  return true;
}

void RunLog::Ledger(const LedgerLine& line) {
  const std::uint64_t step = line.record.step.value;
  if (step < next_ledger_step_ || !MayWrite()) return;
  next_ledger_step_ = step + 1;
  Json json{{"step", step}, {"generation", line.record.generation.value}};
  if (line.claims.empty()) json["adopted"] = true;
  json["groups"] = ToJson(line.record, line.claims);
  if (!line.redone.empty()) json["redone"] = ToJson(line.redone);
  const std::string chained = ChainLine(json.dump(), ledger_digest_);
  ledger_digest_ = ChainDigest(chained);
  ledger_.Add(chained);
}

Status RunLog::TraceProgress() {
  const std::string path = folder_ + "/progress.jsonl";
  ASSIGN_OR_RETURN(progress_, LineFile::Open(path));
  return Status();
}

void RunLog::Progress(const std::string& worker, const protocol::Progress& progress) {
  if (!progress_ || fenced()) return;
  const double now = UnixSeconds();
  for (const protocol::TaskReport& report : progress.reports) {
    const Json json{{"time", now},
                    {"event", NameOf(report.event)},
                    {"step", report.key.step.value},
                    {"stage", report.key.stage.value},
                    {"microbatch", report.key.microbatch.value},
                    {"worker", worker}};
    progress_.Add(json.dump());
  }
}

void RunLog::Event(protocol::EventKind kind, const std::string& text,
                   const protocol::EventFields& fields) {
  if (!MayWrite()) return;
  Json line{
      {"time", UnixSeconds()}, {"kind", NameOf(kind)}, {"text", text}, {"version", next_step_}};
  if (!fields.worker.empty()) line["worker"] = fields.worker.value;
  if (fields.stage) line["stage"] = fields.stage->value;
  if (!fields.cause.empty()) line["cause"] = fields.cause;
  if (fields.seconds) line["seconds"] = *fields.seconds;
  events_.Add(line.dump());
}

bool RunLog::Validation(protocol::Version version, double loss) {
  if ((version.value <= validated_ && version.value > 0) || !MayWrite()) return false;
  validated_ = version.value;
  events_.Add(Json{
      {"time", UnixSeconds()},
      {"kind", "Validation"},
      {"text", "version " + std::to_string(version.value)},
      {"step", version.value},
      {"loss",
       loss}}.dump());
  return true;
}

}  // namespace swarm::trainer
