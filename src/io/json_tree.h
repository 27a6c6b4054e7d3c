// How a document is kept: nodes in the order of the text, linked by index, and one string with
// every key and string value. No recursion anywhere, so depth costs no stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_document.h"

namespace waybill {

struct JsonTree {
  struct Text {
    std::uint32_t begin = 0, size = 0;  // bytes in `text`
  };
  struct Node {
    JsonKind kind = JsonKind::null;
    std::uint32_t parent = 0;
    std::uint32_t next = 0;   // sibling; 0: none
    std::uint32_t first = 0;  // child; 0: none
    std::uint32_t count = 0;  // children
    Text key;
    Text string;
    union {
      bool boolean;
      std::int64_t integer = 0;
      double number;
    };
  };

  std::string file;
  std::string text;
  std::vector<Node> nodes;

  std::string_view view(Text part) const {
    return std::string_view(text).substr(part.begin, part.size);
  }
};

}  // namespace waybill
