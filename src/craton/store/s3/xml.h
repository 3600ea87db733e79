#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace craton::store::s3 {

/// An element of the XML in which S3 and STS answer; names without their namespace prefix.
struct XmlElement {
  std::string name, text;  ///< `text`: this element's own, with entities resolved
  std::vector<XmlElement> children;

  /// The first child of this name; nullptr when there is none.
  const XmlElement* child(std::string_view name) const;
  /// The text of the first child of this name; "" when there is none.
  std::string_view value(std::string_view name) const;
  /// The first element of this name here or below, depth first.
  const XmlElement* find(std::string_view name) const;
};

/// The root element. kCorrupt for what is not well-formed; document types are refused, depth (32)
/// and number of elements (200,000) are bounded. Attributes are skipped.
XmlElement parse_xml(std::string_view text);

/// &, <, >, quotes and control characters as entities.
std::string xml_escape(std::string_view text);

}  // namespace craton::store::s3
