#include "truncation.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "command.h"

namespace waybill::cli {
namespace {

// Nothing here allocates or locks: it runs in a signal handler.

volatile std::sig_atomic_t json_wanted = 0;

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Control characters must not steer a terminal; a quote would end a JSON string.
void write_name(int descriptor, std::string_view name, bool quoted) {
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7F) c = '?';
    if (quoted && (c == '"' || c == '\\')) write_all(descriptor, "\\");
    write_all(descriptor, {&c, 1});
  }
}

// The lines of /proc/self/maps, read piece by piece: "begin-end perms offset device inode   path".
class MappingLines {
 public:
  MappingLines() : descriptor_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  MappingLines(const MappingLines&) = delete;
  MappingLines& operator=(const MappingLines&) = delete;
  ~MappingLines() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  // Valid until the next call; false at the end. What is longer than the buffer comes in pieces.
  bool next(std::string_view& line) {
    std::shift_left(buffer_.begin(), buffer_.begin() + filled_, taken_);
    filled_ -= taken_;
    taken_ = 0;
    while (std::find(buffer_.begin(), buffer_.begin() + filled_, '\n') ==
           buffer_.begin() + filled_) {
      const auto room = buffer_.size() - static_cast<std::size_t>(filled_);
      const ssize_t got = ::read(descriptor_, buffer_.data() + filled_, room);
      if (got <= 0) break;
      filled_ += got;
    }
    const auto* const end = std::find(buffer_.begin(), buffer_.begin() + filled_, '\n');
    line = {buffer_.data(), static_cast<std::size_t>(end - buffer_.begin())};
    taken_ = std::min<std::ptrdiff_t>(end - buffer_.begin() + 1, filled_);
    return filled_ > 0;
  }

 private:
  int descriptor_;
  std::array<char, 8192> buffer_{};
  std::ptrdiff_t filled_ = 0, taken_ = 0;
};

// The file of the mapping that the line tells, when that holds `address`; else nothing.
std::string_view path_at(std::string_view line, std::uintptr_t address) {
  std::uintptr_t begin = 0, end = 0;
  const char* const last = line.data() + line.size();
  const auto [dash, no_begin] = std::from_chars(line.data(), last, begin, 16);
  if (no_begin != std::errc{} || dash == last) return {};
  const auto [space, no_end] = std::from_chars(dash + 1, last, end, 16);
  if (no_end != std::errc{} || address < begin || address >= end) return {};
  const std::size_t path = line.find('/');
  return path == std::string_view::npos ? std::string_view() : line.substr(path);
}

[[noreturn]] void end_for(std::string_view path) {
  constexpr std::string_view expected = "the bytes that it had when it was opened";
  write_all(STDERR_FILENO, "waybill: FileTruncated: file ");
  write_name(STDERR_FILENO, path, false);
  for (std::string_view text : {std::string_view(": expected "), expected,
                                std::string_view(", found fewer\n"
                                                 "  More: waybill explain FileTruncated\n")}) {
    write_all(STDERR_FILENO, text);
  }
  if (json_wanted != 0) {
    write_all(STDOUT_FILENO, R"({"error": {"code": "FileTruncated", "where": {"file": ")");
    write_name(STDOUT_FILENO, path, true);
    write_all(STDOUT_FILENO, R"("}, "expected": ")");
    write_all(STDOUT_FILENO, expected);
    write_all(STDOUT_FILENO,
              "\", \"found\": \"fewer\", \"category\": \"input\", \"message\": "
              "\"FileTruncated while it was read\"}}\n");
  }
  _exit(static_cast<int>(Exit::usage));
}

void on_bus_error(int signal, siginfo_t* info, void* /*context*/) {
  MappingLines lines;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (std::string_view line; lines.next(line);) {
    const std::string_view path = path_at(line, address);
    if (!path.empty()) end_for(path);
  }
  // Not a file's: the instruction runs again, and ends the process as it would have.
  std::signal(signal, SIG_DFL);
}

}  // namespace

void report_truncated_files(bool json) {
  json_wanted = json ? 1 : 0;
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace waybill::cli
