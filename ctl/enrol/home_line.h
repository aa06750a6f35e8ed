// Calls home in the background, for `swarmctl join`.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/loop.h"
#include "worker/enrol/service/client.h"
#include "worker/enrol/token.h"

namespace swarm::ctl {

/// One call at a time. Used from one thread.
class HomeLine {
 public:
  explicit HomeLine(enrol::Client client) : client_(std::move(client)) {}

  struct Refreshed {
    Result<enrol::RefreshReply> reply;
    std::string key;  ///< of the certificate that was asked for; empty: none was
  };
  struct Enrolled {
    Result<enrol::EnrolReply> reply;
    std::string key;  ///< of its certificate
  };
  using Answer = std::variant<Refreshed, Enrolled>;

  /// With `renew`, asks for the next certificate, of a new key. TakeAnswer gives the answer.
  void Refresh(bool renew);
  /// Asks for a certificate with the token, of a new key, as a machine that comes for the first
  /// time. TakeAnswer gives the answer.
  void Enrol(const enrol::JoinToken& token);
  bool asking() const { return asking_; }
  std::optional<Answer> TakeAnswer();

 private:
  void Post(std::function<Answer()> ask);

  enrol::Client client_;  // of the loop
  std::mutex mutex_;
  std::optional<Answer> answer_;  // guarded
  std::atomic<bool> asking_ = false;
  Loop loop_{"home"};
};

}  // namespace swarm::ctl
