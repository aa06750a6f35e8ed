// A valid job, which the tests of this folder modify.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "operator/objects/read.h"

namespace swarm::objects {

inline nlohmann::json JobObject() {
  return nlohmann::json::parse(R"({
    "apiVersion": "swarmjob.dev/v1alpha1",
    "kind": "SwarmJob",
    "metadata": {"name": "tiny", "namespace": "team", "uid": "1-2-3", "generation": 4,
                 "resourceVersion": "77", "creationTimestamp": "2026-11-21T14:00:00Z",
                 "labels": {"kueue.x-k8s.io/queue-name": "night", "team": "a"},
                 "managedFields": [{"manager": "kubectl"}]},
    "spec": {
      "model": {"config": {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
                           "intermediate_size": 128, "vocab_size": 256}},
      "data": {"uri": "s3://bucket/data"},
      "checkpoint": {"uri": "s3://bucket/run"},
      "training": {"maxSteps": 9, "globalBatchSize": 8, "sequenceLength": 32},
      "pipeline": {"stages": 2},
      "workers": {"replicas": 4, "minReplicas": 2}
    }
  })");
}

/// The view of this object.
inline JobView View(const nlohmann::json& object) {
  Result<JobView> view = ReadJob(object);
  EXPECT_TRUE(view.ok()) << view.status().ToString();
  return view.ok() ? *std::move(view) : JobView();
}

/// The job with `spec` merged into its spec.
inline JobView JobWith(const std::string& spec) {
  nlohmann::json object = JobObject();
  object["spec"].merge_patch(nlohmann::json::parse(spec));
  JobView view = View(object);
  EXPECT_TRUE(view.errors.empty()) << api::ToString(view.errors);
  return view;
}

}  // namespace swarm::objects
