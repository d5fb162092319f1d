#include "collate/arena/arena.h"

#include <ATen/MapAllocator.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/alloc_cpu.h>

#include <array>
#include <bit>
#include <mutex>

#include "base/error.h"
#include "collate/arena/ring_arena.h"
#include "io/huge_pages.h"
#include "io/shared_ring.h"
#include "plan/arena_layout.h"

namespace atompack::collate {
namespace {

constexpr size_t kMinBlockBytes = 4096;
// Size above which powers of two waste too much memory, so that block sizes grow in eighths of one.
constexpr size_t kFineBlockBytes = size_t{16} << 20;

// Pool of freed blocks by size. Thread-safe without waiting: if another thread holds the lock (in a forked child
// possibly forever), the system's allocator is used.
class BlockPool {
 public:
  // Never destroyed: tensors may outlive every static object.
  static BlockPool& instance() {
    static BlockPool& pool = *new BlockPool;
    return pool;
  }

  static size_t block_bytes(size_t bytes) {
    if (bytes <= kFineBlockBytes) return std::bit_ceil(std::max(bytes, kMinBlockBytes));
    const size_t step = std::bit_floor(bytes) / 8;
    return (bytes + step - 1) / step * step;
  }

  void* allocate(size_t block) {
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      auto& blocks = free_[size_class(block)];
      if (lock && !blocks.empty()) {
        void* const memory = blocks.back();
        blocks.pop_back();
        idle_bytes_ -= block;
        return memory;
      }
    }
    void* const fresh = c10::alloc_cpu(block);
    io::prefer_huge_pages(fresh, block);
    return fresh;
  }

  void release(void* memory, size_t block) {
    {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (lock && idle_bytes_ + block <= kMaxIdleBytes) {
        free_[size_class(block)].push_back(memory);
        idle_bytes_ += block;
        return;
      }
    }
    c10::free_cpu(memory);
  }

 private:
  static constexpr size_t kMaxIdleBytes = size_t{256} << 20;
  // Eight classes for each power of two.
  static size_t size_class(size_t block) {
    const size_t power = static_cast<size_t>(std::bit_width(block)) - 1;
    return 8 * power + (block >> (power - 3) & 7);
  }

  std::mutex mutex_;
  std::array<std::vector<void*>, 8 * 64> free_;
  size_t idle_bytes_ = 0;
};

struct Block {
  void* memory;
  size_t bytes;
};

void release_block(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  BlockPool::instance().release(block->memory, block->bytes);
}

c10::DataPtr heap_memory(size_t bytes) {
  constexpr size_t kMaxPooledBytes = size_t{128} << 20;
  if (bytes > kMaxPooledBytes) {
    c10::DataPtr fresh = c10::GetCPUAllocator()->allocate(bytes);
    io::prefer_huge_pages(fresh.get(), bytes);  // a fault for each small page takes as long as filling it
    return fresh;
  }
  const size_t block_bytes = BlockPool::block_bytes(bytes);
  auto block = std::make_unique<Block>(Block{BlockPool::instance().allocate(block_bytes), block_bytes});
  void* const memory = block->memory;
  return {memory, block.release(), &release_block, c10::Device(c10::DeviceType::CPU)};
}

c10::DataPtr shared_memory(size_t bytes) {
  io::UniqueFd fd = io::create_shared_memory(bytes);
  constexpr int kFlags = at::ALLOCATOR_MAPPED_SHAREDMEM | at::ALLOCATOR_MAPPED_KEEPFD | at::ALLOCATOR_MAPPED_FROMFD;
  return at::MapAllocator::makeDataPtr(at::WITH_FD, "", fd.release(), kFlags, bytes, nullptr);
}

}  // namespace

at::Tensor wrap_memory(c10::DataPtr memory, size_t memory_bytes, size_t bytes) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), memory_bytes, std::move(memory), nullptr, false);
  auto arena = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                        c10::scalarTypeToTypeMeta(at::kByte));
  arena.unsafeGetTensorImpl()->set_sizes_contiguous(std::array<int64_t, 1>{static_cast<int64_t>(bytes)});
  return arena;
}

at::Tensor allocate_arena(size_t bytes, ArenaKind kind) {
  if (kind == ArenaKind::pinned) {
    return at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte).pinned_memory(true));
  }
  if (kind == ArenaKind::shared) {
    if (std::optional<c10::DataPtr> slot = allocate_slot(bytes)) return wrap_memory(std::move(*slot), bytes, bytes);
  }
  const size_t allocated = std::max(bytes, size_t{kMinBlockBytes});  // empty shared memory cannot be mapped
  return wrap_memory(kind == ArenaKind::shared ? shared_memory(allocated) : heap_memory(allocated), allocated, bytes);
}

at::Tensor view_arena(const at::Tensor& arena, DType dtype, size_t offset, std::span<const int64_t> sizes) {
  const size_t item = item_bytes(dtype);
  size_t bytes = item;
  for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
  if (offset % item != 0 || bytes > arena.nbytes() || offset > arena.nbytes() - bytes) {
    throw InternalError(cat("view of ", bytes, " bytes at ", offset, " in an arena of ", arena.nbytes()));
  }
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(arena.storage()), arena.key_set(),
                                                       c10::scalarTypeToTypeMeta(scalar_type_of(dtype)));
  c10::TensorImpl* const impl = view.unsafeGetTensorImpl();
  impl->set_storage_offset(static_cast<int64_t>(offset / item));
  impl->set_sizes_contiguous({sizes.data(), sizes.size()});
  return view;
}

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return at::kBool;
    case DType::uint8:
      return at::kByte;
    case DType::uint16:
      return at::kUInt16;
    case DType::uint32:
      return at::kUInt32;
    case DType::uint64:
      return at::kUInt64;
    case DType::int8:
      return at::kChar;
    case DType::int16:
      return at::kShort;
    case DType::int32:
      return at::kInt;
    case DType::int64:
      return at::kLong;
    case DType::float16:
      return at::kHalf;
    case DType::bfloat16:
      return at::kBFloat16;
    case DType::float32:
      return at::kFloat;
    case DType::float64:
      return at::kDouble;
    case DType::complex64:
      return at::kComplexFloat;
    case DType::complex128:
      return at::kComplexDouble;
  }
  throw InternalError("dtype out of range");
}

ArenaTensors allocate_tensors(std::span<const TensorSpec> specs, ArenaKind kind) {
  ArenaLayout layout;
  std::vector<size_t> offsets;
  for (const TensorSpec& spec : specs) offsets.push_back(layout.add(spec.dtype, spec.shape));
  ArenaTensors tensors{allocate_arena(layout.size(), kind), {}};
  for (size_t i = 0; i < specs.size(); ++i) {
    tensors.views.push_back(view_arena(tensors.arena, specs[i].dtype, offsets[i], specs[i].shape));
  }
  return tensors;
}

DType dtype_of(at::ScalarType type) {
  for (int i = 0; i < kNumberOfDTypes; ++i) {
    if (scalar_type_of(static_cast<DType>(i)) == type) return static_cast<DType>(i);
  }
  throw UnsupportedFormatError(cat("dtype: ", c10::toString(type), " is not a type of this library"));
}

}  // namespace atompack::collate
