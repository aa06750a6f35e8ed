// For tests: one real API server for each test program, and a namespace for each test. Tests are
// skipped, and reported as such, where e2e/build.sh has not built the server.
// SWARM_KUBERNETES_BINARIES names another folder that has etcd and kube-apiserver.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "operator/kube/client/rest_client.h"
#include "operator/kube/testing/control_plane.h"

namespace swarm::kube {

class ApiServerUnderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!ControlPlane::CanRun(Binaries())) return;
    auto plane = ControlPlane::Start(Binaries());
    ASSERT_TRUE(plane.ok()) << plane.status().ToString();
    plane_ = std::move(plane).value();
  }
  static void TearDownTestSuite() { plane_.reset(); }

  void SetUp() override {
    if (!ControlPlane::CanRun(Binaries())) {
      GTEST_SKIP() << "no etcd and kube-apiserver in " << Binaries();
    }
    ASSERT_TRUE(plane_);
    client_ = MakeClient(ControlPlane::kAdminToken);
    static std::atomic<int> count{0};
    ns_ = "story-" + std::to_string(++count);
    const nlohmann::json made{
        {"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns_}}}};
    ASSERT_TRUE(client_->Create(resources::Namespaces(), made).ok());
  }

  static std::unique_ptr<Client> MakeClient(const std::string& token,
                                            const RestClientOptions& options = {}) {
    return MakeRestClient(plane_->transport(), FixedToken(token), options, SystemTiming(), nullptr);
  }

  static std::filesystem::path Binaries() {
    const char* folder = std::getenv("SWARM_KUBERNETES_BINARIES");
    return folder ? folder : SWARM_KUBERNETES_BINARIES;
  }

  static inline std::unique_ptr<ControlPlane> plane_;
  std::unique_ptr<Client> client_;
  std::string ns_;
};

}  // namespace swarm::kube
