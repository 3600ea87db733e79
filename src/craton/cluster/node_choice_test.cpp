#include "craton/cluster/node_choice.h"

#include <gtest/gtest.h>

namespace craton::cluster {
namespace {

TEST(NodeChoice, WorkersSpreadOverNodesUpToTheirSlots) {
  std::vector<NodeLoad> nodes = {{"a", 2, 0}, {"b", 0, 0}, {"c", 1, 0}};
  std::vector<std::string> chosen;
  for (int k = 0; k < 6; ++k) {
    const auto node = choose_node(nodes, {});
    ASSERT_TRUE(node);
    chosen.push_back(*node);
    for (NodeLoad& n : nodes) n.workers += n.node == *node;
  }
  EXPECT_EQ(chosen, (std::vector<std::string>{"a", "b", "c", "a", "b", "b"}));
}

TEST(NodeChoice, AvoidedAndFullNodesAreNotChosen) {
  const std::vector<NodeLoad> nodes = {{"a", 1, 1}, {"b", 0, 5}, {"c", 0, 7}};
  EXPECT_EQ(choose_node(nodes, {}), "b");
  EXPECT_EQ(choose_node(nodes, {"b"}), "c");
  EXPECT_EQ(choose_node(nodes, {"b", "c"}), std::nullopt);
  EXPECT_EQ(choose_node({}, {}), std::nullopt);
}

}  // namespace
}  // namespace craton::cluster
