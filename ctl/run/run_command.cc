#include "ctl/run/run_command.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <nlohmann/json.hpp>

#include "api/job_for_machines.h"
#include "api/manifest.h"
#include "api/model/layout.h"
#include "api/prices.h"
#include "base/exit.h"
#include "base/files.h"
#include "base/machine_memory.h"
#include "base/processors.h"
#include "base/short_time.h"
#include "base/signals.h"
#include "ctl/chaos/chaos_driver.h"
#include "ctl/local_model.h"
#include "ctl/manifest_file.h"
#include "ctl/plan/auto_stages.h"
#include "ctl/run/listen.h"
#include "ctl/run/prompt_hint.h"
#include "ctl/run/reporter.h"
#include "ctl/run/run_folder.h"
#include "ctl/run/run_plan.h"
#include "ctl/run/steps_file.h"
#include "ctl/run/supervise.h"
#include "worker/processes/processes.h"

namespace swarm::ctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTick = milliseconds(200);      // between two looks at the status
constexpr Duration kChaosTick = milliseconds(20);  // the same, so that faults come at their step
constexpr Duration kLeaveLimit = seconds(1);       // for workers, once their trainer has ended
constexpr Duration kTerminateGrace = seconds(5);   // from SIGTERM to SIGKILL
constexpr std::size_t kLogTailLines = 12;

std::string LastLines(const std::filesystem::path& file, std::size_t count) {
  const Result<std::string> text = ReadFile(file);
  if (!text.ok()) return "";
  std::size_t begin = text->size();
  for (std::size_t lines = 0; begin > 0 && lines <= count; --begin) {
    if ((*text)[begin - 1] == '\n' && ++lines > count) break;
  }
  return text->substr(begin);
}

// Makes the folder, without what an earlier run has left in it.
Status EmptyFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error) std::filesystem::create_directories(folder, error);
  return error ? Unavailable("cannot make " + folder.string() + ": " + error.message()) : Status();
}

// A script, or a file with one.
Result<std::vector<ChaosLine>> LoadChaos(const std::string& chaos) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(chaos, error)) return ParseChaos(chaos);
  ASSIGN_OR_RETURN(const std::string script, ReadFile(chaos));
  return ParseChaos(script);
}

std::uint64_t ThreadsPerWorker(const RunOptions& options, std::uint64_t workers) {
  if (options.threads_per_worker > 0) return options.threads_per_worker;
  return std::max<std::uint64_t>(1, UsableProcessors() / workers);
}

// A plan with the layout, and what --listen says about it.
Result<RunPlan> PlanForJoiners(const RunOptions& options,
                               const std::vector<std::uint64_t>& layout) {
  RunPlan plan;
  plan.layout = layout;
  if (options.listen.empty()) {
    if (!options.workers_here) return plan;
    return InvalidArgument("--workers-here: needs --listen, so that the other workers can join");
  }
  if (options.plaintext) {
    return InvalidArgument("--listen: needs TLS; it cannot be used with --plaintext");
  }
  const Result<ListenAddress> listen = ParseListenAddress(options.listen);
  if (!listen.ok()) return listen.status().WithContext("--listen");
  plan.trainer_listen = listen->trainer();
  plan.worker_listen = listen->worker();
  plan.here = options.workers_here;
  if (plan.workers_here() > plan.workers()) {
    return InvalidArgument("--workers-here: is " + std::to_string(*plan.here) + " of " +
                           std::to_string(plan.workers()) + " workers; give at most all");
  }
  return plan;
}

// What machines that join are told of the job. The trainer says what is wrong with a model.
std::string JobForJoiners(api::SwarmJob job) {
  return ReadKnownModel(&job).empty() ? api::JobForMachines(job) : "";
}

std::vector<LivingProgram> Living(const std::vector<ObservedProgram>& observed) {
  std::vector<LivingProgram> living;
  for (const ObservedProgram& program : observed) {
    if (program.phase != Phase::kRunning) continue;
    living.push_back({program.name, program.role == WorkerRole::kTrainer, {}});
  }
  return living;
}

