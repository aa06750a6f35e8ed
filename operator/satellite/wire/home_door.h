// Home's end: a service to which satellites dial, and through which home's requests to their API
// servers go.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/identity/pem.h"
#include "operator/satellite/wire/messages.h"
#include "worker/enrol/service/join.h"
#include "worker/enrol/service/prove.h"

namespace swarm::satellite {

struct HomeDoorOptions {
  std::string listen;          ///< host:port; port 0 takes a free one
  std::string authority;       ///< PEM; callers are sent it, and those with a certificate need one
                               ///< that it has signed
  identity::KeyPair identity;  ///< of home (identity::HomeUri)
  std::uint64_t leader_term = 0;
  enrol::Prove prove = nullptr;  ///< of pods in the satellites' clusters; null: there is none
  enrol::JoinDesk* machines = nullptr;  ///< lets machines join jobs; null: none may
};

class HomeDoor {
 public:
  /// Begins to serve. `reception` outlives the door.
  /// Errors: kUnavailable (the port is taken, or `listen` is not ours).
  static Result<std::unique_ptr<HomeDoor>> Start(const HomeDoorOptions& options,
                                                 Reception* reception);
  /// Calls the reception no more after it returns. The transports stay, without connections.
  ~HomeDoor();

  /// host:port, with the port that was taken.
  const std::string& address() const { return address_; }
  /// Tells all satellites, those that come later too, which jobs exist.
  void TellJobs(const std::set<std::string>& uids);
  /// Where the pods of this cluster prove which ones they are (host:port), by its satellite's word;
  /// empty: nowhere.
  std::string ProofHomeOf(const std::string& cluster) const;
  /// The clusters whose satellite is connected, with host:port of their gateways by its word (any
  /// text may be there; empty: none).
  std::map<std::string, std::string> Connected() const;
  /// Sends the satellite of this cluster away, if one is connected.
  void Close(const std::string& cluster, const Status& why);

 private:
  class Service;
  HomeDoor(std::unique_ptr<Service> service, std::string address);

  std::unique_ptr<Service> service_;
  const std::string address_;
};

}  // namespace swarm::satellite
