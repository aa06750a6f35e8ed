#include "ctl/run/reporter.h"

#include <nlohmann/json.hpp>

#include "base/short_time.h"
#include "worker/protocol/messages/count_workers.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;

json ToJson(const protocol::StageStatus& stage) {
  json workers = json::array();
  for (const protocol::StageStatus::Worker& worker : stage.workers) {
    workers.push_back({{"id", worker.id.value},
                       {"inFlight", worker.in_flight},
                       {"queued", worker.queued},
                       {"utilization", worker.utilization},
                       {"bytesPerSecond", worker.bytes_per_second},
                       {"microbatchesPerSecond", worker.microbatches_per_second}});
  }
  return {{"stage", stage.stage.value}, {"workers", workers}};
}

json ToJson(const protocol::JobStatus& status,
            const std::optional<api::DollarRange>& worker_price) {
  json stages = json::array();
  for (const protocol::StageStatus& stage : status.stages) stages.push_back(ToJson(stage));
  json line{{"state", NameOf(status.state)},
            {"message", status.message},
            {"step", status.step.value},
            {"maxSteps", status.max_steps},
            {"loss", status.loss},
            {"validationLoss", status.validation_loss},
            {"tokensPerSecond", status.tokens_per_second},
            {"secondsLeft", status.seconds_left},
            {"stages", stages}};
  if (const auto cost = api::Times(worker_price, static_cast<double>(CountWorkers(status)))) {
    line["dollarsPerHour"] = {{"least", cost->least}, {"most", cost->most}};
  }
  for (const protocol::RegionTraffic& pair : status.traffic) {
    line["traffic"].push_back({{"between", {pair.a, pair.b}}, {"bytes", pair.bytes}});
  }
  return line;
}

void WriteLine(std::FILE* stream, const std::string& line) {
  std::fprintf(stream, "%s\n", line.c_str());
  std::fflush(stream);
}

void WriteJson(std::FILE* stream, const json& value) {
  WriteLine(stream, value.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace

void Reporter::OnStatus(const protocol::JobStatus& status) {
  history_.Add(status.step.value, status.loss);
  last_ = status;
  if (json_) {
    WriteJson(out_, ToJson(status, worker_price_));
  } else if (terminal_.interactive()) {
    ShowPicture(status);
  } else if (pace_.IsDue(status, Clock::now())) {
    WriteLine(out_, RenderLine(status, worker_price_));
  }
}

void Reporter::OnHistory(const protocol::JobStatus& status) {
  history_.Add(status.step.value, status.loss);
  last_ = status;
}

void Reporter::ShowPicture(const protocol::JobStatus& status) {
  const std::size_t height = terminal_.height();
  terminal_.Show(RenderView(
      status, history_,
      {terminal_.width(), terminal_.color(), height > 4 ? height - 1 : 4, worker_price_}));
}

void Reporter::OnEvent(const std::string& text) {
  if (terminal_.interactive() && !json_) {
    terminal_.Print(text);
  } else {
    WriteLine(err_, text);
  }
}

void Reporter::OnSummary(const RunSummary& summary) {
  if (json_) {
    WriteJson(out_, {{"result", summary.result},
                     {"reason", summary.reason},
                     {"out", summary.out},
                     {"seconds", summary.seconds},
                     {"step", last_ ? last_->step.value : 0},
                     {"loss", last_ ? last_->loss : 0.0},
                     {"workersLost", summary.workers_lost},
                     {"exitCode", static_cast<int>(summary.exit_code)}});
    return;
  }
  terminal_.Finish();
  std::string line = summary.result + " after " + ShortTime(summary.seconds);
  if (last_) {
    last_->message.clear();  // the summary's reason has it
    last_->seconds_left = 0;
    line += ": " + RenderLine(*last_);
  }
  if (summary.workers_lost > 0) {
    line += ", workers lost: " + std::to_string(summary.workers_lost);
  }
  OnEvent(line);
  if (!summary.reason.empty()) OnEvent("Reason: " + summary.reason);
  if (summary.exit_code != ExitCode::kOk) return;
  if (summary.result == "Interrupted") {
    OnEvent("Continue with: the same command and --resume");
  } else {
    OnEvent("Sample with: swarmctl generate --from " + summary.out + " --prompt \"" +
            summary.prompt + "\"");
  }
}

}  // namespace swarm::ctl