// The workers that the user wants, where the number of stages is open: a total.
Result<std::uint64_t> CountWorkers(const RunOptions& options, const nlohmann::json& manifest) {
  const nlohmann::json::json_pointer replicas("/spec/workers/replicas");
  if (options.workers.empty()) {
    const bool said = manifest.contains(replicas) && manifest.at(replicas).is_number_unsigned();
    return said ? std::max<std::uint64_t>(1, manifest.at(replicas)) : 1;
  }
  std::uint64_t workers = 0;
  const char* const end = options.workers.data() + options.workers.size();
  const auto read = std::from_chars(options.workers.data(), end, workers);
  if (read.ec == std::errc() && read.ptr == end && workers > 0) return workers;
  return InvalidArgument("--workers: is " + options.workers +
                         ", and the stages are Auto; give a total");
}

// The job of a manifest. Stages that are Auto become those that this machine has room for, and
// `said` tells it.
Result<api::SwarmJob> LoadJob(const RunOptions& options, std::string* said) {
  auto manifest = ReadManifest(options.manifest, options.overrides);
  if (!manifest.ok()) return InvalidArgument(api::ToString(manifest.errors()));
  if (!api::TakeAutoStages(&*manifest)) return Runnable(api::ParseManifest(*manifest));
  if (!options.devices.empty()) {
    return InvalidArgument(
        "spec.pipeline.stages: is Auto, which knows no GPUs; a number, such as `swarmctl plan`"
        " gives");
  }
  ASSIGN_OR_RETURN(const std::uint64_t workers, CountWorkers(options, *manifest));
  const auto chosen = ChooseStages(
      *manifest, {.workers = workers, .memory_bytes = static_cast<double>(UsableMemory())}, said);
  if (!chosen.ok()) return InvalidArgument(api::ToString(chosen.errors()));
  return Runnable(api::ParseManifest(*chosen));
}

// One run, from its start to its summary. Each step returns the error that ends the run early.
class Run {
 public:
  Run(const RunOptions& options, const RunFolder& folder, RunPlan plan, api::SwarmJob job,
      std::vector<ChaosLine> chaos, Reporter& reporter)
      : options_(options),
        folder_(folder),
        plan_(std::move(plan)),
        job_(std::move(job)),
        reporter_(reporter),
        processes_({options.worker_program, plan_.log_directory()}),
        supervisor_(plan_.pods(),
                    {.restart_delay = options.restart_delay, .restart = options.restart}) {
    if (chaos.empty()) return;
    plan_.follow_chaos = ChaosDriver::NeedsRulesFile(chaos);
    chaos_.emplace(
        std::move(chaos),
        ChaosDriver::Options{.rules_file = plan_.follow_chaos ? plan_.chaos_rules_file() : "",
                             .record_file = plan_.chaos_file(),
                             .tell = [this](const std::string& text) { reporter_.OnEvent(text); }},
        ProgramControl{
            .living = [this] { return Living(processes_.Observe()); },
            .signal = [this](const std::string& name,
                             int signal) { return processes_.Signal(name, signal); },
            .slow = [this](const std::string& name,
                           double factor) { return processes_.Slow(name, factor); },
            .terminate = [this](const std::string& name,
                                Duration grace) { processes_.Terminate(name, grace); },
            .join = [this] { return StartWorker(supervisor_.NextWorker(), plan_.devices); }});
  }

  RunSummary Execute() {
    const Timepoint begin = Clock::now();
    Status status = Start();
    if (status.ok()) {
      Follow();
    } else if (summary_.result.empty()) {
      Fail(status.message());
    }
    End();
    summary_.out = plan_.out.string();
    summary_.prompt = SuggestPrompt(job_.spec);
    summary_.seconds = ToSeconds(Clock::now() - begin);
    summary_.workers_lost = supervisor_.departures();
    return summary_;
  }

