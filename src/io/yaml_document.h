// YAML documents, read as the JSON documents that they mean: JsonValue's checks and places hold.
#pragma once

#include <string>
#include <string_view>

#include "io/json_document.h"

namespace waybill {

// One YAML 1.1 document of mappings, sequences and scalars, in block or flow style. Keys become
// strings; plain scalars become numbers, booleans or null where YAML's core schema reads them so.
// DocumentMalformed (file, line) for text that isn't YAML, and for anchors, aliases, tags and
// further documents; the errors of JsonDocument besides.
JsonDocument parse_yaml(std::string_view text, std::string_view file,
                        const JsonLimits& limits = {});

}  // namespace waybill
