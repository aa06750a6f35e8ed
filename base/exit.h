// The end of a program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace swarm {

/// Exit codes of swarm-worker. The last line of its log gives the reason. A worker that SIGTERM has
/// told to leave, and that has left, ends by that signal.
struct WorkerExit {
  static constexpr int kOk = 0;                  ///< trainer: job complete; worker: told to end
  static constexpr int kFailed = 1;              ///< another attempt or machine may succeed
  static constexpr int kBadUsage = 2;            ///< flags, manifest, model or data are wrong
  static constexpr int kNothingToResume = 3;     ///< trainer: stopped before the first checkpoint
  static constexpr int kStorageRefused = 4;      ///< no right to read or write there
  static constexpr int kStopped = 5;             ///< trainer: stopped early, and can be resumed
  static constexpr int kOutOfMemory = 6;         ///< of the device, or of the machine
  static constexpr int kSuperseded = 7;          ///< trainer: a later trainer has taken over
  static constexpr int kNoTrainer = 8;           ///< worker: its patience with no trainer is over
  static constexpr int kStorageUnavailable = 9;  ///< the storage did not answer for too long
  static constexpr int kWasStopped = 10;         ///< trainer: the next one must take over
};

/// Flushes standard output and ends the process without the destructors of globals. gRPC's threads
/// cannot be joined, and they log and read OpenSSL's state until the process has ended: a
/// destructor would race with them.
[[noreturn]] inline void ExitWith(int code) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace swarm
