#include "ctl/report/again.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "ctl/chaos/chaos.h"

namespace swarm::ctl {
namespace {

constexpr std::size_t kFaultsMax = 20;

/// A word of a shell's command.
std::string Quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// How many workers the training began with, as its first event says; 0: unknown.
std::uint64_t FirstWorkers(const RunRecord& record) {
  std::uint64_t workers = 0;
  for (const EventRow& event : record.events) {
    if (event.kind != "TrainingStarted") continue;
    std::from_chars(event.text.data(), event.text.data() + event.text.size(), workers);
    break;
  }
  return workers;
}

/// The faults as a script, as far as a script can say them; the others are counted.
std::string ScriptOf(const std::vector<FaultRow>& faults, std::uint64_t* left_out) {
  std::string script;
  for (const FaultRow& fault : faults) {
    if (fault.over || !fault.error.empty()) continue;
    const std::string line = fault.text + " at step " + std::to_string(fault.step);
    if (!ParseChaos(line).ok()) {
      ++*left_out;
      continue;
    }
    script += (script.empty() ? "" : "; ") + line;
  }
  return script;
}

/// The command that began the run, but into another folder.
std::string CommandOfStart(const RunRecord& record) {
  std::string command = "swarmctl";
  const std::vector<std::string>& words = record.starts.front().command;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--out") {
      ++i;
    } else if (!words[i].starts_with("--out=") && words[i] != "--resume") {
      command += " " + Quoted(words[i]);
    }
  }
  return command + " --out " + Quoted(record.folder + "-again");
}

/// The same from what the other files say.
std::string CommandOfFiles(const RunRecord& record, std::uint64_t* faults_left_out) {
  std::string command = std::string("swarmctl ") + (record.has_ledger ? "run" : "train") + " -f " +
                        Quoted(record.folder + "/job.json") + " --out " +
                        Quoted(record.folder + "-again");
  const std::uint64_t workers = FirstWorkers(record);
  if (record.has_ledger && workers > 0 && workers != record.job.spec.workers.replicas) {
    command += " --workers " + std::to_string(workers);
  }
  if (record.faults.size() <= kFaultsMax) {
    const std::string script = ScriptOf(record.faults, faults_left_out);
    if (!script.empty()) command += " --chaos " + Quoted(script);
  } else {
    *faults_left_out = record.faults.size();
  }
  return command;
}

}  // namespace

Again CommandsOf(const RunRecord& record) {
  Again again;
  std::uint64_t left_out = 0;
  again.commands.push_back(record.starts.empty() ? CommandOfFiles(record, &left_out)
                                                 : CommandOfStart(record));
  again.commands.push_back("swarmctl generate --from " + Quoted(record.folder) + " --prompt " +
                           Quoted(record.prompt));
  again.note = record.starts.empty()
                   ? "Run them where the run was begun, since paths may be relative."
                   : "The run was begun in " + record.starts.front().folder +
                         ", and its paths may be relative. Its job, as it was, is in job.json.";
  if (left_out > 0) {
    again.note += " Of the injected faults, " + std::to_string(left_out) +
                  " are left out; chaos.jsonl lists them.";
  }
  return again;
}

}  // namespace swarm::ctl
