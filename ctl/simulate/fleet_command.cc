#include "ctl/simulate/fleet_command.h"

#include <ctime>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/files.h"
#include "ctl/simulate/fleet/fleet_simulation.h"
#include "ctl/simulate/fleet_file.h"
#include "ctl/simulate/fleet_plot.h"
#include "ctl/simulate/fleet_report.h"

namespace swarm::ctl {
namespace {

double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

ExitCode RunFleet(const FleetOptions& options, std::ostream& out, std::ostream& err) {
  const auto fleet = ReadFleet(options.fleet);
  if (!fleet.ok()) {
    err << options.fleet << ":\n" << api::ToString(fleet.errors()) << "\n";
    return ExitCode::kBadUsage;
  }
  const FleetResult result = SimulateFleet(*fleet, options.seed, ProcessorSeconds);
  Status written;
  if (!options.plot.empty()) written = WriteFile(options.plot, PlotFleet(result));
  if (written.ok() && !options.events.empty()) {
    written = WriteFile(options.events, FleetEvents(result));
  }
  if (!written.ok()) {
    err << written.ToString() << "\n";
    return ExitCode::kFailed;
  }
  if (options.json) {
    out << FleetJson(result).dump(2) << "\n";
  } else {
    PrintFleetTable(result, out);
  }
  if (result.failure.empty()) return ExitCode::kOk;
  err << "the job failed after " << result.traffic_seconds << " s: " << result.failure << "\n";
  return ExitCode::kFailed;
}

}  // namespace swarm::ctl
