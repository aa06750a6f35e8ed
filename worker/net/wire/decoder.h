// Generated protobuf messages as messages and their parts. Internal to this folder.
#pragma once

#include <string>
#include <vector>

#include "swarmjob/v1/frame.pb.h"
#include "worker/net/wire/messages.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {

namespace pb = swarmjob::v1;

/// Reads fields and remembers the first error. decode_X.cc has the messages of X.proto.
class Decoder {
 public:
  const Status& status() const { return status_; }

#define SWARM_GET_MESSAGE(Name, field) void Get(const pb::Name& from, protocol::Name* to);
#define SWARM_GET_PART(Name) void Get(const pb::Name& from, protocol::Name* to);
  SWARM_WIRE_MESSAGES(SWARM_GET_MESSAGE)
  SWARM_WIRE_PARTS(SWARM_GET_PART)
#undef SWARM_GET_MESSAGE
#undef SWARM_GET_PART
  void Get(const pb::Digest& from, Digest* to);
  void Get(const std::string& from, protocol::WorkerId* to) { to->value = from; }

 private:
  template <typename From, typename To>
  void GetAll(const From& from, int max, const char* what, std::vector<To>* to) {
    if (!WithinCap(from.size(), max, what)) return;
    to->reserve(static_cast<std::size_t>(from.size()));
    for (const auto& element : from) Get(element, &to->emplace_back());
  }

  template <typename Enum>
  void GetEnum(int from, bool valid, const char* what, Enum* to) {
    if (!valid) {
      Refuse(std::string(what) + " has the unknown value " + std::to_string(from));
      return;
    }
    *to = static_cast<Enum>(from);
  }

  /// The four fields that name a reduce.
  template <typename From, typename To>
  void GetReduceName(const From& from, To* to) {
    to->generation = protocol::Generation(from.generation());
    to->step = protocol::Step(from.step());
    to->group = protocol::GroupIndex(from.group());
    Get(from.k(), &to->k);
  }

  void Refuse(std::string why);
  bool WithinCap(int size, int max, const char* what);

  Status status_;
};

}  // namespace swarm::net
