#include "base/enum_names.h"

#include <gtest/gtest.h>

namespace swarm {

enum class Season { kSpring, kAutumn };
template <>
struct EnumNames<Season> {
  static constexpr auto kNames =
      NameTable<Season>({{Season::kSpring, "Spring"}, {Season::kAutumn, "Autumn"}});
};

namespace {

TEST(EnumNamesTest, EachValueIsFoundByItsName) {
  EXPECT_EQ(NameOf(Season::kAutumn), "Autumn");
  EXPECT_EQ(FindEnum<Season>("Autumn"), Season::kAutumn);
}

TEST(EnumNamesTest, AWordThatIsNoNameIsNoValue) {
  EXPECT_EQ(FindEnum<Season>("autumn"), std::nullopt);
  EXPECT_EQ(FindEnum<Season>(""), std::nullopt);
  EXPECT_EQ(NameOf(static_cast<Season>(7)), "");
}

}  // namespace
}  // namespace swarm
