#include "io/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "waybill/error.h"

namespace waybill {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Error unreadable(const std::string& path) {
  return Error(Code::FileUnreadable).at("file", path).found(std::strerror(errno));
}

}  // namespace

// Reads in pieces: a size that a file system reports may lie.
std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  if (kind == std::filesystem::file_type::fifo || kind == std::filesystem::file_type::socket) {
    // Opening it could wait for ever.
    throw Error(Code::FileUnreadable).at("file", path).expected("a file").found("a pipe or socket");
  }
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) throw unreadable(path);

  std::string text;
  std::array<char, 1U << 16U> piece;
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), file.get())) {
    if (got > max_bytes - text.size()) {
      throw Error(Code::DocumentMalformed)
          .at("file", path)
          .expected(fmt::format("at most {} bytes", max_bytes))
          .found("more");
    }
    text.append(piece.data(), got);
  }
  if (std::ferror(file.get()) != 0) throw unreadable(path);
  return text;
}

void write_text_file(const std::string& path, std::string_view bytes) {
  const auto unwritable = [&] {
    return Error(Code::FileUnwritable).at("file", path).found(std::strerror(errno));
  };
  // A device or a pipe is written to, not replaced.
  std::error_code failure;
  const bool replaces =
      !std::filesystem::exists(path, failure) || std::filesystem::is_regular_file(path, failure);
  const std::string partial = replaces ? path + ".partial" : path;
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(partial.c_str(), "wbe"));
  if (file == nullptr) throw unwritable();
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size() &&
                       std::fclose(file.release()) == 0;
  if (!replaces) {
    if (!written) throw unwritable();
    return;
  }
  if (written) std::filesystem::rename(partial, path, failure);
  if (written && !failure) return;
  const int cause = errno;
  std::filesystem::remove(partial, failure);
  errno = cause;
  throw unwritable();
}

}  // namespace waybill
