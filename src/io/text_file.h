// Whole text files, read into memory under a size limit.
#pragma once

#include <cstddef>
#include <string>

namespace waybill {

// The file's bytes. FileUnreadable when it can't be opened or read (a folder, a missing file);
// DocumentMalformed when it holds more than `max_bytes`.
std::string read_text_file(const std::string& path, std::size_t max_bytes);

}  // namespace waybill
