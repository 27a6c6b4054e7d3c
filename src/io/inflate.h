// Compressed bytes, unpacked under a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace waybill {

enum class Packing : std::uint8_t { gzip, deflate };  // deflate: as zip archives hold it

// Whether bytes begin as a gzip file does.
bool is_gzip(std::string_view bytes);

// The unpacked bytes. DocumentMalformed when they aren't packed that way or are more than
// `max_bytes`; FileTruncated when they end early. `file` names the source in errors.
std::string unpack(std::string_view packed, Packing packing, std::size_t max_bytes,
                   std::string_view file);

}  // namespace waybill
