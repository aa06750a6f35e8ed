// The end of a program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace swarm {

/// How swarm-worker ends, for whoever has started it; the last line of its log says why. One that
/// was told to leave by SIGTERM, and has, ends by that signal.
struct WorkerExit {
  static constexpr int kOk = 0;        ///< trainer: trained to the end; worker: it was dismissed
  static constexpr int kFailed = 1;    ///< another try, or another machine, may do better
  static constexpr int kBadUsage = 2;  ///< flags, manifest, model or data are wrong
  static constexpr int kNothingToResume = 3;  ///< trainer: stopped before the first checkpoint
  static constexpr int kStorageRefused = 4;   ///< no right to read or write there
  static constexpr int kStopped = 5;          ///< trainer: stopped early, and can be resumed
  static constexpr int kOutOfMemory = 6;      ///< of the device, or of the machine
  static constexpr int kSuperseded = 7;       ///< trainer: there is a later one
  static constexpr int kNoTrainer = 8;        ///< worker: waited for one as long as it may
};

/// Ends the process with what was printed, but without the destructors of globals: gRPC keeps
/// threads that nobody can wait for, and they log, and read OpenSSL's state, until the process is
/// gone.
[[noreturn]] inline void ExitWith(int code) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace swarm
