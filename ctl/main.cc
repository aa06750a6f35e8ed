// swarmctl, the program for users of SwarmJob. It starts without libtorch, and hands over the
// commands that compute to swarmctl-compute (ctl/model/main.cc).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/completion/describe.h"
#include "base/exit.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/version.h"
#include "ctl/chaos/chaos.h"
#include "ctl/cluster/cluster_commands.h"
#include "ctl/cluster/job_token_command.h"
#include "ctl/cluster/satellite_command.h"
#include "ctl/enrol/join_command.h"
#include "ctl/enrol/run_home.h"
#include "ctl/enrol/token_command.h"
#include "ctl/exit_codes.h"
#include "ctl/hand_over.h"
#include "ctl/inputs/tokenize_command.h"
#include "ctl/inputs/validate_command.h"
#include "ctl/manifest_flags.h"
#include "ctl/model/command_line.h"
#include "ctl/plan/link_rates.h"
#include "ctl/plan/plan_command.h"
#include "ctl/profile/profile_command.h"
#include "ctl/report/report_command.h"
#include "ctl/run/observer_source.h"
#include "ctl/run/run_command.h"
#include "ctl/simulate/fleet_command.h"
#include "ctl/simulate/simulate_command.h"
#include "worker/flags/flags.h"

namespace swarm::ctl {
namespace {

CLI::App* AddValidate(CLI::App& app, ValidateOptions* options) {
  CLI::App* command = app.add_subcommand("validate", "Check a manifest and start nothing");
  AddManifest(command, &options->manifest, &options->overrides);
  command->add_flag("--cluster", options->cluster,
                    "Check as the operator does: refuse what works on one machine only");
  command->add_flag("--offline", options->offline,
                    "Look at nothing that the manifest names: neither files nor buckets");
  command->add_flag("--json", options->json,
                    "Print JSON: the job with all defaults, or the errors");
  return command;
}

/// The options of a run that say which job runs where.
void AddPlacement(CLI::App* command, RunOptions* options) {
  AddManifest(command, &options->manifest, &options->overrides);
  command->add_option(
      "--workers", options->workers,
      "Number of workers, in all (5) or by stage (0=2,1=3) (default: spec.workers.replicas)");
  command->add_option("--devices", options->devices,
                      "Devices of this machine, as in cuda:0,cuda:1: a worker computes on each, and"
                      " the workers of one list share a pod (default: workers alone, on the CPU)");
  command
      ->add_option("--regions", options->regions,
                   "Regions in which the workers of this machine are said to be, in turns, as in"
                   " eu,us: to see how a job behaves over regions (default: $SWARM_REGION, or"
                   " local)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--threads-per-worker", options->threads_per_worker,
                   "Compute threads of each worker (default: cores / workers, at least 1)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--plaintext", options->plaintext,
                    "Use no TLS between the programs, for experiments");
  command->add_option("--worker-program", options->worker_program,
                      "Path of swarm-worker (default: the one beside swarmctl)");
}

CLI::App* AddRun(CLI::App& app, RunOptions* options) {
  CLI::App* command = app.add_subcommand("run", "Run a job on this machine");
  AddPlacement(command, options);
  command->add_option("--out", options->out, "Folder of the run (default: out/NAME)");
  command->add_flag("--resume", options->resume, "Continue from the newest checkpoint in --out");
  command->add_flag("--json", options->json,
                    "Print a JSON object for each status, and a summary at the end");
  command->add_option("--chaos", options->chaos,
                      "Faults to inject: a script as described below, or a file with one");
  command
      ->add_option_function<double>(
          "--restart-delay",
          [options](const double& seconds) { options->restart_delay = FromSeconds(seconds); },
          "Seconds from the end of a worker to the start of its replacement (default: 1)")
      ->check(CLI::Range(0.0, 1e6));
  command->add_flag(
      "--no-restart", [options](std::int64_t) { options->restart = false; },
      "Do not replace workers that end");
  command->add_flag(
      "--no-moves", [options](std::int64_t) { options->moves = false; },
      "Never move workers between stages");
  command->add_option("--page", options->page,
                      "address:port of the page to watch the run, or none (default: 127.0.0.1 and a"
                      " free port)");
  CLI::Option* listen = command->add_option(
      "--listen", options->listen,
      "HOST:PORT at which other machines join, HOST as they reach this machine (docs/regions.md);"
      " the trainer has the port behind it (default: none join)");
  command
      ->add_option("--workers-here", options->workers_here,
                   "With --listen: of the workers, how many start on this machine (default: all)")
      ->check(CLI::Range(0, 1'000'000))
      ->needs(listen);
  command
      ->add_option_function<double>(
          "--joined-validity",
          [options](const double& seconds) { options->joined_validity = FromSeconds(seconds); },
          "With --listen: seconds for which the certificate of a joined worker is valid, which it"
          " renews (default: 3600)")
      ->check(CLI::Range(10.0, 604800.0))
      ->needs(listen);
  command->add_flag("--trace-progress", options->trace_progress,
                    "Write OUT/progress.jsonl, a line for each piece of work, for measurements");
  command
      ->add_option("--log-level", options->log_level,
                   "Of the programs' logs in OUT/logs; with debug, workers log what they sum")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
  command->footer(std::string(kChaosGrammar));
  return command;
}

CLI::App* AddProfile(CLI::App& app, ProfileOptions* options) {
  CLI::App* command = app.add_subcommand(
      "profile",
      "Run a few steps of a job on this machine, record what its workers do, and say what costs the"
      " most time (docs/profile.md)");
  AddPlacement(command, &options->run);
  options->run.out = "out/profile";
  command
      ->add_option("--out", options->run.out,
                   "Folder of the run, new or empty: profile.json there is the trace")
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Steps to tell of")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--steps-before", options->steps_before,
                   "Steps before these, which the trace has and the numbers leave out")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  return command;
}

CLI::App* AddJoin(CLI::App& app, JoinOptions* options) {
  CLI::App* command =
      app.add_subcommand("join", "Become a worker of a run on another machine (docs/regions.md)");
  command
      ->add_option("token", options->token,
                   "Join token, which the owner of the run gives; -: it is on standard input")
      ->required();
  command->add_option("--out", options->out, "Folder for logs and keys (default: out/JOB-WORKER)");
  CLI::Option* device =
      command->add_option("--device", options->device, "cpu or cuda:N")
          ->check([](const std::string& name) { return CheckDevice(name).message(); })
          ->capture_default_str();
  command
      ->add_option("--devices", options->devices,
                   "Devices, as in cuda:0,cuda:1: a worker computes on each")
      ->check([](const std::string& list) { return ParseDevices(list).status().message(); })
      ->excludes(device);
  command
      ->add_option("--threads", options->threads,
                   "Compute threads of each worker (default: cores / workers, at least 1)")
      ->check(CLI::Range(1, 1024));
  CLI::Option* listen = command->add_option(
      "--listen", options->listen,
      "HOST:PORT at which other workers reach this machine, port 0 takes a free one (default: the"
      " address with which it calls home, if home sees the same one)");
  command
      ->add_flag("--dial-only", options->dial_only,
                 "Nobody can reach this machine: its worker dials the others")
      ->excludes(listen);
  command->add_option("--region", options->region,
                      "Where this machine is; what crosses regions is counted (default:"
                      " $SWARM_REGION, or local)");
  command
      ->add_option_function<double>(
          "--drain-seconds",
          [options](const double& seconds) { options->drain = FromSeconds(seconds); },
          "Seconds from Ctrl-C to the end: time to hand over (default: 25)")
      ->check(CLI::Range(0.0, 86400.0));
  command
      ->add_option_function<double>(
          "--patience",
          [options](const double& seconds) { options->patience = FromSeconds(seconds); },
          "Seconds for which it tries to reach home again after a loss (default: 86400)")
      ->check(CLI::Range(1.0, 1e8));
  command->add_flag_callback(
      "--no-probe", [options] { options->probe = false; },
      "Do not measure this machine first, and join even if its memory has no room for a stage");
  command->add_option("--log-level", options->log_level, "Of the worker's log")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
  command->add_option("--worker-program", options->worker_program,
                      "Path of swarm-worker (default: the one beside swarmctl)");
  return command;
}

void AddTimeToLive(CLI::App* command, std::function<void(Duration)> set) {
  command
      ->add_option_function<double>(
          "--ttl", [set](const double& seconds) { set(FromSeconds(seconds)); },
          "Time to live of the token, as in 90s, 30m or 24h")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}},
          CLI::AsNumberWithUnit::UNIT_REQUIRED))
      ->default_str("24h");
}

