// A model's state as bytes: written and read back, on any machine of the same byte order (all targets are little-endian).
//
// Header (all integers little-endian): 8 bytes "TFAOTSTA", the version of this format (4), the number of tensors (4), a
// digest of the model's name and of the names, types and shapes of the tensors (8), the number of all bytes (8). Then the
// values of the tensors, in the order of tfaot_info, without gaps; then a checksum of all before it (8). Digest and checksum
// are 64-bit FNV-1a: they detect accidents, not attacks.

#include <cstdio>
#include <cstring>

#include "model.h"

namespace tfaot_native {
namespace {

constexpr char kMagic[8] = {'T', 'F', 'A', 'O', 'T', 'S', 'T', 'A'};
constexpr std::uint32_t kVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t count;
  std::uint64_t layout;
  std::uint64_t size;
};
static_assert(sizeof(Header) == 32, "the header has no gaps");

class Digest {
 public:
  void add(const void* bytes, std::size_t size) {
    const auto* const data = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < size; ++i) value_ = (value_ ^ data[i]) * 0x100000001b3u;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

const tfaot_info& info() { return model_data.info; }

const tfaot_tensor& tensor(std::size_t i) { return info().inputs[info().states[i].input]; }

std::size_t bytes_of(const tfaot_tensor& each) {
  return static_cast<std::size_t>(each.row_elements) * static_cast<std::size_t>(each.element_size);
}

std::uint64_t layout() {
  Digest digest;
  digest.add(info().name, std::strlen(info().name) + 1);
  for (std::size_t i = 0; i < info().num_states; ++i) {
    digest.add(info().states[i].name, std::strlen(info().states[i].name) + 1);
    digest.add(&tensor(i).dtype, sizeof tensor(i).dtype);
    digest.add(&tensor(i).rank, sizeof tensor(i).rank);
    digest.add(tensor(i).shape, static_cast<std::size_t>(tensor(i).rank) * sizeof *tensor(i).shape);
  }
  return digest.value();
}

std::uint64_t checksum(const void* bytes, std::size_t size) {
  Digest digest;
  digest.add(bytes, size);
  return digest.value();
}

tfaot_status fail(char* message, std::size_t size, const char* reason) {
  if (message != nullptr && size != 0) std::snprintf(message, size, "model %s: %s", info().name, reason);
  return TFAOT_INVALID_ARGUMENT;
}

// Why `bytes` cannot be the state of this model; null if they can.
const char* fault_of(const void* bytes, std::size_t size, char* text, std::size_t text_size) {
  const std::size_t wanted = state_bytes();
  if (wanted == 0) return "it has no state";
  if (bytes == nullptr) return "no bytes of a state were given";
  Header header;
  if (size >= sizeof header) std::memcpy(&header, bytes, sizeof header);
  if (size < sizeof header || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return "these bytes are no saved state";
  if (header.version != kVersion) {
    std::snprintf(text, text_size, "the state was saved in version %u of the format, this library reads version %u",
                  static_cast<unsigned>(header.version), static_cast<unsigned>(kVersion));
    return text;
  }
  if (header.layout != layout() || header.count != info().num_states || header.size != wanted) {
    return "this is the state of another model, or of a version with other variables";
  }
  if (size != wanted) {
    std::snprintf(text, text_size, "the state has %zu bytes, it must have %zu", size, wanted);
    return text;
  }
  std::uint64_t sum;
  std::memcpy(&sum, static_cast<const unsigned char*>(bytes) + size - sizeof sum, sizeof sum);
  return sum == checksum(bytes, size - sizeof sum) ? nullptr : "the state is damaged: its checksum is wrong";
}

bool any_null(const void* const* state) {
  if (state == nullptr) return true;
  for (std::size_t i = 0; i < info().num_states; ++i) {
    if (state[i] == nullptr) return true;
  }
  return false;
}

}  // namespace

std::size_t state_bytes() {
  if (info().num_states == 0) return 0;
  std::size_t size = sizeof(Header) + sizeof(std::uint64_t);
  for (std::size_t i = 0; i < info().num_states; ++i) size += bytes_of(tensor(i));
  return size;
}

tfaot_status save_state(const void* const* state, void* bytes, std::size_t size, char* message, std::size_t message_size) {
  const std::size_t wanted = state_bytes();
  if (wanted == 0) return fail(message, message_size, "it has no state");
  if (bytes == nullptr || any_null(state)) return fail(message, message_size, "a null pointer was given");
  if (size != wanted) {
    char reason[96];
    std::snprintf(reason, sizeof reason, "its state takes %zu bytes, room for %zu was given", wanted, size);
    return fail(message, message_size, reason);
  }
  Header header = {{}, kVersion, static_cast<std::uint32_t>(info().num_states), layout(), wanted};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  auto* at = static_cast<unsigned char*>(bytes);
  std::memcpy(at, &header, sizeof header);
  at += sizeof header;
  for (std::size_t i = 0; i < info().num_states; ++i) {
    std::memcpy(at, state[i], bytes_of(tensor(i)));
    at += bytes_of(tensor(i));
  }
  const std::uint64_t sum = checksum(bytes, size - sizeof sum);
  std::memcpy(at, &sum, sizeof sum);
  return TFAOT_OK;
}

tfaot_status restore_state(const void* bytes, std::size_t size, void* const* state, char* message,
                           std::size_t message_size) {
  char text[96];
  const char* const fault = fault_of(bytes, size, text, sizeof text);
  if (fault != nullptr) return fail(message, message_size, fault);
  if (any_null(state)) return fail(message, message_size, "a null pointer was given");
  const auto* at = static_cast<const unsigned char*>(bytes) + sizeof(Header);
  for (std::size_t i = 0; i < info().num_states; ++i) {
    std::memcpy(state[i], at, bytes_of(tensor(i)));
    at += bytes_of(tensor(i));
  }
  return TFAOT_OK;
}

}  // namespace tfaot_native
