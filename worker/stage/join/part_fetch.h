// Fetches parts of an update from the workers that hold them (docs/protocol.md, rule 31): moments,
// or the weights that a step has made. No digest is known beforehand: the holders report theirs to
// the trainer, and no step is committed before these agree.
//
// Not thread-safe; has no thread, clock or socket. Driven as StateFetch is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/protocol/fetcher.h"
#include "worker/protocol/messages/data.h"
#include "worker/stage/join/piece_fetch.h"

namespace swarm::stage {

class PartFetch {
 public:
  struct Part {
    std::uint64_t part = 0;
    std::uint64_t bytes = 0;
    std::vector<protocol::WorkerId> holders;  ///< one or two
  };
  /// By part; empty where nothing was asked for. kUnavailable: no holder sends one of them.
  using Done = std::function<void(Result<std::vector<Bytes>>)>;

  /// `what` names the rest of what is fetched; its `piece` and `part` are ignored.
  PartFetch(const protocol::Fetch& what, const std::vector<Part>& parts, SendFetch send, Done done);

  void OnTick(Timepoint now);
  /// False: `fetched` does not belong to this fetch.
  bool OnFetched(const protocol::WorkerId& from, const protocol::Fetched& fetched,
                 const Bytes& payload, Timepoint now);
  void OnDonorLost(const protocol::WorkerId& donor, Timepoint now);

 private:
  struct Running {
    Part part;
    protocol::Fetcher fetcher;
    std::shared_ptr<std::byte[]> memory;
  };
  void Conclude();

  const protocol::Fetch what_;
  const SendFetch send_;
  std::vector<Running> running_;
  Done done_;
};

}  // namespace swarm::stage
