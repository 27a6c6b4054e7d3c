// Whole files: read into memory under a size limit, written at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace waybill {

// The file's bytes. FileUnreadable when it can't be opened or read (a folder, a missing file);
// DocumentMalformed when it holds more than `max_bytes`.
std::string read_text_file(const std::string& path, std::size_t max_bytes);

// The file appears under its name when it is whole; an old one of that name stays until then.
// FileUnwritable.
void write_text_file(const std::string& path, std::string_view bytes);

}  // namespace waybill
