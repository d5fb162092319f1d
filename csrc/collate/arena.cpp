#include "collate/arena.h"

#include <ATen/MapAllocator.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "io/huge_pages.h"
#include "plan/arena_layout.h"
#include "threads/process.h"

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
  bool is_possible = offset % item == 0;
  for (const int64_t size : sizes) {
    is_possible = is_possible && size >= 0 && !__builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes);
  }
  if (!is_possible || bytes > arena.nbytes() || offset > arena.nbytes() - bytes) {
    throw InternalError(cat("view of ", bytes, " bytes at ", offset, " in an arena of ", arena.nbytes()));
  }
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(arena.storage()), arena.key_set(),
                                                       c10::scalarTypeToTypeMeta(scalar_type_of(dtype)));
  c10::TensorImpl* const impl = view.unsafeGetTensorImpl();
  impl->set_storage_offset(static_cast<int64_t>(offset / item));
  impl->set_sizes_contiguous({sizes.data(), sizes.size()});
  return view;
}

bool is_view_of(const at::Tensor& tensor, const at::Tensor& arena) {
  if (!tensor.has_storage() || !arena.has_storage() || tensor.requires_grad() || !tensor.is_contiguous()) return false;
  return tensor.storage().unsafeGetStorageImpl() == arena.storage().unsafeGetStorageImpl();
}

// By dtype.
constexpr std::array<at::ScalarType, kNumberOfDTypes> kScalarTypes = {
    at::kBool, at::kByte, at::kUInt16,   at::kUInt32, at::kUInt64, at::kChar,         at::kShort,        at::kInt,
    at::kLong, at::kHalf, at::kBFloat16, at::kFloat,  at::kDouble, at::kComplexFloat, at::kComplexDouble};

at::ScalarType scalar_type_of(DType dtype) { return kScalarTypes.at(static_cast<size_t>(dtype)); }

ArenaTensors allocate_tensors(std::span<const TensorSpec> specs, ArenaKind kind) {
  plan::ArenaLayout layout;
  std::vector<size_t> offsets;
  for (const TensorSpec& spec : specs) offsets.push_back(layout.add(spec.dtype, spec.shape));
  ArenaTensors tensors{allocate_arena(layout.size(), kind), {}};
  for (size_t i = 0; i < specs.size(); ++i) {
    tensors.views.push_back(view_arena(tensors.arena, specs[i].dtype, offsets[i], specs[i].shape));
  }
  return tensors;
}

ArenaTensors pack_tensors(std::span<const at::Tensor> tensors) {
  std::vector<TensorSpec> specs;
  for (const at::Tensor& tensor : tensors) specs.push_back({dtype_of(tensor.scalar_type()), tensor.sizes().vec()});
  ArenaTensors packed = allocate_tensors(specs, ArenaKind::shared);
  for (size_t i = 0; i < tensors.size(); ++i) packed.views[i].copy_(tensors[i]);
  return packed;
}

std::optional<DType> find_dtype(at::ScalarType type) {
  const auto found = std::ranges::find(kScalarTypes, type);
  return found == kScalarTypes.end() ? std::nullopt : std::optional(static_cast<DType>(found - kScalarTypes.begin()));
}

DType dtype_of(at::ScalarType type) {
  if (const std::optional<DType> dtype = find_dtype(type)) return *dtype;
  throw UnsupportedFormatError(cat("dtype: ", c10::toString(type), " is not a type of this library"));
}

namespace {

constexpr uint64_t kMinSlotBytes = 256 * 1024;
constexpr uint64_t kMaxSlotBytes = uint64_t{64} << 20;

struct Slot {
  std::shared_ptr<io::SharedRing> ring;
  uint32_t number;
};

void release_slot(void* context) {
  const std::unique_ptr<Slot> slot(static_cast<Slot*>(context));
  slot->ring->release(slot->number);
}

c10::DataPtr memory_of(std::shared_ptr<io::SharedRing> ring, uint32_t number) {
  std::byte* const bytes = ring->slot(number);
  return {bytes, new Slot{std::move(ring), number}, &release_slot, c10::Device(c10::DeviceType::CPU)};
}

// Ring that this process makes, and rings of other processes to which it attached. Never destroyed: tensors may
// outlive every static object.
struct Rings {
  static Rings& instance() {
    static Rings& rings = *new Rings;
    return rings;
  }

