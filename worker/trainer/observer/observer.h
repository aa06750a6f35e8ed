// Talks to a trainer without being a worker. swarmctl's view asks for the job's status; the
// operator also orders workers to leave or to move.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/loop.h"
#include "worker/net/endpoint.h"
#include "worker/trainer/observer/status_memory.h"

namespace swarm::trainer {

/// The id under which workers and observers know the trainer.
inline const protocol::WorkerId kTrainerId{"trainer"};

/// The largest message that an observer accepts, by its header: a status of as many workers as a
/// job can have takes half of it. No message to an observer has a payload.
inline constexpr std::size_t kObservedBytesMax = 2u << 20;
/// The most of a text for people that an observer keeps.
inline constexpr std::size_t kObservedTextBytesMax = 4u << 10;

/// Thread-safe. Asks every `interval` while it lives.
///
/// A trainer answers each question and each order once, and says once unasked how the job ended.
/// One that sends more is another program: the observer hangs up, and calls again after kHangUp.
class Observer final : public net::EndpointHandler {
 public:
  /// The id of the endpoint determines the rights of this observer: "observer", alone or followed
  /// by '/' and anything, asks; "operator", likewise, also directs. The endpoint need not listen.
  /// Several observers may share a loop; null: one of its own. They may share the memory for
  /// statuses, where one that finds no room is dropped as if it had not come; null: no bound.
  static constexpr Duration kHangUp = std::chrono::seconds(30);

  static Result<std::unique_ptr<Observer>> Start(const std::vector<protocol::Address>& trainer,
                                                 Duration interval,
                                                 const net::MakeEndpoint& make_endpoint,
                                                 std::shared_ptr<Loop> loop = nullptr,
                                                 std::shared_ptr<StatusMemory> memory = nullptr);
  ~Observer() override;

  /// The newest answer, unless it was taken already.
  std::optional<protocol::JobStatus> Take();

  /// Sends an order; TakeReply gives the trainer's reply. An order is not sent again when a
  /// connection breaks or the trainer is replaced. Orders state the wanted result, so repeat them.
  /// Errors: kUnavailable (there is no connection now), those of Endpoint::Send.
  Status Send(protocol::Direct direct);
  /// The oldest reply that was not taken yet; the newest 64 are kept.
  std::optional<protocol::DirectReply> TakeReply();

  bool connected() const;
  /// When the last message of the trainer came.
  std::optional<Timepoint> heard() const;

  void OnMessage(const net::WorkerId& from, net::Lane lane, net::Envelope envelope) override;
  void OnPeerUp(const net::WorkerId& peer) override;
  void OnPeerDown(const net::WorkerId& peer, const Status& why) override;

 private:
  Observer();
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace swarm::trainer
