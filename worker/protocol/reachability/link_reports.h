// What a worker tells the trainer of its connections to others (docs/protocol.md, rule 29): by
// places, and only what is news. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

/// Where routes see a member of a roster of that size: by itself, or in a large swarm in its
/// region.
std::string PlaceOf(const Member& member, std::size_t members);
/// Up to this size, every member is a place of its own.
inline constexpr std::size_t kOwnPlacesUpTo = 64;

class LinkReports {
 public:
  void OnRoster(const Roster& roster);

  /// `seen`: the connections to peers, as they are now. Returns what to send to the trainer: places
  /// whose mean has changed by more than a fifth since their last report, and from time to time all
  /// of them, since the trainer may be another one. Call it about once a second.
  std::optional<Links> OnLook(const std::map<WorkerId, Link>& seen, Timepoint now);

  static constexpr Duration kInterval = std::chrono::seconds(2);  ///< between reports, at least
  static constexpr Duration kRepeat = std::chrono::seconds(30);   ///< of everything

 private:
  std::map<WorkerId, std::string> places_;  // of the members
  std::map<std::string, Link> reported_;
  Timepoint next_{}, repeat_{};
};

}  // namespace swarm::protocol
