#include "ctl/report/read_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "api/parse.h"
#include "api/validate.h"
#include "base/chained_line.h"
#include "base/files.h"
#include "ctl/run/prompt_hint.h"
#include "ctl/run/run_folder.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;

/// A number, or null for one that is not finite.
double RealAt(const json& line, const char* key) {
  const json& value = line.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

/// Throws unless the value is a natural number: get() alone would convert others.
std::uint64_t Natural(const json& value) {
  if (!value.is_number_unsigned()) {
    throw json::other_error::create(500, "no natural number", &value);
  }
  return value.get<std::uint64_t>();
}

StepRow ReadStep(const json& line) {
  std::vector<StageRow> stages;
  for (const json& stage : line.value("stages", json::array())) {
    stages.push_back({.workers = Natural(stage.at("workers")),
                      .task_seconds = RealAt(stage, "task_seconds"),
                      .busy_seconds = RealAt(stage, "busy_seconds"),
                      .reduce_seconds = RealAt(stage, "reduce_seconds")});
  }
  return {.step = Natural(line.at("step")),
          .loss = RealAt(line, "loss"),
          .grad_norm = RealAt(line, "grad_norm"),
          .learning_rate = RealAt(line, "lr"),
          .tokens = Natural(line.at("tokens")),
          .seconds = RealAt(line, "seconds"),
          .boundary_bytes = Natural(line.at("boundary_bytes")),
          .stages = std::move(stages)};
}

LedgerPart ReadPart(const json& part) {
  LedgerPart read{.worker = part.at("worker").get<std::string>(),
                  .stage = Natural(part.at("stage")),
                  .microbatches = {}};
  for (const json& microbatch : part.at("microbatches")) {
    read.microbatches.push_back(Natural(microbatch));
  }
  return read;
}

LedgerRow ReadLedgerLine(const json& line) {
  LedgerRow row{.step = Natural(line.at("step")),
                .generation = Natural(line.at("generation")),
                .adopted = line.value("adopted", false),
                .groups = {}};
  for (const json& group : line.at("groups")) {
    LedgerGroup read{
        .group = Natural(group.at("group")), .term = Natural(group.at("k").at(0)), .parts = {}};
    if (!row.adopted) {
      for (const json& part : group.at("participants")) read.parts.push_back(ReadPart(part));
    }
    row.groups.push_back(std::move(read));
  }
  return row;
}

EventRow ReadEvent(const json& line) {
  EventRow row{.time = RealAt(line, "time"),
               .kind = line.at("kind").get<std::string>(),
               .text = line.at("text").get<std::string>(),
               .version = {}};
  for (const char* key : {"version", "step"}) {  // "step" is a Validation's
    if (line.contains(key)) row.version = Natural(line.at(key));
  }
  if (line.contains("loss")) row.loss = RealAt(line, "loss");
  row.worker = line.value("worker", "");
  if (line.contains("stage")) row.stage = Natural(line.at("stage"));
  row.cause = line.value("cause", "");
  if (line.contains("seconds")) row.seconds = RealAt(line, "seconds");
  return row;
}

FaultRow ReadFault(const json& line) {
  return {.time = RealAt(line, "time"),
          .step = Natural(line.at("step")),
          .text = line.at("text").get<std::string>(),
          .over = line.at("over").get<bool>(),
          .error = line.value("error", "")};
}

StartRow ReadStart(const json& line) {
  StartRow row{.time = RealAt(line, "time"),
               .version = line.at("version").get<std::string>(),
               .command = line.at("command").get<std::vector<std::string>>(),
               .folder = line.at("folder").get<std::string>(),
               .host = line.at("host").get<std::string>(),
               .system = line.at("system").get<std::string>(),
               .processor = line.at("processor").get<std::string>(),
               .processors = Natural(line.at("processors")),
               .memory_bytes = Natural(line.at("memory_bytes")),
               .data = {}};
  for (const json& file : line.at("data")) {
    row.data.push_back({.uri = file.at("uri").get<std::string>(),
                        .bytes = Natural(file.at("bytes")),
                        .digest = file.value("digest", "")});
  }
  return row;
}

/// What is wrong with a line, without the number of the library's error.
std::string ProblemOf(const json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.find("] ");
  return end == text.npos ? text : text.substr(end + 2);
}

/// Gives each whole line of a file to `take`, as text and read, with its number from 1. `take` may
/// throw json::exception; then `damaged` gets the line's number and what is wrong. A file that is
/// not there has no lines.
void ForEachLine(const std::filesystem::path& path,
                 const std::function<void(std::uint64_t, const std::string&, const json&)>& take,
                 const std::function<void(DamagedLine)>& damaged) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  for (std::uint64_t number = 1; std::getline(in, text) && !in.eof(); ++number) {
    try {
      take(number, text, json::parse(text));
    } catch (const json::exception& error) {
      damaged({number, ProblemOf(error)});
    }
  }
}

