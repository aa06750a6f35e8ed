// Which version of SwarmJob a program is, for --version and user agents.
#pragma once

#include <string>

namespace swarm {

/// The version of the project (CMakeLists.txt) and, if the source tree is a checkout, its commit:
/// "0.1.0 (1e603f5)", with "-dirty" behind the commit if files differ from it, else "0.1.0".
std::string Version();

}  // namespace swarm
