// The end of a program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace swarm {

/// Ends the process with what was printed, but without the destructors of globals: gRPC keeps
/// threads that nobody can wait for, and they log, and read OpenSSL's state, until the process is
/// gone.
[[noreturn]] inline void ExitWith(int code) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace swarm