template <typename Row>
Status ReadRows(const std::filesystem::path& path, Row (*read)(const json&),
                std::vector<Row>* rows) {
  Status status;
  ForEachLine(
      path,
      [&](std::uint64_t, const std::string&, const json& line) { rows->push_back(read(line)); },
      [&](const DamagedLine& damaged) {
        if (!status.ok()) return;
        status = DataLoss(path.string() + ", line " + std::to_string(damaged.line) +
                          ": is damaged (" + damaged.problem +
                          "); restore the file, or remove the line to report without it");
      });
  return status;
}

Chain ChainOf(const std::string& line, const std::string& before) {
  if (ChainDigest(line).empty()) return Chain::kNone;
  return ChainHolds(line, before) ? Chain::kHolds : Chain::kBroken;
}

void ReadLedger(const std::filesystem::path& path, RunRecord* record) {
  std::error_code error;
  record->has_ledger = std::filesystem::exists(path, error);
  std::string before;  // the digest of the line before
  ForEachLine(
      path,
      [&](std::uint64_t number, const std::string& text, const json& line) {
        const Chain chain = ChainOf(text, before);
        before = ChainDigest(text);
        LedgerRow row = ReadLedgerLine(line);
        row.line = number;
        row.chain = chain;
        record->ledger.push_back(std::move(row));
      },
      [&](DamagedLine damaged) { record->damaged_ledger.push_back(std::move(damaged)); });
}

/// Whether a program holds the lock of RunFolder now.
bool IsLocked(const std::filesystem::path& folder) {
  const int fd = ::open((folder / "lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = ::flock(fd, LOCK_SH | LOCK_NB) != 0;
  ::close(fd);
  return locked;
}

}  // namespace

Result<RunRecord> ReadRun(const std::filesystem::path& folder) {
  constexpr const char* kNext = "; give the --out folder of swarmctl run or swarmctl train";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return NotFound(folder.string() + ": there is no such folder" + kNext);
  }
  const std::filesystem::path job_file = RunFolder::JobFile(folder);
  if (!std::filesystem::exists(job_file, error)) {
    return NotFound(folder.string() + ": is not the folder of a run, it has no job.json" + kNext);
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(job_file));
  auto job = api::FromJsonText(text);
  const auto errors = job.ok() ? api::Validate(*job) : job.errors();
  if (!errors.empty()) {
    return DataLoss(job_file.string() + ": is damaged, or of another version of swarmctl:\n" +
                    api::ToString(errors));
  }
  RunRecord record;
  record.folder = folder.string();
  record.job = *std::move(job);
  RETURN_IF_ERROR(ReadRows(folder / "starts.jsonl", ReadStart, &record.starts));
  RETURN_IF_ERROR(ReadRows(folder / "steps.jsonl", ReadStep, &record.steps));
  RETURN_IF_ERROR(ReadRows(folder / "events.jsonl", ReadEvent, &record.events));
  RETURN_IF_ERROR(ReadRows(folder / "chaos.jsonl", ReadFault, &record.faults));
  ReadLedger(folder / "ledger.jsonl", &record);
  record.running = IsLocked(folder);
  record.prompt = SuggestPrompt(record.job.spec);
  return record;
}

}  // namespace swarm::ctl
