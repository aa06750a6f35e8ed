// swarmctl: what a user of SwarmJob runs. The only unit that knows CLI11.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/log.h"
#include "ctl/exit_codes.h"
#include "ctl/observer_source.h"
#include "ctl/run_command.h"
#include "ctl/validate_command.h"

namespace swarm::ctl {
namespace {

void AddManifest(CLI::App* command, std::string* manifest, std::vector<std::string>* overrides) {
  command
      ->add_option("-f,--filename,manifest", *manifest,
                   "The SwarmJob, in YAML; - is standard input")
      ->required();
  command
      ->add_option("--set", *overrides,
                   "Override a field, as in --set training.maxSteps=100; may be repeated")
      ->expected(1)
      ->take_all();
}

CLI::App* AddValidate(CLI::App& app, ValidateOptions* options) {
  CLI::App* command = app.add_subcommand("validate", "Judge a manifest; start nothing");
  AddManifest(command, &options->manifest, &options->overrides);
  command->add_flag("--json", options->json,
                    "Print the job with all its defaults, or the errors, as JSON");
  return command;
}

CLI::App* AddRun(CLI::App& app, RunOptions* options) {
  CLI::App* command = app.add_subcommand("run", "Run a job on this machine");
  AddManifest(command, &options->manifest, &options->overrides);
  command->add_option("--out", options->out, "Folder of the run (default: out/NAME)");
  command->add_option("--workers", options->workers,
                      "Workers in all (5), or by stage (0=2,1=3); default: spec.workers.replicas");
  command->add_option("--threads-per-worker", options->threads_per_worker,
                      "Compute threads of a worker (default: the cores, shared out)");
  command->add_flag("--resume", options->resume, "Go on from the last checkpoint in --out");
  command->add_flag("--json", options->json,
                    "Print a JSON object for each status, and one at the end");
  command->add_flag("--plaintext", options->plaintext,
                    "No TLS between the programs: for experiments");
  command->add_option("--worker-program", options->worker_program,
                      "The swarm-worker to run (default: the one beside swarmctl)");
  return command;
}

std::filesystem::path BesideThisProgram(const char* name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path(name) : self.parent_path() / name;
}

int Main(int argc, char** argv) {
  StartLogging("swarmctl", "error");  // what matters to a user is printed, not logged
  CLI::App app("Train a large model on machines that come and go");
  app.name("swarmctl");
  app.require_subcommand(1);
  app.footer(std::string(kExitCodeTable));
  ValidateOptions validate;
  RunOptions run;
  run.worker_program = BesideThisProgram("swarm-worker");
  run.status_source = ObserveTrainer;
  const CLI::App* validate_command = AddValidate(app, &validate);
  const CLI::App* run_command = AddRun(app, &run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Asking for help is no error; everything else is wrong usage.
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk)
                                : static_cast<int>(ExitCode::kBadUsage);
  }
  ExitCode code = ExitCode::kOk;
  if (validate_command->parsed()) code = RunValidate(validate, std::cout, std::cerr);
  if (run_command->parsed()) code = RunJob(run, stdout, stderr);
  return static_cast<int>(code);
}

}  // namespace
}  // namespace swarm::ctl

int main(int argc, char** argv) { return swarm::ctl::Main(argc, argv); }
