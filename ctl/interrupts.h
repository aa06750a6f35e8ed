// Ctrl-C and its relatives as something one can wait for.
#pragma once

namespace swarm::ctl {

/// While one exists, SIGINT, SIGTERM and SIGHUP are counted instead of ending the process. At most
/// one at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Readable when a signal has come since the last call of count().
  int fd() const;
  /// Signals so far.
  int count();
};

}  // namespace swarm::ctl
