#include "ctl/run/observer_source.h"

#include <unistd.h>

#include "ctl/run/steps_file.h"
#include "worker/net/grpc/grpc_endpoint.h"
#include "worker/trainer/observer/observer.h"

namespace swarm::ctl {
namespace {

constexpr Duration kInterval = std::chrono::milliseconds(250);

class ObserverSource final : public StatusSource {
 public:
  ObserverSource(const ObserverAccess& access, std::unique_ptr<trainer::Observer> observer)
      : steps_(access.steps_file, access.max_steps), observer_(std::move(observer)) {}

  std::optional<protocol::JobStatus> Poll() override {
    std::optional<protocol::JobStatus> heard = observer_->Take();
    if (heard) {
      newest_ = *heard;
      heard_at_ = Clock::now();
    }
    if (std::optional<protocol::JobStatus> step = steps_.Poll()) {
      step->stages = newest_.stages;
      step->traffic = newest_.traffic;
      step->validation_loss = newest_.validation_loss;
      if (newest_.seconds_left > 0) step->seconds_left = newest_.seconds_left;
      shown_step_ = step->step;
      return step;
    }
    // Never ahead of the steps file, so that the user sees every step.
    if (heard && heard->step <= shown_step_) return heard;
    return std::nullopt;
  }

  std::optional<Timepoint> trainer_heard() const override { return heard_at_; }
  const protocol::JobStatus* trainer_said() const override {
    return heard_at_ ? &newest_ : nullptr;
  }

 private:
  StepsFile steps_;
  std::unique_ptr<trainer::Observer> observer_;
  protocol::JobStatus newest_;
  std::optional<Timepoint> heard_at_;
  protocol::Step shown_step_;
};

}  // namespace

Result<std::unique_ptr<StatusSource>> ObserveTrainer(const ObserverAccess& access) {
  net::GrpcOptions options{.self = protocol::WorkerId("observer/" + std::to_string(getpid())),
                           .listen = "127.0.0.1:0",
                           .job = access.job_uid,
                           .plaintext = !access.identity.has_value(),
                           .payload_bytes_max = 0,
                           .header_bytes_max = trainer::kObservedBytesMax};
  if (access.identity) {
    options.tls = net::TlsFiles{access.identity->ca.string(), access.identity->certificate.string(),
                                access.identity->key.string()};
  }
  ASSIGN_OR_RETURN(
      auto observer,
      trainer::Observer::Start(
          {{"cluster", access.trainer_address, ""}}, kInterval,
          [&](net::EndpointHandler* handler) -> Result<std::unique_ptr<net::Endpoint>> {
            ASSIGN_OR_RETURN(auto endpoint, net::GrpcEndpoint::Create(options, handler));
            return std::unique_ptr<net::Endpoint>(std::move(endpoint));
          }));
  return std::unique_ptr<StatusSource>(
      std::make_unique<ObserverSource>(access, std::move(observer)));
}

}  // namespace swarm::ctl
