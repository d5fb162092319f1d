#include "io/file_system.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/folder.h"
#include "io/locked_file.h"

namespace atompack::io {
namespace {

class RealNewFile final : public NewFile {
 public:
  RealNewFile(LockedFile file, bool syncs) : file_(std::move(file)), syncs_(syncs) {}

  const std::string& path() const override { return file_.path(); }
  uint64_t size() const override { return file_.size(); }
  size_t read_at(uint64_t offset, std::span<std::byte> into) const override { return file_.read_at(offset, into); }
  void write_at(uint64_t offset, Bytes bytes) override { file_.write_at(offset, bytes); }
  void truncate(uint64_t size) override { file_.truncate(size); }
  void sync_data() override {
    if (syncs_) file_.sync_data();
  }
  void sync() override {
    if (syncs_) file_.sync();
  }
  void publish(bool replace) override { file_.publish(replace, syncs_); }
  bool is_published() const override { return file_.is_published(); }
  void leave() override { file_.leave(); }
  void start_writing_back(uint64_t offset, uint64_t length) override {
    if (syncs_) file_.start_writing_back(offset, length);
  }

 private:
  LockedFile file_;
  bool syncs_;
};

class RealFileSystem final : public FileSystem {
 public:
  explicit RealFileSystem(bool syncs) : syncs_(syncs) {}

  std::unique_ptr<NewFile> create(const std::string& path) override {
    return std::make_unique<RealNewFile>(LockedFile::create_unpublished(path), syncs_);
  }
  std::unique_ptr<WritableFile> lock(const std::string& path) override {
    return std::make_unique<LockedFile>(LockedFile::open(path));
  }
  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0) {
      if (syncs_) sync_folder_of(path);
    } else if (errno != ENOENT) {
      throw IoError(errno, std::strerror(errno), path);
    }
  }
  bool make_folder(const std::string& path) override {
    constexpr mode_t kMode = 0777;  // before the umask
    if (::mkdir(path.c_str(), kMode) == 0) {
      if (syncs_) sync_folder_of(path);
      return true;
    }
    if (errno != EEXIST) throw IoError(errno, std::strerror(errno), path);
    return false;
  }
  void sync_folder(const std::string& path) override {
    if (syncs_) io::sync_folder(path);
  }

 private:
  bool syncs_;
};

}  // namespace

void replace_file(FileSystem& files, const std::string& path, Bytes content) {
  const std::unique_ptr<NewFile> file = files.create(path);
  file->write_at(0, content);
  file->sync();
  file->publish(true);
}

FileSystem& real_file_system() {
  static RealFileSystem files(true);
  return files;
}

FileSystem& unsynced_file_system() {
  static RealFileSystem files(false);
  return files;
}

}  // namespace atompack::io
