#include "worker/processes/program.h"

#include <cstring>

namespace swarm {

std::string DescribeEnd(const ObservedProgram& program) {
  if (program.exit_signal == 0) return "ended with exit code " + std::to_string(program.exit_code);
  return "was ended by signal " + std::to_string(program.exit_signal) + " (" +
         ::strsignal(program.exit_signal) + ")";
}

}  // namespace swarm