void AddCluster(CLI::App* command, ClusterOptions* options) {
  command->add_option(
      "--kubeconfig", options->kubeconfig,
      "Kubeconfig file (default: the files in $KUBECONFIG, else ~/.kube/config, else the service"
      " account of this pod)");
  command->add_option("--context", options->context,
                      "Context of the kubeconfig (default: its current context)");
  command->add_option("-n,--namespace", options->ns, "Namespace (default: that of the context)");
  command->add_flag("--allow-insecure", options->allow_insecure,
                    "Do not warn of insecure-skip-tls-verify in the kubeconfig");
}

/// The three commands of `token`.
struct TokenCommands {
  const CLI::App* create;
  const CLI::App* list;
  const CLI::App* revoke;
};

/// Whether it names the folder of a run, and not a SwarmJob.
bool IsRun(const std::filesystem::path& out) {
  std::error_code unreadable;
  return out.has_parent_path() || std::filesystem::is_directory(out, unreadable);
}

TokenCommands AddToken(CLI::App& app, TokenOptions* options, JobTokenOptions* of_job) {
  CLI::App* command =
      app.add_subcommand("token", "Decide which machines may join a run or a SwarmJob");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* each = command->add_subcommand(name, help);
    each->add_option("run", options->out,
                     "Folder of the run (its --out), or name of the SwarmJob, if there is no folder"
                     " of this name")
        ->required();
    AddCluster(each, &of_job->cluster);
    return each;
  };
  CLI::App* create = add("create", "Print the command with which machines join");
  AddTimeToLive(create, [options](Duration lifetime) { options->terms.lifetime = lifetime; });
  create->add_option("--uses", options->terms.uses, "Machines that may join with it")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  create->add_option("--pool", of_job->pool,
                     "Of a SwarmJob: the pool that machines join, of spec.workers.machinePools");
  create->add_option("--home", of_job->home,
                     "Of a SwarmJob: host:port at which machines reach the operator (default: that"
                     " of the load balancer of the Service of satellites)");
  create
      ->add_option("--operator-namespace", of_job->operator_namespace,
                   "Of a SwarmJob: the namespace of the operator")
      ->capture_default_str();
  CLI::App* list = add("list", "Show the tokens, and who has joined with them");
  list->add_flag("--json", options->json, "Print a JSON object for each token");
  CLI::App* revoke =
      add("revoke", "Make a token useless and put out who has joined with it, or put out a worker");
  revoke->add_option("name", options->name, "Token or worker, as `token list` names them")
      ->required();
  return {create, list, revoke};
}

