// JSON and YAML files as people have them.
#pragma once

#include <string>

#include "io/json_document.h"

namespace waybill {

// A JSON file, plain or gzip. NaN, Infinity and -Infinity, which Python writes without quotes, are
// read as strings, so that a load can be refused by its layer and expert instead of by its byte.
JsonDocument read_json_source(const std::string& path);
// A YAML file.
JsonDocument read_yaml_source(const std::string& path);

bool is_yaml_name(const std::string& path);

}  // namespace waybill