 private:
  Status Start() {
    RETURN_IF_ERROR(folder_.WriteJob(job_));
    RETURN_IF_ERROR(
        NoteStart(folder_.path(), options_.started_by, job_.spec.data, options_.resume));
    RemoveIdentities();  // a run that was killed leaves them behind
    ASSIGN_OR_RETURN(plan_.job_uid, identity::MakeJobUid());
    if (!options_.plaintext) {
      ASSIGN_OR_RETURN(auto authority, identity::JobAuthority::Create(plan_.job_uid));
      authority_.emplace(std::move(authority));
      identities_.emplace(*authority_, plan_.tls_directory());
    }
    ASSIGN_OR_RETURN(trainer_identity_, IdentityOf("trainer", identity::TrainerUri(plan_.job_uid)));
    ASSIGN_OR_RETURN(observer_identity_,
                     IdentityOf("observer", identity::ObserverUri(plan_.job_uid)));
    std::error_code ignored;  // an earlier run may have left none
    std::filesystem::remove(plan_.address_file(), ignored);
    std::filesystem::remove(plan_.page_address_file(), ignored);
    std::filesystem::remove(plan_.home_file(), ignored);
    RETURN_IF_ERROR(EmptyFolder(plan_.metrics_directory()));
    if (chaos_) RETURN_IF_ERROR(chaos_->Prepare());
    RETURN_IF_ERROR(StartTrainer(plan_, ""));
    RETURN_IF_ERROR(AwaitTrainer());
    TellPage();
    RETURN_IF_ERROR(OpenHome());
    ASSIGN_OR_RETURN(source_,
                     options_.status_source({trainer_address_, observer_identity_, plan_.job_uid,
                                             plan_.steps_file(), job_.spec.training.maxSteps}));
    // The trainer has cut the file to the steps it continues from. Without workers it adds none.
    if (plan_.resume) ReadHistory(*source_);
    for (std::uint64_t i = 0; i < plan_.pods(); ++i) {
      RETURN_IF_ERROR(StartWorker(Supervisor::WorkerName(i), plan_.DevicesOf(i)));
    }
    started_ = Clock::now();
    if (!options_.json) {
      reporter_.OnEvent("Metrics: http://ADDRESS/metrics of each program; its ADDRESS is in " +
                        plan_.metrics_directory().string());
    }
    return Status();
  }

  // From now on, machines elsewhere may join. The operator's identity is for `swarmctl token`.
  Status OpenHome() {
    if (options_.listen.empty()) return Status();
    ASSIGN_OR_RETURN(const ListenAddress listen, ParseListenAddress(options_.listen));
    RETURN_IF_ERROR(IdentityOf("operator", identity::OperatorUri(plan_.job_uid)).status());
    ASSIGN_OR_RETURN(home_, options_.open_home({.listen = listen.enrolment(),
                                                .job_uid = plan_.job_uid,
                                                .job_name = job_.name,
                                                .trainer = trainer_address_,
                                                .job = JobForJoiners(job_),
                                                .validity = options_.joined_validity,
                                                .address_file = plan_.home_file(),
                                                .revoked_file = plan_.revoked_file(),
                                                .events_file = plan_.enrolment_file()},
                                               *authority_));
    ASSIGN_OR_RETURN(const std::string token, home_->CreateToken());
    TellHome();
    reporter_.OnEvent("Join from another machine with:\nswarmctl join " + token);
    const std::string& checkpoints = job_.spec.checkpoint.uri;
    if (checkpoints.empty() || checkpoints.find("://") == checkpoints.npos ||
        checkpoints.starts_with("file://")) {
      reporter_.OnEvent(
          "Checkpoints go to a folder: other machines must see the same one there, or"
          " spec.checkpoint.uri must name a bucket");
    }
    return Status();
  }

  void RenewIdentities() {
    if (!identities_) return;
    const Status status = identities_->RenewDue(std::chrono::system_clock::now());
    if (!status.ok()) reporter_.OnEvent("a certificate was not renewed: " + status.message());
  }

  void TellHome() {
    if (!home_) return;
    for (const std::string& event : home_->TakeEvents()) reporter_.OnEvent(event);
  }

  Result<std::optional<IdentityFiles>> IdentityOf(const std::string& name, const std::string& uri) {
    if (!identities_) return std::optional<IdentityFiles>();
    ASSIGN_OR_RETURN(IdentityFiles files,
                     identities_->Write(name, uri, std::chrono::system_clock::now()));
    return std::optional<IdentityFiles>(std::move(files));
  }