CLI::App* AddTokenize(CLI::App& app, TokenizeOptions* options) {
  CLI::App* command = app.add_subcommand(
      "tokenize",
      "Make shards of token ids of text and JSON lines, to train on. The same command again"
      " goes on where it ended");
  command
      ->add_option("--data", options->data,
                   "Text (.txt) or JSON lines (.jsonl): a file, a folder of them or a pattern")
      ->required();
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "Uri of a tokenizer.json, of a folder with one or of a SentencePiece model")
      ->required();
  command->add_option("--out", options->out, "Path or uri of the folder of the shards")->required();
  command
      ->add_option("--text-field", options->documents.text_field,
                   "Field of the objects in JSON lines that holds the text")
      ->capture_default_str();
  command->add_flag_callback(
      "--skip-bad-documents",
      [options] { options->documents.on_bad_document = api::OnBadDocument::kSkip; },
      "Leave out documents that cannot be read, and count them");
  return command;
}

/// Two commands in one: with --fleet the job is trained in virtual time, with --trace only the
/// balancing rules are replayed. Options that both have are in `options`.
CLI::App* AddSimulate(CLI::App& app, SimulateOptions* options, FleetOptions* fleet_options) {
  CLI::App* command = app.add_subcommand(
      "simulate",
      "Train a job on a described fleet in virtual time, or replay a trace of machines that come"
      " and go with the balancing rules");
  CLI::Option_group* input = command->add_option_group("What to simulate");
  input->require_option(1);
  CLI::Option* fleet =
      input->add_option("--fleet", fleet_options->fleet, "Fleet and job in YAML (docs/fleet.md)");
  command
      ->add_option("--plot", fleet_options->plot,
                   "--fleet: SVG file to write: tokens a second and machines over time")
      ->needs(fleet);
  command
      ->add_option("--events", fleet_options->events,
                   "--fleet: file to write: what the trainer says, a JSON object a line")
      ->needs(fleet);
  CLI::Option* trace =
      input->add_option("--trace", options->trace, "Bamboo's CSV or Parcae's JSON lines");
  CLI::Option* stages = command->add_option("--stages", options->stages, "Stages of the pipeline")
                            ->check(CLI::Range(1, 256));
  command
      ->add_option("--stage-costs", options->stage_costs,
                   "Work of a microbatch at each stage, for example 1,1,2 (default: equal)")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  CLI::Option* state_load = command
                                ->add_option("--state-load", options->state_load_seconds,
                                             "Seconds to fetch the state of a stage")
                                ->check(CLI::NonNegativeNumber);
  trace->needs(stages)->needs(state_load);
  command
      ->add_option(
          "--policy", options->policy,
          "The policy that is printed first: Moves (what swarm-worker does), Copies (a study:"
          " workers keep states of other stages; swarm-worker does not do it), Periodic"
          " (SWARM's rule) or None (no worker moves)")
      ->check(CLI::IsMember({"Moves", "Copies", "Periodic", "None"}))
      ->capture_default_str();
  command->add_option("--period", options->period_seconds, "Periodic: seconds between rounds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--copies", options->copies,
                   "Copies: states of other stages that a worker has memory for")
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  command
      ->add_option("--copy-drag", options->copy_drag,
                   "Copies: share of its rate that a worker loses with each such state")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option(
          "--switch", options->switch_seconds,
          "Copies: seconds a worker is away when it switches to a stage whose state it has")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", options->seed, "The same seed gives the same results")
      ->capture_default_str();
  command->add_option("--runs", options->runs, "Number of seeds; prints means over them")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print a JSON object");
  return command;
}

