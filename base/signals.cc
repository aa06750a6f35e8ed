#include "base/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace swarm {
namespace {

void Raise(int event) {
  const std::uint64_t one = 1;
  SWARM_CHECK(::write(event, &one, sizeof one) == sizeof one, "an eventfd cannot be written");
}

/// Until one of the descriptors is readable.
template <std::size_t kCount>
void Poll(pollfd (&waited)[kCount]) {
  while (::poll(waited, kCount, -1) < 0) SWARM_CHECK(errno == EINTR, "poll has failed");
}

}  // namespace

Signals::Listener::Listener(Signals& signals, std::function<void()> on_signal) : signals_(signals) {
  const std::lock_guard lock(signals.mutex_);
  signals.on_signal_ = std::move(on_signal);
  for (int i = 0; i < signals.count_; ++i) signals.on_signal_();
}

Signals::Listener::~Listener() {
  const std::lock_guard lock(signals_.mutex_);
  signals_.on_signal_ = nullptr;
}

Signals::Signals(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  news_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  end_ = ::eventfd(0, EFD_CLOEXEC);
  SWARM_CHECK(signals_ >= 0 && news_ >= 0 && end_ >= 0, "no descriptors for signals");
  blocked_ = set;
  thread_ = std::thread([this] { TakeAll(); });
}

Signals::~Signals() {
  Raise(end_);
  thread_.join();
  pthread_sigmask(SIG_UNBLOCK, &blocked_, nullptr);
  for (const int descriptor : {signals_, news_, end_}) ::close(descriptor);
}

void Signals::TakeAll() {
  while (true) {
    pollfd waited[] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
    Poll(waited);
    if (waited[1].revents != 0) return;
    signalfd_siginfo taken{};
    if (::read(signals_, &taken, sizeof taken) == sizeof taken) {
      OnSignal(static_cast<int>(taken.ssi_signo));
    }
  }
}

void Signals::OnSignal(int number) {
  first_.request_stop();
  const std::lock_guard lock(mutex_);
  ++count_;
  last_ = number;
  if (on_signal_) on_signal_();
  Raise(news_);
}

int Signals::count() {
  std::uint64_t news = 0;
  [[maybe_unused]] const ssize_t got = ::read(news_, &news, sizeof news);
  const std::lock_guard lock(mutex_);
  return count_;
}

int Signals::Wait() const {
  pollfd waited[] = {{news_, POLLIN, 0}};
  Poll(waited);
  const std::lock_guard lock(mutex_);
  return last_;
}

}  // namespace swarm