  Status StartTrainer(const RunPlan& plan, const std::string& listen) {
    return processes_.Start({std::string(kTrainerName), WorkerRole::kTrainer,
                             ToArguments(TrainerFlags(plan, trainer_identity_, term_, listen))});
  }

  Status StartWorker(const std::string& id, const std::vector<std::string>& devices) {
    ASSIGN_OR_RETURN(const std::optional<IdentityFiles> identity,
                     IdentityOf(id, identity::WorkerUri(plan_.job_uid, id)));
    return processes_.Start(
        {id, WorkerRole::kStage,
         ToArguments(StageFlags(plan_, identity, id, devices, trainer_address_))});
  }

  // Waits until the trainer has written its address.
  Status AwaitTrainer() {
    const Timepoint deadline = Clock::now() + options_.start_limit;
    while (true) {
      // Observe the trainer before the file: if it has ended, the file is final.
      const ObservedProgram trainer = processes_.Observe().front();
      if (const Result<std::string> address = ReadFile(plan_.address_file()); address.ok()) {
        trainer_address_ = address->substr(0, address->find('\n'));
        return Status();
      }
      if (trainer.phase == Phase::kExited) {
        StepsFile steps(plan_.steps_file(), job_.spec.training.maxSteps);
        if (plan_.resume) ReadHistory(steps);
        EndWithTrainer(
            trainer.exit_signal ? static_cast<int>(ExitCode::kFailed) : trainer.exit_code,
            "the trainer " + DescribeEnd(trainer) + " before it listened");
        return Unavailable(summary_.reason);
      }
      if (signals_.count() > 0) {
        summary_ = {"Interrupted", "before the trainer listened"};
        summary_.exit_code = ExitCode::kNothingToResume;
        return Cancelled(summary_.reason);
      }
      if (Clock::now() >= deadline) {
        return DeadlineExceeded("the trainer did not listen within " +
                                ShortTime(ToSeconds(options_.start_limit)) +
                                "; its log: " + processes_.LogOf(trainer.name).string());
      }
      processes_.Wait(std::min(deadline, Clock::now() + milliseconds(20)), signals_.fd());
    }
  }

  // The trainer has written the page's address before its own. The next trainer takes the same one,
  // so that pages that are open go on.
  void TellPage() {
    if (plan_.page.empty()) return;
    const Result<std::string> address = ReadFile(plan_.page_address_file());
    if (address.ok()) plan_.page = address->substr(0, address->find('\n'));
    if (options_.json) return;
    reporter_.OnEvent(address.ok() ? "Page: http://" + plan_.page + "/"
                                   : "Page: none; the log of the trainer says why: " +
                                         processes_.LogOf(std::string(kTrainerName)).string());
  }

  // Follows the run until it has a result.
  void Follow() {
    while (summary_.result.empty()) {
      ReportStatus();
      TellHome();
      RenewIdentities();
      OnInterrupts();
      Supervise();
      if (!summary_.result.empty()) break;
      if (chaos_ && !stop_deadline_) {
        chaos_->Act(Clock::now() - started_, steps_, source_->trainer_said());
      }
      if (stop_deadline_ && Clock::now() >= *stop_deadline_) {
        return Fail("the trainer did not end within " +
                    ShortTime(ToSeconds(options_.finish_limit)) + " after the interruption");
      }
      processes_.Wait(Clock::now() + (chaos_ ? kChaosTick : kTick), signals_.fd());
    }
    ReportStatus();  // the last lines
  }

  void ReadHistory(StatusSource& source) {
    while (std::optional<protocol::JobStatus> status = source.Poll()) reporter_.OnHistory(*status);
  }

  void ReportStatus() {
    while (std::optional<protocol::JobStatus> status = source_->Poll()) {
      steps_ = status->step.value;
      reporter_.OnStatus(*status);
    }
  }

