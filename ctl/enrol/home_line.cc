#include "ctl/enrol/home_line.h"

#include "base/identity/request.h"

namespace swarm::ctl {

void HomeLine::Post(std::function<Answer()> ask) {
  asking_ = true;
  loop_.Post([this, ask = std::move(ask)] {
    Answer answer = ask();
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
    asking_ = false;
  });
}

void HomeLine::Refresh(bool renew) {
  Post([this, renew]() -> Answer {
    if (!renew) return Refreshed{client_.Refresh(""), ""};
    auto asked = identity::MakeRequest("worker");
    if (!asked.ok()) return Refreshed{asked.status(), ""};
    auto reply = client_.Refresh(asked->request);
    if (reply.ok()) client_.SetIdentity({enrol::ForHome(*reply), asked->key});
    return Refreshed{std::move(reply), asked->key};
  });
}

void HomeLine::Enrol(const enrol::JoinToken& token) {
  Post([this, token]() -> Answer {
    auto asked = identity::MakeRequest("worker");
    if (!asked.ok()) return Enrolled{asked.status(), ""};
    // As nobody: home would refuse the connection of a certificate that has ended.
    enrol::Client nobody({.address = token.address, .fingerprint = token.fingerprint});
    auto reply = nobody.Enrol({token.id, token.secret, asked->request});
    if (reply.ok()) client_.SetIdentity({enrol::ForHome(*reply), asked->key});
    return Enrolled{std::move(reply), asked->key};
  });
}

std::optional<HomeLine::Answer> HomeLine::TakeAnswer() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answer_, std::nullopt);
}

}  // namespace swarm::ctl
