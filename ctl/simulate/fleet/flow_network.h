// The network as flows of bytes, without packets. Two machines have one connection in each
// direction, and it sends one flow after the other, as a stream of messages does. The first flow of
// a connection gets, at each end, a share of that machine's line by its weight among the flows
// there (equal shares, as of TCP connections), and the smaller of the two, but no more than the
// limit of the connection. What a flow leaves unused at one end is not given to others, so the
// network is never better than it would be with max-min fairness.
//
// A flow that begins or ends changes the rates of those that share a line with it, and of no
// others: an event costs O(f log n) with f connections that send at its two ends.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "ctl/simulate/fleet/event_queue.h"

namespace swarm::ctl {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

class FlowNetwork {
 public:
  using Node = std::size_t;
  /// Names one flow, never another.
  struct FlowId {
    std::size_t slot = 0;
    std::uint64_t number = 0;  ///< 0: none
  };

  struct Flow {
    Node from = 0, to = 0;  ///< one node: what it exchanges with many others at once
    double bytes = 0;
    double weight = 1;                ///< connections that the flow stands for
    double rate_max = kUnlimited;     ///< bytes a second, of its own connection
    /// All bytes have left the wire, on which the first was so many seconds ago.
    std::function<void(double seconds)> done = {};
  };

  explicit FlowNetwork(EventQueue* queue) : queue_(*queue) {}

  /// A machine with these rates, in bytes a second.
  Node Add(double upload, double download);
  FlowId Start(Flow flow);
  /// Ends a flow that is not done; nothing, if it is over.
  void Cancel(FlowId id);
  /// Ends all flows from and to the machine.
  void Remove(Node node);
  /// Bytes that are still to come; 0 if the flow is over.
  double Left(FlowId id);

  /// Those that are not over.
  std::size_t flows() const { return flows_; }

 private:
  struct Line {
    double rate = kUnlimited;
    double weight = 0;               ///< of its flows
    std::vector<std::size_t> flows;  ///< slots
  };
  struct Ends {
    Line up, down;
    std::set<Node> peers;  ///< with which there is a connection
  };
  struct Slot {
    Flow flow;
    std::uint64_t number = 0;  ///< 0: free
    double left = 0;
    double rate = 0;
    bool waits = false;                  ///< behind another flow of its connection
    Timepoint began;                     ///< to send
    Timepoint settled;                   ///< `left` is of this time
    Timepoint wake;                      ///< of the next event of the flow
    std::size_t up_at = 0, down_at = 0;  ///< its places in the lists of its lines
  };

  using Connection = std::pair<Node, Node>;

  bool Lives(FlowId id) const { return slots_[id.slot].number == id.number && id.number != 0; }
  void Attach(std::size_t slot);
  /// The connection sends the next flow that waits for it, or is not there any more.
  void SendNext(const Connection& connection);
  void Settle(Slot& slot) const;
  /// The rates of all flows of the lines of these two ends.
  void Share(Node from, Node to);
  void Rerate(std::size_t slot);
  void Wake(FlowId id);
  void Detach(std::size_t slot);
  /// When the last byte of the flow leaves the wire if nothing changes.
  Timepoint EndOf(const Slot& slot) const;

  EventQueue& queue_;
  std::vector<Ends> ends_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
  /// The flows that wait, of each connection that sends one.
  std::map<Connection, std::deque<FlowId>> waiting_;
  std::uint64_t numbers_ = 0;
  std::size_t flows_ = 0;
};

}  // namespace swarm::ctl
