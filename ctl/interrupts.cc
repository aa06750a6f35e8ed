#include "ctl/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include "base/status.h"

namespace swarm::ctl {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
// A handler can reach nothing but globals.
std::atomic<int> signals_seen{0};
int wake_ends[2] = {-1, -1};
std::array<struct sigaction, kSignals.size()> earlier;

void OnSignal(int) {
  const int saved = errno;
  signals_seen.fetch_add(1);
  [[maybe_unused]] const ssize_t written = ::write(wake_ends[1], "x", 1);
  errno = saved;
}

}  // namespace

Interrupts::Interrupts() {
  SWARM_CHECK(wake_ends[0] < 0, "two Interrupts at a time");
  SWARM_CHECK(::pipe2(wake_ends, O_CLOEXEC | O_NONBLOCK) == 0, "no pipe");
  signals_seen = 0;
  struct sigaction action{};
  action.sa_handler = OnSignal;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &earlier[i]);
}

Interrupts::~Interrupts() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &earlier[i], nullptr);
  ::close(wake_ends[0]);
  ::close(wake_ends[1]);
  wake_ends[0] = wake_ends[1] = -1;
}

int Interrupts::fd() const { return wake_ends[0]; }

int Interrupts::count() {
  char drained[64];
  while (::read(wake_ends[0], drained, sizeof drained) > 0) {
  }
  return signals_seen.load();
}

}  // namespace swarm::ctl
