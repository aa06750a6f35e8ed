#include "worker/storage/file/file_storage.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>

namespace swarm::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".tmp-";

Status FileError(int error, const std::string& what, const std::string& path) {
  const std::string text = what + " " + path + ": " + std::generic_category().message(error);
  switch (error) {
    case ENOENT:
      return NotFound(text);
    case EEXIST:
      return AlreadyExists(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied(text);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ResourceExhausted(text + "; free some space, nothing was changed");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ResourceExhausted(text);
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
      return InvalidArgument(text);
    case EIO:
      return DataLoss(text);
    default:
      return Internal(text);
  }
}

// A file descriptor that is closed once.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  /// Some file systems report a full disk only here.
  int Close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Removes a temporary file unless it has been moved to its place.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  void Release() { path_.clear(); }

 private:
  std::string path_;
};

Status SyncFolder(const fs::path& folder) {
  const std::string path = folder.empty() ? "." : folder.string();
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return FileError(errno, "cannot open folder", path);
  // EINVAL: a file system that cannot synchronise folders, so there is nothing to wait for.
  if (::fsync(fd.get()) != 0 && errno != EINVAL)
    return FileError(errno, "cannot sync folder", path);
  return {};
}

Status CreateFolders(const fs::path& folder) {
  if (folder.empty()) return {};
  if (::mkdir(folder.c_str(), 0777) == 0) return SyncFolder(folder.parent_path());
  if (errno == EEXIST || errno == EISDIR) return {};
  if (errno != ENOENT) return FileError(errno, "cannot create folder", folder.string());
  RETURN_IF_ERROR(CreateFolders(folder.parent_path()));
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return FileError(errno, "cannot create folder", folder.string());
  }
  return SyncFolder(folder.parent_path());
}

// Of a file that is written in parts.
constexpr std::uint64_t kPartBytes = std::uint64_t{8} << 20;

Status WriteAll(int fd, std::span<const Bytes> pieces, const std::string& path) {
  for (const Bytes& piece : pieces) {
    std::size_t done = 0;
    while (done < piece.size()) {
      const ssize_t n = ::write(fd, piece.data() + done, piece.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError(errno, "cannot write", path);
      done += static_cast<std::size_t>(n);
    }
  }
  return {};
}

Status ReadAll(int fd, std::uint64_t offset, std::byte* out, std::uint64_t size,
               const std::string& path) {
  std::uint64_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd, out + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "cannot read", path);
    if (n == 0) return DataLoss(path + " became shorter while it was read");
    done += static_cast<std::uint64_t>(n);
  }
  return {};
}

struct OpenFile {
  std::unique_ptr<Descriptor> descriptor;
  std::uint64_t size = 0;
};

Result<OpenFile> OpenForReading(const std::string& path) {
  auto descriptor = std::make_unique<Descriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor->valid()) return FileError(errno, "cannot open", path);
  struct stat status{};
  if (::fstat(descriptor->get(), &status) != 0) return FileError(errno, "cannot stat", path);
  if (!S_ISREG(status.st_mode)) return FileError(EISDIR, "not a file:", path);
  return OpenFile{std::move(descriptor), static_cast<std::uint64_t>(status.st_size)};
}

Result<Bytes> ReadPartOf(const OpenFile& file, std::uint64_t offset, std::uint64_t size,
                         const std::string& path) {
  Status status;
  Bytes content = Bytes::Make(size, [&](std::byte* out) {
    status = ReadAll(file.descriptor->get(), offset, out, size, path);
  });
  if (!status.ok()) return status;
  return content;
}

// A name that no other writer uses, in any process on any machine.
std::string TemporaryPath(const fs::path& target) {
  static std::atomic<std::uint64_t> counter{std::random_device{}()};
  const std::string unique = std::to_string(::getpid()) + "-" +
                             std::to_string(counter.fetch_add(1)) + "-" +
                             std::to_string(std::random_device{}());
  return target.parent_path() /
         ("." + target.filename().string() + std::string(kTemporaryMark) + unique);
}

bool IsTemporary(const std::string& file_name) {
  return file_name.starts_with('.') && file_name.find(kTemporaryMark) != std::string::npos;
}

// Puts `from` in place at `to` unless something is there. link() does it on every file system that
// has hard links, renameat2 on some that have not.
int MoveIfAbsent(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) {
    ::unlink(from.c_str());
    return 0;
  }
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) return -1;
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
}

class FileStorage final : public Storage {
 public:
  explicit FileStorage(std::string folder) : folder_(std::move(folder)) {}

  Result<Bytes> Read(const std::string& name) override {
    RETURN_IF_ERROR(CheckName(name));
    const std::string path = Describe(name);
    ASSIGN_OR_RETURN(const OpenFile file, OpenForReading(path));
    return ReadPartOf(file, 0, file.size, path);
  }

  Result<Bytes> Map(const std::string& name) override {
    RETURN_IF_ERROR(CheckName(name));
    return MapFile(Describe(name));
  }

  Result<Bytes> ReadRange(const std::string& name, std::uint64_t offset,
                          std::uint64_t size) override {
    RETURN_IF_ERROR(CheckName(name));
    const std::string path = Describe(name);
    ASSIGN_OR_RETURN(const OpenFile file, OpenForReading(path));
    if (offset > file.size || size > file.size - offset) {
      return Status(StatusCode::kOutOfRange, path + " has " + std::to_string(file.size) +
                                                 " bytes; asked for " + std::to_string(size) +
                                                 " from " + std::to_string(offset));
    }
    return ReadPartOf(file, offset, size, path);
  }

