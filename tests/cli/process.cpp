#include "cli/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace waybill::testing {
namespace {

// A file without a name that a child writes and the parent reads.
class Capture {
 public:
  Capture() : file_(std::tmpfile()) {
    if (file_ == nullptr) throw std::runtime_error("no temporary file");
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { std::fclose(file_); }

  int descriptor() const { return fileno(file_); }
  std::string read() const {
    std::string text;
    std::rewind(file_);
    std::array<char, 4096> chunk{};
    while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), file_)) {
      text.append(chunk.data(), count);
    }
    return text;
  }

 private:
  std::FILE* file_;
};

}  // namespace

Finished execute(const std::string& program, const std::vector<std::string>& arguments) {
  const Capture out, err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.descriptor(), STDERR_FILENO);
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + program);
  int status = 0;
  waitpid(child, &status, 0);
  Finished finished;
  finished.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.out = out.read();
  finished.err = err.read();
  return finished;
}

std::size_t longest_line(std::string_view text) {
  std::size_t longest = 0, current = 0;
  for (char c : text) {
    if (c == '\n')
      current = 0;
    else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U)
      ++current;
    longest = std::max(longest, current);
  }
  return longest;
}

}  // namespace waybill::testing
