// The commands that repeat a run, and sample from its model. Pure.
#pragma once

#include <string>
#include <vector>

#include "ctl/report/run_record.h"

namespace swarm::ctl {

struct Again {
  std::vector<std::string> commands;  ///< for a shell
  std::string note;                   ///< what they cannot repeat
};

Again CommandsOf(const RunRecord& record);

}  // namespace swarm::ctl
