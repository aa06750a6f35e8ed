// Messages and their parts as generated protobuf messages. Internal to this folder.
#pragma once

#include <vector>

#include "swarmjob/v1/frame.pb.h"
#include "worker/net/wire/messages.h"
#include "worker/net/wire/utf8.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {

namespace pb = swarmjob::v1;

/// Writes fields and remembers the first list that was too long. encode_X.cc has the messages
/// of X.proto.
class Encoder {
 public:
  const Status& status() const { return status_; }

#define SWARM_PUT_MESSAGE(Name, field) void Put(const protocol::Name& from, pb::Name* to);
#define SWARM_PUT_PART(Name) void Put(const protocol::Name& from, pb::Name* to);
  SWARM_WIRE_MESSAGES(SWARM_PUT_MESSAGE)
  SWARM_WIRE_PARTS(SWARM_PUT_PART)
#undef SWARM_PUT_MESSAGE
#undef SWARM_PUT_PART
  void Put(const Digest& from, pb::Digest* to);
  void Put(const protocol::WorkerId& from, std::string* to) { *to = ToUtf8(from.value); }

 private:
  /// Puts each element of a list.
  template <typename From, typename To>
  void PutAll(const std::vector<From>& from, int max, const char* what, To* to) {
    if (!WithinCap(from.size(), max, what)) return;
    to->Reserve(static_cast<int>(from.size()));
    for (const From& element : from) Put(element, to->Add());
  }

  /// The four fields that name a reduce.
  template <typename From, typename To>
  void PutReduceName(const From& from, To* to) {
    to->set_generation(from.generation.value);
    to->set_step(from.step.value);
    to->set_group(from.group.value);
    Put(from.k, to->mutable_k());
  }

  bool WithinCap(std::size_t size, int max, const char* what);

  Status status_;
};

}  // namespace swarm::net
