#include "operator/controller/seen_nodes.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace swarm::controller {
namespace {

using nlohmann::json;

class SeenNodesTest : public testing::Test {
 protected:
  void Set(const std::string& name, const std::string& ready, const std::string& version) {
    const json node{
        {"metadata", {{"name", name}, {"uid", "uid-" + name}, {"resourceVersion", version}}},
        {"status", {{"conditions", {{{"type", "Ready"}, {"status", ready}}}}}}};
    store_.Apply({kube::WatchEvent::Type::kModified, std::make_shared<const json>(node)});
  }
  void Remove(const std::string& name) {
    store_.Apply({kube::WatchEvent::Type::kDeleted,
                  std::make_shared<const json>(json{{"metadata", {{"name", name}}}})});
  }

  kube::Store store_;
  SeenNodes nodes_{store_};
};

TEST_F(SeenNodesTest, ANodeIsReadOnceUntilItChanges) {
  Set("a", "True", "1");
  const auto first = nodes_.Find("a");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->uid, "uid-a");
  EXPECT_EQ(nodes_.Find("a"), first) << "it was read again";
  Set("a", "False", "2");
  const auto later = nodes_.Find("a");
  ASSERT_TRUE(later);
  EXPECT_EQ(later->conditions.at(0).status, "False");
}

TEST_F(SeenNodesTest, NodesThatAreGoneAreForgotten) {
  Set("a", "True", "1");
  const std::weak_ptr<const plan::ObservedNode> gone = nodes_.Find("a");
  EXPECT_FALSE(gone.expired());
  Remove("a");
  EXPECT_FALSE(nodes_.Find("a"));
  Set("b", "True", "2");
  EXPECT_TRUE(nodes_.Find("b"));
  EXPECT_TRUE(gone.expired()) << "machines come and go for months, each with a name of its own";
}

}  // namespace
}  // namespace swarm::controller
