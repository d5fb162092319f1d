// Implementation of Writer; Writer adds path and array name to its errors. writer.h documents the methods.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/array_file/write/pending.h"
#include "formats/array_file/write/updated_statistics.h"
#include "formats/array_file/write/writer.h"
#include "io/file.h"

namespace atompack::array_file {

class Writer::Impl {
 public:
  Impl(std::string path, WriterOptions options, io::FileSystem& files);

  std::vector<std::string> names();
  bool contains(std::string_view name);
  ArrayDefinition definition(std::string_view name);
  void define(const ArrayDefinition& definition);
  void write(std::string_view name, const Box& box, Bytes numbers);
  void write(std::string_view name, const Box& box, std::span<const std::string_view> strings);
  void remove(std::string_view name);
  void check_unstored(std::string_view name, const Box& box);
  void read(std::string_view name, const Box& box, std::span<std::byte> out);
  void read(std::string_view name, const Box& box, std::span<std::string> out);

  bool has_changes() const { return !arrays_.empty(); }
  bool stage();
  const LayerWriter& staged() const;
  uint32_t number() const { return number_; }
  std::string digest();
  // Called before publish() if no record tells readers that the file's statistics are outdated.
  void withdraw_statistics();
  void publish();
  void write_statistics();
  // Forgets pending changes after they are committed or discarded.
  void reset_pending();
  // Keeps the base even though this writer created it.
  void keep() { created_base_.reset(); }
  void abandon();
  void compact();
  bool rewrite_redefined();

 private:
  template <typename Values>
  void put(std::string_view name, const Box& box, const Values& values);
  template <typename Out>
  void get(std::string_view name, const Box& box, Out out);

  const Reader& committed();
  LayerWriter& layer();
  ChunkStore chunks();
  PendingArray* find(std::string_view name);
  std::unique_ptr<PendingArray> load_pending(std::string_view name);
  PendingArray& insert(std::unique_ptr<PendingArray> array);
  void erase(std::string_view name);
  void begin_change();
  void check_usable() const;
  void check_values(const ArrayDefinition& array, const Box& box, Bytes numbers) const;
  void check_values(const ArrayDefinition& array, const Box& box, std::span<const std::string_view> strings) const;
  void adopt_base(std::unique_ptr<io::NewFile> base);

  const std::string path_;
  const WriterOptions options_;
  io::FileSystem& files_;
  std::unique_ptr<io::WritableFile> lock_;       // the base
  std::optional<io::FileVersion> created_base_;  // version of the base while it is an empty one created by this writer
  std::unique_ptr<const Reader> committed_;
  DecodedBlock last_;

  std::vector<std::unique_ptr<PendingArray>> arrays_;  // in the order in which they were first touched
  std::unordered_map<std::string_view, PendingArray*> by_name_;
  std::unique_ptr<LayerWriter> layer_;
  uint32_t number_ = 0;  // of the layer
  bool staged_ = false;
  bool publishing_ = false;            // it can only be published or discarded
  std::vector<ChangedArray> changed_;  // since the statistics were last written
  std::optional<StatisticsList> withdrawn_;
};

}  // namespace atompack::array_file