  std::mutex own_mutex;  // never waited for: a forked child may inherit it locked
  std::shared_ptr<io::SharedRing> own;
  std::mutex others_mutex;
  std::vector<std::shared_ptr<io::SharedRing>> others;
};

// Keeps the two newest rings of each running process, because tickets of the older one may still arrive.
void remove_old_rings(std::vector<std::shared_ptr<io::SharedRing>>& rings) {
  std::erase_if(rings, [](const auto& ring) { return !threads::is_running(ring->address().process); });
  for (size_t i = 0; i < rings.size();) {
    const auto same = [&](const auto& ring) { return ring->address().process == rings[i]->address().process; };
    const bool is_old = std::count_if(rings.begin() + static_cast<std::ptrdiff_t>(i), rings.end(), same) > 2;
    if (is_old) {
      rings.erase(rings.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

// A message: the ticket of the arena, whose number is 0 if it has none, and its bytes; then for each tensor its type
// (kOutside: it is not a view of the arena), rank, offset in bytes and sizes.
constexpr size_t kTicketNumbers = sizeof(io::RingTicket) / sizeof(int64_t);
constexpr size_t kViewNumbers = 3;
constexpr int64_t kOutside = -1;

// Nullopt if the arena is not in a slot of this process.
std::optional<io::RingTicket> issue_ticket(const at::Tensor& arena) {
  const c10::DataPtr& memory = arena.storage().data_ptr();
  if (memory.get_deleter() != &release_slot) return std::nullopt;
  const Slot& slot = *static_cast<Slot*>(memory.get_context());
  if (slot.ring->address().process != threads::process_id()) return std::nullopt;  // received here, not made
  return slot.ring->issue(slot.number);
}

at::Tensor redeem_ticket(const io::RingTicket& ticket, size_t bytes) {
  Rings& rings = Rings::instance();
  std::shared_ptr<io::SharedRing> ring;
  {
    const std::lock_guard lock(rings.others_mutex);
    const auto found = std::ranges::find(rings.others, ticket.ring.id, [](const auto& r) { return r->address().id; });
    if (found != rings.others.end()) ring = *found;
  }
  if (!ring) ring = io::SharedRing::attach(ticket.ring);
  if (!ring) throw IoError(ESTALE, "the shared memory of a worker process is gone", "shared memory");
  if (bytes > ring->slot_bytes()) throw InternalError("a batch is larger than its slot");
  if (!ring->redeem(ticket)) throw InternalError("a batch of a worker process was unpickled twice");
  return wrap_memory(memory_of(std::move(ring), ticket.slot), bytes, bytes);
}

}  // namespace

std::optional<c10::DataPtr> allocate_slot(size_t bytes) {
  Rings& rings = Rings::instance();
  const std::unique_lock lock(rings.own_mutex, std::try_to_lock);
  if (!lock || bytes > kMaxSlotBytes) return std::nullopt;
  std::shared_ptr<io::SharedRing>& own = rings.own;
  if (!own || own->address().process != threads::process_id() || own->slot_bytes() < bytes) {
    own = io::SharedRing::create(std::min(std::bit_ceil(std::max<uint64_t>(2 * bytes, kMinSlotBytes)), kMaxSlotBytes));
  }
  if (!own->is_attached()) return std::nullopt;
  const std::optional<uint32_t> number = own->claim();
  return number ? std::optional(memory_of(own, *number)) : std::nullopt;
}

std::optional<io::RingAddress> ring_to_attach() {
  Rings& rings = Rings::instance();
  const std::unique_lock lock(rings.own_mutex, std::try_to_lock);
  if (!lock || !rings.own || rings.own->address().process != threads::process_id() || rings.own->is_attached()) {
    return std::nullopt;
  }
  return rings.own->address();
}

SentTensors send_tensors(const at::Tensor& arena, std::span<const at::Tensor> tensors) {
  SentTensors sent{std::vector<int64_t>(kTicketNumbers), {}, false};
  std::vector<int64_t>& message = sent.message;
  message.reserve(kTicketNumbers + 1 + tensors.size() * (kViewNumbers + 2));
  message.push_back(arena.numel());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    const std::optional<DType> dtype = is_view_of(tensor, arena) ? find_dtype(tensor.scalar_type()) : std::nullopt;
    if (!dtype) {
      message.push_back(kOutside);
      sent.outside.push_back(i);
      continue;
    }
    message.push_back(static_cast<int64_t>(*dtype));
    message.push_back(tensor.dim());
    message.push_back(tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize()));
    message.insert(message.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  if (sent.outside.size() == tensors.size()) return sent;
  if (const std::optional<io::RingTicket> ticket = issue_ticket(arena)) {
    std::memcpy(message.data(), &*ticket, sizeof(io::RingTicket));
    sent.has_arena = true;
  }
  return sent;
}

ArenaTensors receive_tensors(std::span<const int64_t> message, const std::optional<at::Tensor>& arena) {
  const auto take = [&](size_t count) {
    if (count > message.size()) throw InternalError("a message of a worker process ends early");
    const std::span<const int64_t> taken = message.first(count);
    message = message.subspan(count);
    return taken;
  };
  io::RingTicket ticket{};
  std::memcpy(&ticket, take(kTicketNumbers).data(), sizeof(ticket));
  const auto bytes = static_cast<size_t>(take(1).front());
  ArenaTensors received;
  if (arena) {
    received.arena = *arena;
  } else if (ticket.number != 0) {
    received.arena = redeem_ticket(ticket, bytes);
  }
  while (!message.empty()) {
    const int64_t dtype = message.front();
    if (dtype == kOutside) {
      take(1);
      received.views.emplace_back();
      continue;
    }
    if (dtype < 0 || std::cmp_greater_equal(dtype, kNumberOfDTypes)) {
      throw InternalError(cat("a message of a worker process has a tensor of type ", dtype));
    }
    const auto head = take(kViewNumbers);
    received.views.push_back(view_arena(received.arena, static_cast<DType>(dtype), static_cast<size_t>(head[2]),
                                        take(static_cast<size_t>(head[1]))));
  }
  return received;
}

bool attach_ring(const io::RingAddress& address) {
  std::shared_ptr<io::SharedRing> ring = io::SharedRing::attach(address);
  if (!ring) return false;
  Rings& rings = Rings::instance();
  const std::lock_guard lock(rings.others_mutex);
  rings.others.push_back(std::move(ring));
  remove_old_rings(rings.others);
  return true;
}

}  // namespace atompack::collate
