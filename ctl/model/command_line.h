// The commands that compute, as the command line has them. Needs no libtorch itself: swarmctl
// declares the commands by these functions, and so does swarmctl-compute, which runs them.
#pragma once

#include "ctl/model/evaluate_command.h"
#include "ctl/model/export_command.h"
#include "ctl/model/generate_command.h"
#include "ctl/model/probe_command.h"
#include "ctl/model/train_command.h"
#include "ctl/report/report_command.h"

namespace CLI {
class App;
}

namespace swarm::ctl {

/// Each adds a command to `app`, which parses into `options`.
CLI::App* AddTrain(CLI::App& app, TrainOptions* options);
CLI::App* AddEvaluate(CLI::App& app, EvaluateOptions* options);
CLI::App* AddGenerate(CLI::App& app, GenerateOptions* options);
CLI::App* AddExport(CLI::App& app, ExportOptions* options);
CLI::App* AddProbe(CLI::App& app, ProbeOptions* options);
/// It computes to write a sample of text, so with --no-sample it does not: that takes away
/// `options->sample`.
CLI::App* AddReport(CLI::App& app, ReportOptions* options);

}  // namespace swarm::ctl
