// swarmctl-compute, the part of swarmctl that needs libtorch. swarmctl goes on as this program when
// a command computes, so that all others start without libtorch, which takes half a second.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>

#include "base/exit.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/version.h"
#include "ctl/exit_codes.h"
#include "ctl/model/command_line.h"

namespace swarm::ctl {
namespace {

/// Of the length that a reader looks at.
Result<std::string> SampleOf(const std::filesystem::path& folder, const std::string& prompt) {
  return SampleText({.model = folder.string(), .prompt = prompt, .tokens = 160});
}

int Main(int argc, char** argv) {
  CLI::App app("The part of swarmctl that computes; swarmctl runs it");
  app.name("swarmctl");
  app.set_version_flag("--version", Version());
  app.require_subcommand(1);
  TrainOptions train;
  train.started_by = {Version(), {argv, argv + argc}};
  EvaluateOptions evaluate;
  GenerateOptions generate;
  ExportOptions export_options;
  ReportOptions report;
  report.sample = SampleOf;
  ProbeOptions probe;
  const CLI::App* train_command = AddTrain(app, &train);
  const CLI::App* evaluate_command = AddEvaluate(app, &evaluate);
  const CLI::App* generate_command = AddGenerate(app, &generate);
  const CLI::App* export_command = AddExport(app, &export_options);
  const CLI::App* report_command = AddReport(app, &report);
  const CLI::App* probe_command = AddProbe(app, &probe);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk)
                                : static_cast<int>(ExitCode::kBadUsage);
  }
  StartLogging("swarmctl", "warn");
  ExitCode code = ExitCode::kOk;
  if (train_command->parsed()) code = TrainJob(train, stdout, stderr);
  if (evaluate_command->parsed()) code = EvaluateModel(evaluate, stdout, stderr);
  if (generate_command->parsed()) code = GenerateText(generate, stdout, stderr);
  if (export_command->parsed()) code = ExportModel(export_options, stdout, stderr);
  if (report_command->parsed()) code = ReportRuns(report, std::cout, std::cerr);
  if (probe_command->parsed()) code = ProbeMachine(probe, std::cout, std::cerr);
  return static_cast<int>(code);
}

}  // namespace
}  // namespace swarm::ctl

int main(int argc, char** argv) {
  swarm::RunWithShortSpins(argv);
  swarm::ExitWith(swarm::ctl::Main(argc, argv));
}