CLI::App* AddPlan(CLI::App& app, PlanOptions* options) {
  CLI::App* command = app.add_subcommand(
      "plan",
      "Find the best way to train a job on a described fleet. What the manifest says is kept; what"
      " it leaves out is searched: stages, cuts, codec, step mode, microbatch, workers");
  AddManifest(command, &options->manifest, &options->overrides);
  command
      ->add_option("--fleet", options->fleet,
                   "Machines and links in YAML (docs/planner.md); its job is not read")
      ->required();
  using planner::Goal;
  CLI::Option* goal =
      command
          ->add_option("--goal", options->goal, "Throughput or Cost: tokens a second or a dollar")
          ->transform(CLI::CheckedTransformer(std::map<std::string, Goal>{
              {"Throughput", Goal::kTokensPerSecond}, {"Cost", Goal::kTokensPerDollar}}))
          ->default_str("Throughput");
  CLI::Option* write = command->add_option(
      "--write", options->write, "File to write: the manifest with the best plan in it, as JSON");
  CLI::Option* rates =
      command
          ->add_option("--link-rates", options->link_rates,
                       "Print instead how fast each manner of training would be, if all machines"
                       " had lines of these rates, in Mb/s, and where their curves cross")
          ->expected(0, 1)
          ->default_str(kDefaultLinkRates)
          ->excludes(goal)
          ->excludes(write);
  command->add_option("--plot", options->plot, "--link-rates: SVG file to write: these curves")
      ->needs(rates);
  command->add_flag("--json", options->json, "Print a JSON object");
  return command;
}

CLI::App* AddTop(CLI::App& app, TopOptions* options) {
  CLI::App* command =
      app.add_subcommand("top", "Show the SwarmJobs of a cluster and their progress");
  command->add_option("job", options->job,
                      "Show one job with its conditions and pods (default: all jobs)");
  AddCluster(command, &options->cluster);
  command->add_flag("-A,--all-namespaces", options->all_namespaces,
                    "Show the jobs of all namespaces");
  command->add_flag("--once", options->once, "Print once and exit");
  command
      ->add_option_function<double>(
          "--interval",
          [options](const double& seconds) { options->interval = FromSeconds(seconds); },
          "Seconds between updates (default: 2)")
      ->check(CLI::Range(0.1, 3600.0));
  return command;
}

CLI::App* AddUi(CLI::App& app, UiOptions* options) {
  CLI::App* command =
      app.add_subcommand("ui", "Show the page of a SwarmJob at an address of this machine");
  command->add_option("job", options->job, "Name of the job (default: a page of all jobs)");
  AddCluster(command, &options->cluster);
  command->add_flag("-A,--all-namespaces", options->all_namespaces,
                    "Show the jobs of all namespaces on the page of all jobs");
  command
      ->add_option("--listen", options->listen, "address:port on loopback; port 0 takes a free one")
      ->capture_default_str();
  return command;
}

