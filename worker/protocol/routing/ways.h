// Draws routes that follow shares (docs/protocol.md, rule 29): from each place the next ones in the
// proportions of the shares, by smooth weighted round robin, and in a place the worker that its
// wiring (wiring.h) picks. Deterministic. Pure.
//
// A draw costs O(log n) of the workers for each neighbour (mesh/mesh.h), and a step for each share;
// an optimal flow has fewer shares than twice the places.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "worker/protocol/routing/flow/flow.h"
#include "worker/protocol/routing/mesh/mesh.h"
#include "worker/protocol/routing/wiring.h"

namespace swarm::protocol {

class Ways {
 public:
  using Places = std::map<WorkerId, Place>;
  using Predicate = std::function<bool(const WorkerId& before, const WorkerId& worker)>;

  Ways() = default;
  /// `stages`: the members of each stage, with their measurements and whether they are open. A
  /// worker whose place has no share gets no microbatch here.
  Ways(const Shares& shares, const Places& places, const std::vector<Wiring>& stages);

  /// There is no way through all stages, however open its workers are.
  bool empty() const { return stages_.empty(); }

  /// Draws one open worker for each stage, and charges the way. In a place it prefers workers for
  /// which `reaches` is true with the worker before, and among these its neighbours in `mesh`.
  /// Nothing if no way with a share is open as a whole: its workers are the ones to wait for.
  std::optional<std::vector<WorkerId>> Draw(const Predicate& reaches, const Mesh& mesh);

  /// As in Wiring.
  void SetOpen(std::uint64_t stage, const WorkerId& worker, bool open);
  void Measure(std::uint64_t stage, const WorkerId& worker, double seconds);

 private:
  struct Way {
    std::size_t to = 0;  ///< of the next stage's places
    double step = 0;     ///< how often it is due: the inverse of its part of what leaves
    double due = 0;
  };
  struct Junction {
    std::vector<Way> ways;
    double clock = 0;  // no way saves up more than one step
  };
  struct Stop {
    Wiring workers;
    Junction out;
    bool passable = false;  // from here to the end; of the last look
  };
  using Stops = std::vector<Stop>;

  /// Finds out which stops are passable, each by itself if it is `open`. Whether there is a way.
  bool Look(const std::function<bool(const Stop&)>& open);
  static bool LeadsOn(const Junction& from, const Stops& to);
  static Stop& Take(Junction& from, Stops& to);
  Wiring* Find(std::uint64_t stage, const WorkerId& worker);

  Junction source_;
  std::vector<Stops> stages_;
  std::vector<std::map<WorkerId, std::size_t>> where_;  // [stage]: the stop of each worker
};

}  // namespace swarm::protocol