  Result<std::uint64_t> Size(const std::string& name) override {
    RETURN_IF_ERROR(CheckName(name));
    ASSIGN_OR_RETURN(const OpenFile file, OpenForReading(Describe(name)));
    return file.size;
  }

  using Storage::Write;
  using Storage::WriteIfAbsent;
  Status Write(const std::string& name, std::span<const Bytes> pieces) override {
    return Place(name, Writing(pieces), MoveOver);
  }
  Status WriteIfAbsent(const std::string& name, std::span<const Bytes> pieces) override {
    return Place(name, Writing(pieces), MoveIfAbsent);
  }
  Status WriteParts(const std::string& name, std::uint64_t size, const ReadPart& read) override {
    const auto fill = [&](int fd, const std::string& path) -> Status {
      for (std::uint64_t at = 0; at < size; at += kPartBytes) {
        ASSIGN_OR_RETURN(const Bytes part, read(at, std::min(kPartBytes, size - at)));
        RETURN_IF_ERROR(WriteAll(fd, std::span(&part, 1), path));
      }
      return {};
    };
    return Place(name, fill, MoveOver);
  }

  Result<std::vector<StoredFile>> ListFiles(const std::string& prefix) override;
  Result<std::vector<std::string>> ListFolders() override;
  Status Remove(const std::string& name) override;
  Status RemoveFolder(const std::string& name) override;

  std::string Describe(const std::string& name) const override { return (folder_ / name).string(); }

 private:
  using Move = int (*)(const std::string& from, const std::string& to);
  /// Writes what the file is to hold.
  using Fill = std::function<Status(int fd, const std::string& path)>;

  static int MoveOver(const std::string& from, const std::string& to) {
    return ::rename(from.c_str(), to.c_str());
  }
  static Fill Writing(std::span<const Bytes> pieces) {
    return [pieces](int fd, const std::string& path) { return WriteAll(fd, pieces, path); };
  }

  Status Place(const std::string& name, const Fill& fill, Move move) {
    RETURN_IF_ERROR(CheckName(name));
    const fs::path target = folder_ / name;
    RETURN_IF_ERROR(CreateFolders(target.parent_path()));
    TemporaryFile temporary(TemporaryPath(target));
    Descriptor fd(::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd.valid()) return FileError(errno, "cannot create", temporary.path());
    RETURN_IF_ERROR(fill(fd.get(), target));
    if (::fsync(fd.get()) != 0) return FileError(errno, "cannot sync", target);
    if (fd.Close() != 0) return FileError(errno, "cannot close", target);
    if (move(temporary.path(), target) != 0) return FileError(errno, "cannot place", target);
    temporary.Release();
    return SyncFolder(target.parent_path());
  }

  const fs::path folder_;
};

Result<std::vector<StoredFile>> FileStorage::ListFiles(const std::string& prefix) {
  std::vector<StoredFile> files;
  std::error_code error;
  // Begins at the folder that the prefix names, and does not walk the rest of a large folder.
  const fs::path start = folder_ / fs::path(prefix).parent_path();
  fs::recursive_directory_iterator at(start, fs::directory_options::none, error);
  if (error == std::errc::no_such_file_or_directory) return files;
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    std::error_code gone;  // another process may remove a file meanwhile
    if (!at->is_regular_file(gone) || IsTemporary(at->path().filename().string())) continue;
    std::string name = at->path().lexically_relative(folder_).generic_string();
    const std::uintmax_t size = at->file_size(gone);
    if (!gone && name.starts_with(prefix)) files.push_back({std::move(name), size});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return FileError(error.value(), "cannot list", start.string());
  }
  std::ranges::sort(files, {}, &StoredFile::name);
  return files;
}

Result<std::vector<std::string>> FileStorage::ListFolders() {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (at->is_directory(gone)) names.push_back(at->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return FileError(error.value(), "cannot list", folder_.string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status FileStorage::Remove(const std::string& name) {
  RETURN_IF_ERROR(CheckName(name));
  const std::string path = Describe(name);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return FileError(errno, "cannot remove", path);
  return {};
}

Status FileStorage::RemoveFolder(const std::string& name) {
  RETURN_IF_ERROR(CheckName(name));
  std::error_code error;
  fs::remove_all(folder_ / name, error);
  if (error) return FileError(error.value(), "cannot remove", Describe(name));
  return {};
}

}  // namespace

std::unique_ptr<Storage> OpenFileStorage(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return std::make_unique<FileStorage>(std::move(folder));
}

Result<Bytes> MapFile(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenFile file, OpenForReading(path));
  if (file.size == 0) return Bytes();  // an empty mapping is an error for mmap
  void* memory = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor->get(), 0);
  if (memory == MAP_FAILED) return FileError(errno, "cannot map", path);
  const std::size_t size = file.size;
  return Bytes::Wrap(memory, size, std::shared_ptr<const void>(memory, [size](const void* mapped) {
                       ::munmap(const_cast<void*>(mapped), size);
                     }));
}

}  // namespace swarm::storage