  void OnInterrupts() {
    const int count = signals_.count();
    if (count >= 2) {
      summary_ = {"Interrupted", "everything was killed"};
      summary_.exit_code = ExitCode::kKilled;
    } else if (count == 1 && !stop_deadline_) {
      reporter_.OnEvent(
          "Interrupted: finishing the step and writing a checkpoint; once more kills");
      supervisor_.BeginStopping();
      if (chaos_) chaos_->End();
      stop_deadline_ = Clock::now() + options_.finish_limit;
      processes_.Terminate(std::string(kTrainerName), options_.finish_limit);
    }
  }

  void Supervise() {
    const Actions actions =
        supervisor_.Decide(Clock::now(), processes_.Observe(), source_->trainer_heard());
    for (const std::string& event : actions.events) reporter_.OnEvent(event);
    if (actions.trainer_exit_code) return EndWithTrainer(*actions.trainer_exit_code, "");
    if (!actions.give_up.empty()) {
      Fail(actions.give_up);
      if (!actions.give_up_because_of.empty()) ExplainByLogOf(actions.give_up_because_of);
      return;
    }
    if (actions.kill_trainer) {
      // If the trainer has ended meanwhile, the next Observe() shows it.
      (void)processes_.Signal(std::string(kTrainerName), SIGKILL);
    }
    if (actions.restart_trainer) {
      RunPlan again = plan_;
      again.resume = true;
      ++term_;
      const Status status = StartTrainer(again, trainer_address_);
      if (!status.ok()) return Fail(status.message());
    }
    for (const std::string& id : actions.start_workers) {
      const Status status = StartWorker(id, plan_.devices);
      if (!status.ok()) return Fail(status.message());
    }
  }

  void EndWithTrainer(int exit_code, std::string reason) {
    if (exit_code == WorkerExit::kOk) {
      summary_.result = stop_deadline_ ? "Interrupted" : "Succeeded";
    } else if (exit_code == WorkerExit::kStopped) {
      summary_.result = "Interrupted";
    } else if (exit_code == WorkerExit::kNothingToResume) {
      summary_ = {"Interrupted", "there is no checkpoint yet"};
      summary_.exit_code = ExitCode::kNothingToResume;
    } else {
      Fail(reason.empty() ? "the trainer ended with exit code " + std::to_string(exit_code)
                          : reason);
      if (exit_code == WorkerExit::kBadUsage || exit_code == WorkerExit::kStorageRefused) {
        summary_.exit_code = ExitCode::kBadUsage;
      }
      ExplainByLogOf(std::string(kTrainerName));
    }
  }

  // Explains a program's failure: by the error in the last lines of its log, if there is one.
  void ExplainByLogOf(const std::string& name) {
    const auto log = processes_.LogOf(name);
    const std::string lines = LastLines(log, kLogTailLines);
    const std::string mark = " error " + name + " ";
    const std::size_t error = lines.rfind(mark);
    if (error != lines.npos) {
      summary_.reason = lines.substr(error + mark.size());
      summary_.reason.erase(summary_.reason.find_last_not_of('\n') + 1);
      summary_.reason += "\nThe log of " + name + ": " + log.string();
      return;
    }
    summary_.reason += "; its log is " + log.string();
    if (!lines.empty()) summary_.reason += ", which ends with:\n" + lines;
  }

  void Fail(std::string reason) {
    summary_ = {"Failed", std::move(reason)};
    summary_.exit_code = ExitCode::kFailed;
  }

  // The trainer has told its workers to leave. A worker that did not hear it (evicted, cut off)
  // looks for a trainer that has ended, and holds nothing useful: swarmctl ends it.
  void End() {
    if (chaos_) chaos_->End();
    TellHome();
    home_.reset();
    source_.reset();
    if (summary_.exit_code == ExitCode::kOk) AwaitAll(Clock::now() + kLeaveLimit);
    if (summary_.exit_code != ExitCode::kKilled) {
      for (const ObservedProgram& worker : processes_.Observe()) {
        processes_.Terminate(worker.name, kTerminateGrace);
      }
      AwaitAll(Clock::now() + kTerminateGrace);
    }
    processes_.KillAll();
    RemoveIdentities();
  }

