#include "worker/storage/s3/xml.h"

#include <gmock/gmock.h>

namespace swarm::storage::s3 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(XmlTest, ElementsAreFoundInOrder) {
  const std::string xml = "<A><Key>one</Key></A><B><Key>two</Key></B><Keys>no</Keys><Key>cut";
  EXPECT_THAT(FindElements(xml, "Key"), ElementsAre("one", "two"));
  EXPECT_EQ(FindText(FindElements(xml, "B").front(), "Key"), "two");
  EXPECT_THAT(FindElements("", "Key"), IsEmpty());
  EXPECT_EQ(FindText(xml, "absent"), "");
}

TEST(XmlTest, WhatIsEscapedIsUnescaped) {
  const std::string text = "a&b<c>\"d'";
  EXPECT_EQ(EscapeXml(text), "a&amp;b&lt;c&gt;&quot;d&apos;");
  EXPECT_EQ(UnescapeXml(EscapeXml(text)), text);
  EXPECT_EQ(UnescapeXml("&#65;&#x42;&#xd7ff;&other;&amp"), "AB&#xd7ff;&other;&amp");
}

}  // namespace
}  // namespace swarm::storage::s3
