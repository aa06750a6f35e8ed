#include "operator/controller/trainer_dialer.h"

#include "base/log.h"
#include "worker/trainer/observer/dialled_observer.h"

namespace swarm::controller {
namespace {

/// A trainer that ended rarely returns at the same address: its successor has another one, which is
/// dialled at once. Each try costs a few milliseconds.
constexpr Duration kRedialMax = std::chrono::seconds(30);

/// A trainer runs the image of its user, and may send anything. These bound what all of them can
/// make the operator hold. A worker takes 100 bytes of a status.
constexpr std::size_t kStatusBytesMax = 64u << 20;
/// Large messages that are decoded at the same time. Hostile ones take 45 times as much.
constexpr std::size_t kDecodedBytesMax = trainer::kObservedBytesMax;

class DialledTrainer final : public TrainerConnection {
 public:
  explicit DialledTrainer(std::unique_ptr<trainer::Observer> observer)
      : observer_(std::move(observer)) {}

  std::optional<protocol::JobStatus> Take() override {
    while (const auto reply = observer_->TakeReply()) {
      if (!reply->why.empty()) LOG_WARN("a trainer rejected an order: {}", reply->why);
    }
    return observer_->Take();
  }
  Status Send(protocol::Direct direct) override { return observer_->Send(std::move(direct)); }

 private:
  const std::unique_ptr<trainer::Observer> observer_;
};

}  // namespace

TrainerLinks::Connect MakeTrainerDialer(const std::string& self) {
  return [self, loop = std::make_shared<Loop>("trainers"),
          memory = std::make_shared<trainer::StatusMemory>(kStatusBytesMax),
          buffers = std::make_shared<net::ReceiveBuffers>(kDecodedBytesMax, 0)](
             const TrainerAddress& address) -> Result<std::unique_ptr<TrainerConnection>> {
    ASSIGN_OR_RETURN(auto observer,
                     trainer::DialObserver({.self = protocol::WorkerId("operator/" + self),
                                            .dial = address.dial,
                                            .job_uid = address.job_uid,
                                            .ca = address.ca,
                                            .certificate = address.self.certificate,
                                            .key = address.self.key,
                                            .redial_max = kRedialMax,
                                            .loop = loop,
                                            .memory = memory,
                                            .receive_buffers = buffers}));
    return std::unique_ptr<TrainerConnection>(
        std::make_unique<DialledTrainer>(std::move(observer)));
  };
}

}  // namespace swarm::controller
