#include "io/inflate.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "waybill/error.h"

namespace waybill {
namespace {

class Inflater {
 public:
  Inflater(std::string_view packed, Packing packing, std::string_view file)
      : packed_(packed), file_(file) {
    const int window = packing == Packing::gzip ? MAX_WBITS + 16 : -MAX_WBITS;
    if (inflateInit2(&stream_, window) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  std::string run(std::size_t max_bytes) {
    std::string unpacked;
    std::array<char, 1U << 16U> piece;
    while (true) {
      feed();
      stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream_.avail_out = static_cast<uInt>(piece.size());
      const int state = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t got = piece.size() - stream_.avail_out;
      if (got > max_bytes - unpacked.size()) {
        throw malformed().expected(fmt::format("at most {} unpacked bytes", max_bytes));
      }
      unpacked.append(piece.data(), got);
      if (state == Z_STREAM_END) {
        if (stream_.avail_in == 0 && packed_.empty()) return unpacked;
        next_member();
      } else if (state == Z_BUF_ERROR || (state == Z_OK && got == 0 && packed_.empty())) {
        throw Error(Code::FileTruncated).at("file", file_).expected("the end of the packed bytes");
      } else if (state != Z_OK) {
        throw malformed().found(stream_.msg != nullptr ? stream_.msg : "other bytes");
      }
    }
  }

 private:
  Error malformed() const {
    return Error(Code::DocumentMalformed).at("file", file_).expected("packed bytes");
  }
  void feed() {
    if (stream_.avail_in > 0 || packed_.empty()) return;
    const std::size_t size =
        std::min<std::size_t>(packed_.size(), std::numeric_limits<uInt>::max());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed_.data()));
    stream_.avail_in = static_cast<uInt>(size);
    packed_.remove_prefix(size);
  }
  // A gzip file may hold several members, one after the other.
  void next_member() {
    if (inflateReset(&stream_) != Z_OK) throw malformed();
  }

  std::string_view packed_;  // what zlib hasn't been given yet
  std::string_view file_;
  z_stream stream_{};
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string unpack(std::string_view packed, Packing packing, std::size_t max_bytes,
                   std::string_view file) {
  return Inflater(packed, packing, file).run(max_bytes);
}

}  // namespace waybill
