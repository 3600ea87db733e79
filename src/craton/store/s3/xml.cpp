#include "craton/store/s3/xml.h"

#include <charconv>
#include <cstdint>

#include "craton/base/error.h"

namespace craton::store::s3 {

namespace {

constexpr size_t kMostDepth = 32, kMostElements = 200'000;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  XmlElement document() {
    skip_between();
    XmlElement root = element(0);
    skip_between();
    if (at_ != text_.size()) bad("something behind the root element");
    return root;
  }

 private:
  [[noreturn]] void bad(std::string_view what) const {
    fail(ErrorCode::kCorrupt, "the answer is no well-formed XML: {} at byte {}", what, at_);
  }

  bool take(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  void skip_to(std::string_view end) {
    const size_t found = text_.find(end, at_);
    if (found == text_.npos) bad("something without an end");
    at_ = found + end.size();
  }

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }

  /// Blanks, comments and processing instructions outside of the root.
  void skip_between() {
    take("\xef\xbb\xbf");
    while (true) {
      skip_blanks();
      if (take("<?")) {
        skip_to("?>");
      } else if (take("<!--")) {
        skip_to("-->");
      } else {
        return;
      }
    }
  }

  std::string name() {
    const size_t start = at_;
    while (at_ < text_.size() && !is_blank(text_[at_]) && text_[at_] != '>' && text_[at_] != '/' &&
           text_[at_] != '<' && text_[at_] != '=')
      ++at_;
    if (at_ == start) bad("a missing name");
    return std::string(text_.substr(start, at_ - start));
  }

  /// Attributes up to and with ">" or "/>"; true when the element has no content.
  bool end_of_tag() {
    while (true) {
      skip_blanks();
      if (take("/>")) return true;
      if (take(">")) return false;
      name();
      skip_blanks();
      if (!take("=")) bad("an attribute without a value");
      skip_blanks();
      const char quote = at_ < text_.size() ? text_[at_] : '\0';
      if (quote != '"' && quote != '\'') bad("an attribute without quotes");
      ++at_;
      skip_to(std::string_view(&quote, 1));
    }
  }

  void entity(std::string& out) {
    const size_t end = text_.find(';', at_);
    if (end == text_.npos || end - at_ > 12) bad("an entity without an end");
    std::string_view body = text_.substr(at_ + 1, end - at_ - 1);
    if (body == "amp") {
      out += '&';
    } else if (body == "lt") {
      out += '<';
    } else if (body == "gt") {
      out += '>';
    } else if (body == "quot") {
      out += '"';
    } else if (body == "apos") {
      out += '\'';
    } else if (body.starts_with('#')) {
      body.remove_prefix(1);
      const bool hex = body.starts_with('x');
      if (hex) body.remove_prefix(1);
      uint32_t value = 0;
      const auto [last, error] =
          std::from_chars(body.data(), body.data() + body.size(), value, hex ? 16 : 10);
      if (error != std::errc() || last != body.data() + body.size() || value > 0x10ffff)
        bad("a character that does not exist");
      append_utf8(out, value);
    } else {
      bad("an unknown entity");
    }
    at_ = end + 1;
  }

  XmlElement element(size_t depth) {
    if (depth >= kMostDepth) bad("elements nested too deep");
    if (++elements_ > kMostElements) bad("too many elements");
    if (!take("<")) bad("no element");
    XmlElement out;
    const std::string full = name();
    const size_t colon = full.find(':');
    out.name = colon == full.npos ? full : full.substr(colon + 1);
    if (end_of_tag()) return out;
    while (true) {
      const size_t next = text_.find_first_of("<&", at_);
      if (next == text_.npos) bad("an element without an end");
      out.text += text_.substr(at_, next - at_);
      at_ = next;
      if (text_[at_] == '&') {
        entity(out.text);
      } else if (take("</")) {
        if (name() != full) bad("an end that fits no beginning");
        skip_blanks();
        if (!take(">")) bad("an unfinished end");
        return out;
      } else if (take("<!--")) {
        skip_to("-->");
      } else if (take("<![CDATA[")) {
        const size_t start = at_;
        skip_to("]]>");
        out.text += text_.substr(start, at_ - 3 - start);
      } else if (take("<?")) {
        skip_to("?>");
      } else {
        out.children.push_back(element(depth + 1));
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0, elements_ = 0;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view wanted) const {
  for (const XmlElement& element : children)
    if (element.name == wanted) return &element;
  return nullptr;
}

std::string_view XmlElement::value(std::string_view wanted) const {
  const XmlElement* element = child(wanted);
  return element == nullptr ? std::string_view() : std::string_view(element->text);
}

const XmlElement* XmlElement::find(std::string_view wanted) const {
  if (name == wanted) return this;
  for (const XmlElement& element : children)
    if (const XmlElement* found = element.find(wanted)) return found;
  return nullptr;
}

XmlElement parse_xml(std::string_view text) { return Parser(text).document(); }

std::string xml_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) < ' ') {
          out += fmt::format("&#{};", static_cast<int>(c));
        } else {
          out += c;
        }
    }
  }
  return out;
}

}  // namespace craton::store::s3
