// The signals that ask a program to end, as something to wait for.
#pragma once

#include <csignal>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <stop_token>
#include <thread>

namespace swarm {

/// While one exists, the given signals do not end the process: they are blocked, and a thread of
/// this object takes and counts them. Construct it before any other thread, because a thread
/// inherits what is blocked. At most one at a time. Thread-safe.
///
/// The destructor unblocks the signals for the calling thread. A program that replaces itself by
/// exec keeps the object, so that a signal that arrives meanwhile waits for the next image.
class Signals {
 public:
  /// Calls a function for each signal for as long as it lives, also for the signals that came
  /// before. Calls come from the thread of Signals, and from the constructor for earlier signals.
  /// The destructor waits for a call to end. At most one at a time.
  class Listener {
   public:
    Listener(Signals& signals, std::function<void()> on_signal);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    Signals& signals_;
  };

  explicit Signals(std::initializer_list<int> numbers);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Readable when a signal has come since the last call of count().
  int fd() const { return news_; }
  /// Signals so far.
  int count();
  /// Blocks until a signal has come, and returns the number of the last one.
  int Wait() const;
  /// Stop is requested by the first signal.
  std::stop_token token() const { return first_.get_token(); }

 private:
  void TakeAll();
  void OnSignal(int number);

  sigset_t blocked_{};
  int signals_ = -1;  // descriptors: the signals themselves,
  int news_ = -1;     // readable after one has come,
  int end_ = -1;      // readable at the end of this object
  std::stop_source first_;
  mutable std::mutex mutex_;
  int count_ = 0;                    // guarded
  int last_ = 0;                     // guarded
  std::function<void()> on_signal_;  // guarded
  std::thread thread_;
};

}  // namespace swarm
