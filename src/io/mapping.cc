#include "io/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace weft::io {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string ErrorText(int error) { return std::generic_category().message(error); }

}  // namespace

Result<Mapping> Mapping::Open(const std::string& path) {
  // O_NONBLOCK: a named pipe in place of a model must not hold up the start.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) return Status::NotFound("{}: no such file", path);
    return Status::Invalid("{}: cannot be opened: {}", path, ErrorText(error));
  }
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) {
    return Status::Invalid("{}: cannot be examined: {}", path, ErrorText(errno));
  }
  if (!S_ISREG(facts.st_mode)) return Status::Invalid("{}: is no regular file", path);
  if (facts.st_size == 0) return Status::Invalid("{}: the file is empty", path);
  const auto size = static_cast<size_t>(facts.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    return Status::Exhausted("{}: {} bytes cannot be mapped: {}", path, size, ErrorText(errno));
  }
  return Mapping(path, {static_cast<const std::byte*>(address), size});
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void Mapping::Advise(const std::byte* data, int64_t size, Access access) const {
  const int advice = access == Access::kSequential ? MADV_SEQUENTIAL
                     : access == Access::kWillNeed ? MADV_WILLNEED
                                                   : MADV_NORMAL;
  AdvisePages(data, size, advice);
}

void Mapping::Drop(const std::byte* data, int64_t size) const {
  AdvisePages(data, size, MADV_DONTNEED);
}

void Mapping::AdvisePages(const std::byte* data, int64_t size, int advice) const {
  if (size <= 0) return;
  WEFT_CHECK(Contains(data) && Contains(data + size), "range outside the mapping of {}", path_);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<size_t>(data - bytes_.data());
  const size_t begin = offset / page * page;
  const size_t end = offset + static_cast<size_t>(size);
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, advice);
}

}  // namespace weft::io