CLI::App* AddDrain(CLI::App& app, DrainOptions* options) {
  CLI::App* command = app.add_subcommand(
      "drain", "Let workers of a SwarmJob hand over and leave; the operator replaces them");
  command->add_option("pods", options->pods, "Pods of workers: JOB-wN")->required();
  AddCluster(command, &options->cluster);
  command
      ->add_option("--grace", options->grace_seconds,
                   "Seconds from SIGTERM to SIGKILL (default: that of the pod)")
      ->check(CLI::Range(1, 86400));
  return command;
}

/// The commands of `satellite`.
struct SatelliteCommands {
  const CLI::App* list;
  const CLI::App* token;
  const CLI::App* revoke;
};

SatelliteCommands AddSatellite(CLI::App& app, SatelliteOptions* options) {
  CLI::App* command = app.add_subcommand(
      "satellite", "Decide which other clusters may have pods of this cluster's SwarmJobs");
  command->require_subcommand(1);
  CLI::App* list = command->add_subcommand(
      "list", "Print which clusters have a token or have come, and whether they are connected");
  AddCluster(list, &options->cluster);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* each = command->add_subcommand(name, help);
    each->add_option("cluster", options->name, "Name of the other cluster, as pools have it")
        ->required();
    AddCluster(each, &options->cluster);
    return each;
  };
  CLI::App* token =
      add("token", "Print a token with which the operator of another cluster enrols here, once");
  token->add_option("--home", options->home,
                    "host:port at which it reaches the operator of this cluster (default: that of"
                    " the load balancer of the Service of satellites)");
  AddTimeToLive(token, [options](Duration lifetime) { options->lifetime = lifetime; });
  return {list, token, add("revoke", "Send a satellite away, and make its unused tokens useless")};
}

/// The command of each shell.
using CompletionCommands = std::vector<std::pair<Shell, const CLI::App*>>;

CompletionCommands AddCompletion(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "completion", "Print a script with which a shell completes commands and flags");
  command->require_subcommand(1);
  CompletionCommands commands;
  const auto add = [&](Shell shell, const char* name, const char* help) {
    commands.emplace_back(shell, command->add_subcommand(name, help));
  };
  add(Shell::kBash, "bash", "For ~/.bashrc: source <(swarmctl completion bash)");
  add(Shell::kZsh, "zsh", "For ~/.zshrc: source <(swarmctl completion zsh)");
  add(Shell::kFish, "fish", "For config.fish: swarmctl completion fish | source");
  return commands;
}

std::filesystem::path BesideThisProgram(const char* name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path(name) : self.parent_path() / name;
}

/// What the user types to call this program. kubectl runs its plugin kubectl-swarmjob.
const char* NameOfProgram(const char* path) {
  return std::filesystem::path(path).filename() == "kubectl-swarmjob" ? "kubectl swarmjob"
                                                                      : "swarmctl";
}

