#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "waybill/error.h"

namespace waybill {
namespace {

// Closes at the end of a scope; the mapping outlives it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Error unreadable(const std::string& path, const char* why) {
  return Error(Code::FileUnreadable).at("file", path).found(why);
}

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a pipe in the file's place must not hang.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) {
    throw unreadable(path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw unreadable(path, "not a regular file");

  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return MappedFile({});
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) throw unreadable(path, std::strerror(errno));
  return MappedFile({static_cast<const std::byte*>(memory), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::drop(std::span<const std::byte> part) const {
  if (part.empty()) return;
  assert(part.data() >= bytes_.data() &&
         part.data() + part.size() <= bytes_.data() + bytes_.size());
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
  // Advice only: a refusal costs memory, not correctness.
  madvise(const_cast<std::byte*>(part.data() - before), part.size() + before, MADV_DONTNEED);
}

}  // namespace waybill
