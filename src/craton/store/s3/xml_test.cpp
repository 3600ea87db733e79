#include "craton/store/s3/xml.h"

#include <gtest/gtest.h>

#include "craton/base/error.h"

namespace craton::store::s3 {
namespace {

TEST(Xml, ReadsWhatS3Answers) {
  const XmlElement root = parse_xml(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>"
      "<!-- two --><Contents><Key>a&amp;b &lt;&#65;&#x20AC;</Key><Size>3</Size></Contents>"
      "<Contents><Key><![CDATA[<raw>]]></Key></Contents><Marker/></ListBucketResult>\n");
  EXPECT_EQ(root.name, "ListBucketResult");
  EXPECT_EQ(root.value("Name"), "b");
  ASSERT_EQ(root.children.size(), 4u);
  EXPECT_EQ(root.children[1].value("Key"), "a&b <A\xe2\x82\xac");
  EXPECT_EQ(root.children[1].value("Size"), "3");
  EXPECT_EQ(root.children[2].value("Key"), "<raw>");
  EXPECT_EQ(root.value("Marker"), "");
  EXPECT_EQ(root.value("Absent"), "");
  EXPECT_EQ(parse_xml("<ns:a><ns:b>x</ns:b></ns:a>").value("b"), "x");
}

TEST(Xml, RefusesWhatIsNotWellFormed) {
  const std::string deep = [] {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += "<a>";
    return text;
  }();
  for (const std::string& text :
       {std::string(""), std::string("<"), std::string("<a>"), std::string("<a></b>"),
        std::string("<a b></a>"), std::string("<a b=c></a>"), std::string("<a>&nope;</a>"),
        std::string("<a>&#xffffffff;</a>"), std::string("<a/><b/>"), std::string("no xml"),
        std::string("<!DOCTYPE a><a/>"), std::string("<a><![CDATA[x</a>"),
        std::string("<html><br></html>"), deep}) {
    try {
      parse_xml(text);
      ADD_FAILURE() << text.substr(0, 40) << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kCorrupt);
    }
  }
}

TEST(Xml, EscapesSoThatItReadsTheSameBack) {
  const std::string text = "a<b>&\"c\" d\n";
  EXPECT_EQ(parse_xml("<k>" + xml_escape(text) + "</k>").text, text);
}

}  // namespace
}  // namespace craton::store::s3