  // Private keys do not outlive the programs that use them; a resumed run makes new ones.
  void RemoveIdentities() {
    std::error_code error;
    std::filesystem::remove_all(plan_.tls_directory(), error);
    if (error) {
      reporter_.OnEvent("cannot remove the keys in " + plan_.tls_directory().string() + ": " +
                        error.message());
    }
  }

  void AwaitAll(Timepoint deadline) {
    const int interrupted = signals_.count();
    while (Clock::now() < deadline && signals_.count() == interrupted) {
      const std::vector<ObservedProgram> observed = processes_.Observe();
      if (std::none_of(observed.begin(), observed.end(), [](const ObservedProgram& worker) {
            return worker.phase == Phase::kRunning;
          })) {
        return;
      }
      processes_.Wait(deadline, signals_.fd());
    }
  }

  const RunOptions& options_;
  const RunFolder& folder_;
  RunPlan plan_;
  const api::SwarmJob job_;
  Reporter& reporter_;
  Signals signals_{SIGINT, SIGTERM, SIGHUP};
  Processes processes_;
  Supervisor supervisor_;
  std::optional<ChaosDriver> chaos_;
  Timepoint started_{};      // the workers
  std::uint64_t steps_ = 0;  // committed
  std::optional<identity::JobAuthority> authority_;
  std::optional<RunIdentities> identities_;  // uses authority_
  std::unique_ptr<Home> home_;               // uses authority_
  std::optional<IdentityFiles> trainer_identity_;
  std::optional<IdentityFiles> observer_identity_;
  std::uint64_t term_ = 1;
  std::string trainer_address_;
  std::unique_ptr<StatusSource> source_;
  std::optional<Timepoint> stop_deadline_;
  RunSummary summary_;
};

}  // namespace

Result<std::unique_ptr<StatusSource>> FollowStepsFile(const ObserverAccess& access) {
  return std::unique_ptr<StatusSource>(
      std::make_unique<StepsFile>(access.steps_file, access.max_steps));
}

ExitCode RunJob(const RunOptions& options, std::FILE* out, std::FILE* err) {
  const auto refuse = [err](const std::string& why) {
    std::fprintf(err, "%s\n", why.c_str());
    return ExitCode::kBadUsage;
  };
  std::string said;
  const Result<api::SwarmJob> job = LoadJob(options, &said);
  if (!job.ok()) return refuse(job.status().message());
  Result<std::vector<std::string>> devices = std::vector<std::string>();
  if (!options.devices.empty()) devices = ParseDevices(options.devices);
  if (!devices.ok()) return refuse("--devices: " + devices.status().message());
  const auto layout = api::ComputeReplicas(*job, options.workers);
  if (!layout.ok()) return refuse("--workers: " + layout.status().message());
  Result<std::vector<ChaosLine>> chaos = LoadChaos(options.chaos);
  if (!chaos.ok()) return refuse(chaos.status().message());
  Result<RunPlan> joinable = PlanForJoiners(options, *layout);
  if (!joinable.ok()) return refuse(joinable.status().message());
  const Result<RunFolder> folder = RunFolder::Claim(options.out, *job, options.resume);
  if (!folder.ok()) return refuse(folder.status().message());
  RunPlan plan = *std::move(joinable);
  plan.out = folder->path();
  plan.devices = *std::move(devices);
  plan.regions = options.regions;
  plan.threads_per_worker =
      ThreadsPerWorker(options, std::max<std::uint64_t>(plan.workers_here(), 1));
  plan.memory = UsableMemory();
  plan.resume = options.resume;
  plan.trace_progress = options.trace_progress;
  plan.profile = options.profile;
  plan.log_level = options.log_level;
  plan.moves = options.moves;
  if (options.page != "none") plan.page = options.page;

  Reporter reporter(out, err, options.json, api::WorkerPrices(job->spec));
  if (!said.empty()) reporter.OnEvent(said);
  const RunSummary summary =
      Run(options, *folder, plan, *job, *std::move(chaos), reporter).Execute();
  reporter.OnSummary(summary);
  return summary.exit_code;
}

}  // namespace swarm::ctl