int Main(int argc, char** argv) {
  CLI::App app("Train a large model on machines that come and go");
  app.name(NameOfProgram(argv[0]));
  app.set_version_flag("--version", Version());
  app.require_subcommand(1);
  app.footer(std::string(kExitCodeTable));
  ValidateOptions validate;
  RunOptions run;
  run.worker_program = BesideThisProgram("swarm-worker");
  run.status_source = ObserveTrainer;
  run.open_home = OpenRunHome;
  run.started_by = {Version(), {argv, argv + argc}};
  const CLI::App* validate_command = AddValidate(app, &validate);
  const CLI::App* run_command = AddRun(app, &run);
  ProfileOptions profile{.run = run};
  const CLI::App* profile_command = AddProfile(app, &profile);
  TrainOptions train;
  EvaluateOptions evaluate;
  GenerateOptions generate;
  ExportOptions export_options;
  TokenizeOptions tokenize;
  SimulateOptions simulate;
  FleetOptions fleet;
  const CLI::App* simulate_command = AddSimulate(app, &simulate, &fleet);
  std::vector<const CLI::App*> computing = {AddTrain(app, &train), AddEvaluate(app, &evaluate),
                                            AddGenerate(app, &generate),
                                            AddExport(app, &export_options)};
  const CLI::App* tokenize_command = AddTokenize(app, &tokenize);
  PlanOptions plan;
  const CLI::App* plan_command = AddPlan(app, &plan);
  ReportOptions report;
  const CLI::App* report_command = AddReport(app, &report);
  ProbeOptions probe;
  computing.push_back(AddProbe(app, &probe));
  JoinOptions join;
  join.worker_program = run.worker_program;
  join.compute_program = InLib("swarmctl-compute");
  const CLI::App* join_command = AddJoin(app, &join);
  TokenOptions token;
  JobTokenOptions job_token;
  const TokenCommands token_commands = AddToken(app, &token, &job_token);
  TopOptions top;
  UiOptions ui;
  DrainOptions drain;
  const CLI::App* top_command = AddTop(app, &top);
  const CLI::App* ui_command = AddUi(app, &ui);
  const CLI::App* drain_command = AddDrain(app, &drain);
  SatelliteOptions satellite;
  const SatelliteCommands satellite_commands = AddSatellite(app, &satellite);
  const CompletionCommands completion_commands = AddCompletion(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version are no errors; everything else is wrong usage.
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk)
                                : static_cast<int>(ExitCode::kBadUsage);
  }
  if (report_command->count("--no-sample") == 0) computing.push_back(report_command);
  for (const CLI::App* command : computing) {
    if (!command->parsed()) continue;
    const Status status = HandOver("swarmctl-compute", argv);
    std::cerr << status.message() << "\n";
    return static_cast<int>(ExitCodeOf(status));
  }
  for (const auto& [shell, command] : completion_commands) {
    if (!command->parsed()) continue;
    CompletedCommand program = swarm::Describe(app);
    program.name = "swarmctl";  // kubectl completes its plugins in a way of its own
    std::cout << CompletionScript(shell, program);
  }
  // `run` prints what matters to its user; arrivals and departures in the log would be noise.
  const bool runs = run_command->parsed() || profile_command->parsed() || join_command->parsed();
  StartLogging("swarmctl", runs ? "error" : "warn");
  ExitCode code = ExitCode::kOk;
  if (validate_command->parsed()) code = RunValidate(validate, std::cout, std::cerr);
  if (run_command->parsed()) code = RunJob(run, stdout, stderr);
  if (profile_command->parsed()) code = ProfileJob(profile, stdout, stderr);
  if (join_command->parsed()) code = JoinRun(join, stdout, stderr);
  if (IsRun(token.out) && job_token.pool.empty()) {
    if (token_commands.create->parsed()) code = CreateToken(token, std::cout, std::cerr);
    if (token_commands.list->parsed()) code = ListTokens(token, std::cout, std::cerr);
    if (token_commands.revoke->parsed()) code = RevokeToken(token, std::cout, std::cerr);
  } else {
    job_token.job = token.out.string();
    job_token.terms = token.terms;
    job_token.name = token.name;
    job_token.json = token.json;
    if (token_commands.create->parsed()) code = CreateJobToken(job_token, stdout, stderr);
    if (token_commands.list->parsed()) code = ListJobTokens(job_token, stdout, stderr);
    if (token_commands.revoke->parsed()) code = RevokeJobToken(job_token, stdout, stderr);
  }
  if (tokenize_command->parsed()) code = TokenizeData(tokenize, stdout, stderr);
  if (top_command->parsed()) code = ShowTop(top, stdout, stderr);
  if (ui_command->parsed()) code = ShowPage(ui, stdout, stderr);
  if (drain_command->parsed()) code = DrainWorkers(drain, stdout, stderr);
  if (satellite_commands.list->parsed()) code = ListSatellites(satellite, stdout, stderr);
  if (satellite_commands.token->parsed()) code = CreateSatelliteToken(satellite, stdout, stderr);
  if (satellite_commands.revoke->parsed()) code = RevokeSatellite(satellite, stdout, stderr);
  if (plan_command->parsed()) code = PlanJob(plan, std::cout, std::cerr);
  if (report_command->parsed()) code = ReportRuns(report, std::cout, std::cerr);
  if (simulate_command->parsed() && fleet.fleet.empty()) {
    code = SimulateTrace(simulate, std::cout, std::cerr);
  } else if (simulate_command->parsed()) {
    fleet.seed = simulate.seed;
    fleet.json = simulate.json;
    code = RunFleet(fleet, std::cout, std::cerr);
  }
  return static_cast<int>(code);
}

}  // namespace
}  // namespace swarm::ctl

int main(int argc, char** argv) {
  swarm::AskForShortSpins();  // on behalf of the programs that it starts
  swarm::ExitWith(swarm::ctl::Main(argc, argv));
}
