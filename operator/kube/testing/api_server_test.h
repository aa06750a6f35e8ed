// What the tests against a scripted API server share: the client under test, and words for the
// bodies.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing/temporary_folder.h"
#include "operator/kube/client/rest_client.h"
#include "operator/kube/testing/fake_timing.h"
#include "operator/kube/testing/scripted_server.h"
#include "operator/kube/transport/http_cpprest.h"
#include "operator/kube/watch/reflector.h"

namespace swarm::kube {

inline nlohmann::json Pod(const std::string& name, const std::string& version,
                          const std::string& uid = "") {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", name},
            {"namespace", "ns"},
            {"uid", uid.empty() ? "uid-of-" + name : uid},
            {"resourceVersion", version},
            {"labels", {{"swarmjob.dev/job", "job-of-" + name}}}}}};
}

inline std::string PodList(const std::string& version, const std::vector<nlohmann::json>& pods,
                           const std::string& next = "") {
  return nlohmann::json{{"kind", "PodList"},
                        {"apiVersion", "v1"},
                        {"metadata", {{"resourceVersion", version}, {"continue", next}}},
                        {"items", pods}}
      .dump();
}

inline std::string Frame(const std::string& type, const nlohmann::json& object) {
  return nlohmann::json{{"type", type}, {"object", object}}.dump() + "\n";
}

inline std::string FailureBody(int code, const std::string& reason) {
  return nlohmann::json{{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Failure"},
                        {"reason", reason}, {"code", code},       {"message", "because"}}
      .dump();
}

/// A watch that sends the frames and then stays open, silent.
inline ScriptedServer::Act OpenWatch(std::vector<std::string> frames = {}) {
  return [frames](const SeenRequest&, Connection& peer) {
    peer.BeginChunks();
    for (const std::string& frame : frames) peer.Chunk(frame);
    peer.Hold();
  };
}

/// A watch that sends the frames and ends in order.
inline ScriptedServer::Act EndedWatch(std::vector<std::string> frames = {}) {
  return [frames](const SeenRequest&, Connection& peer) {
    peer.BeginChunks();
    for (const std::string& frame : frames) peer.Chunk(frame);
    peer.EndChunks();
  };
}

/// What a reflector reported, as "+name", "~name" and "-name".
class Changes {
 public:
  OnChange Callback() {
    return [this](const Change& change) {
      const std::lock_guard lock(mutex_);
      log_.push_back((!change.before ? "+" : change.after ? "~" : "-") + change.name.name);
      changed_.notify_all();
    };
  }
  /// The first `count` of them; fewer after ten seconds.
  std::vector<std::string> WaitFor(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return log_.size() >= count; });
    return log_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> log_;
};

class ApiServerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> MakeClient(const RestClientOptions& options = {},
                                     std::shared_ptr<Credentials> credentials = nullptr) {
    auto transport = MakeCpprestTransport({.server = server_.url()});
    EXPECT_TRUE(transport.ok()) << transport.status().ToString();
    return MakeRestClient(*transport, std::move(credentials), options, timing_, &metrics_);
  }
  Client& client() {
    if (!client_) client_ = MakeClient();
    return *client_;
  }
  std::unique_ptr<Reflector> StartReflector(Duration idle_timeout = std::chrono::seconds(150)) {
    ReflectorOptions options;
    options.resource = resources::Pods();
    options.ns = "ns";
    options.label_selector = "app=x";
    options.store = std::make_shared<Store>(std::vector<IndexKey>{
        [](const nlohmann::json& pod) { return LabelOf(pod, "swarmjob.dev/job"); }});
    options.idle_timeout = idle_timeout;
    auto reflector = std::make_unique<Reflector>(client(), options, changes_.Callback(), timing_);
    reflector->Start();
    return reflector;
  }
  /// What was asked for, in short: "list RV", "watch RV".
  std::vector<std::string> Asked() const {
    std::vector<std::string> asked;
    for (const SeenRequest& request : server_.seen()) {
      asked.push_back((request.Query("watch").empty() ? "list " : "watch ") +
                      request.Query("resourceVersion"));
    }
    return asked;
  }

  ScriptedServer server_;
  FakeTiming timing_;
  ClientMetrics metrics_;
  Changes changes_;
  std::unique_ptr<Client> client_;
};

}  // namespace swarm::kube
