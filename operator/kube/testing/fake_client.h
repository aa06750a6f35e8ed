// A Client whose calls all fail. A test overrides the calls that it needs.
#pragma once

#include "operator/kube/client/client.h"

namespace swarm::kube {

class FakeClient : public Client {
 public:
  Result<Object> Get(const Resource&, const ObjectName&, const GetOptions&) override {
    return Unimplemented("Get");
  }
  Result<ObjectList> List(const Resource&, const ListOptions&) override {
    return Unimplemented("List");
  }
  Result<Object> Create(const Resource&, const nlohmann::json&, const WriteOptions&) override {
    return Unimplemented("Create");
  }
  Result<Object> Update(const Resource&, const nlohmann::json&, const WriteOptions&) override {
    return Unimplemented("Update");
  }
  Result<Object> Apply(const Resource&, const nlohmann::json&, const ApplyOptions&) override {
    return Unimplemented("Apply");
  }
  Result<Object> Patch(const Resource&, const ObjectName&, PatchType, const nlohmann::json&,
                       const WriteOptions&) override {
    return Unimplemented("Patch");
  }
  Status Delete(const Resource&, const ObjectName&, const DeleteOptions&) override {
    return Unimplemented("Delete");
  }
  WatchEnd Watch(const Resource&, const WatchOptions&,
                 const std::function<void(const WatchEvent&)>&, std::stop_token) override {
    return {WatchEnd::Kind::kBroken, Unimplemented("Watch"), 0, {}};
  }
};

}  // namespace swarm::kube
