// What a stream of commands does, one after the other: which handles there are, on which
// device, what memory holds, which bytes are poisoned and by whom.
#ifndef KILN_TESTS_E2E_SUBMIT_SUBMIT_MODEL_H_
#define KILN_TESTS_E2E_SUBMIT_SUBMIT_MODEL_H_

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kiln/v1/error.pb.h"

namespace kiln::e2e {

// Of each byte: what it holds, and the command that poisons it; 0 if none does.
struct Memory {
  Memory(std::string held, int where) : bytes(std::move(held)), causes(bytes.size(), 0), device(where) {}
  std::string bytes;
  std::vector<uint64_t> causes;
  int device;
};

// A handle's part of a memory; without one, what a failed command left, and which it was.
struct Named {
  std::shared_ptr<Memory> memory;
  size_t offset = 0, bytes = 0;
  uint64_t cause = 0;
};

// What one command is answered, if it is.
struct Expected {
  v1::ErrorCode code = v1::ERROR_CODE_UNSPECIFIED;
  uint64_t cause = 0;
  bool has_data = false;
  std::string data;

  bool ok() const { return code == v1::ERROR_CODE_UNSPECIFIED; }
};

// The model: each function is a command, and says how it ends.
class Model {
 public:
  Expected Allocate(uint64_t id, uint64_t handle, size_t bytes, int device) {
    if (names_.count(handle) != 0) return {v1::HANDLE_TAKEN};
    names_[handle] = {std::make_shared<Memory>(std::string(bytes, '\0'), device), 0, bytes};
    return {};
  }
  Expected View(uint64_t id, uint64_t handle, uint64_t of, size_t offset, size_t bytes) {
    const bool taken = names_.count(handle) != 0;
    Expected end = Find(of, offset, bytes);
    const bool made = end.ok() && !taken;
    const auto found = names_.find(of);
    const Named from = found == names_.end() ? Named() : found->second;
    const size_t rest = made ? bytes : from.bytes - std::min(offset, from.bytes);
    if (const uint64_t cause = from.memory == nullptr ? from.cause : CauseIn(from, offset, rest); cause != 0)
      end = {codes_[cause], cause};
    if (taken) return end.cause == 0 ? Expected{v1::HANDLE_TAKEN} : end;
    // Of poisoned bytes it is made, and says so.
    names_[handle] = made ? Named{from.memory, from.offset + offset, bytes} : Stillborn(id, end);
    return end;
  }
  Expected Write(uint64_t id, uint64_t handle, size_t offset, const std::string& data) {
    const Expected end = Find(handle, offset, data.size());
    if (!end.ok()) return MarkPoisoned(id, handle, offset, data.size(), end);
    std::memcpy(At(handle) + offset, data.data(), data.size());
    Heal(handle, offset, data.size());
    return {};
  }
  Expected Fill(uint64_t id, uint64_t handle, const std::string& pattern) {
    Expected end = Find(handle, 0, 0);
    const size_t bytes = end.ok() ? names_[handle].bytes : 0;
    if (end.ok() && bytes % pattern.size() != 0) end = {v1::BAD_ARGUMENT};
    if (!end.ok()) return MarkPoisoned(id, handle, 0, bytes, end);
    for (size_t i = 0; i < bytes; ++i) At(handle)[i] = pattern[i % pattern.size()];
    Heal(handle, 0, bytes);
    return {};
  }
  Expected Copy(uint64_t id, uint64_t from, uint64_t to, size_t bytes) {
    Expected end = Earliest(Check(from, 0, bytes), Find(to, 0, bytes));
    if (!end.ok()) return MarkPoisoned(id, to, 0, bytes, end);
    std::memmove(At(to), At(from), bytes);
    Heal(to, 0, bytes);
    return {};
  }
  // On `device`, a new memory is 8 bytes of `handle`, each one more.
  Expected Execute(uint64_t id, uint64_t handle, uint64_t result, int device) {
    const bool taken = names_.count(result) != 0;
    Expected end = Check8(handle);
    if (taken) return end.cause == 0 ? Expected{v1::HANDLE_TAKEN} : end;
    // What is found out once the program is there, and the result's memory with it.
    const bool made = Reaches(handle);
    if (end.ok() && !IsOn(handle, device)) end = {v1::BUFFER_DEVICE_MISMATCH};
    if (!made) {
      names_[result] = Stillborn(id, end);
      return end;
    }
    names_[result] = {std::make_shared<Memory>(std::string(At(handle), 8), device), 0, 8};
    for (char& byte : names_[result].memory->bytes) ++byte;
    return end.ok() ? end : MarkPoisoned(id, result, 0, 8, end);
  }
  // On `device`, 8 bytes of `handle` become one more.
  Expected Update(uint64_t id, uint64_t handle, int device) {
    Expected end = Check8(handle);
    if (end.ok() && !IsOn(handle, device)) end = {v1::BUFFER_DEVICE_MISMATCH};
    if (!end.ok()) return MarkPoisoned(id, handle, 0, 8, end);
    for (int i = 0; i < 8; ++i) ++At(handle)[i];
    return {};
  }
  // On `device`, 8 bytes of `to` become those of `from`, each one more, whatever they were.
  Expected Replace(uint64_t id, uint64_t from, uint64_t to, int device) {
    Expected end = Earliest(Check8(from), Find8(to));
    if (end.ok() && !(IsOn(from, device) && IsOn(to, device))) end = {v1::BUFFER_DEVICE_MISMATCH};
    if (end.ok() && Share8(from, to)) end = {v1::BAD_ARGUMENT};
    if (!end.ok()) return MarkPoisoned(id, to, 0, 8, end);
    for (int i = 0; i < 8; ++i) At(to)[i] = static_cast<char>(At(from)[i] + 1);
    Heal(to, 0, 8);
    return {};
  }
  // Update of `a`, then Replace of `b` by it, recorded for device 0.
  Expected Replay(uint64_t id, uint64_t a, uint64_t b) {
    Expected end = Earliest(Check(a, 0, 8), Find(b, 0, 0));
    if (end.cause == 0) {
      end = Find(a, 0, 0);
      if (end.ok()) end = Find(b, 0, 0);
      for (const uint64_t handle : {a, b}) {
        if (end.ok() && !IsOn(handle, 0)) end = {v1::BUFFER_DEVICE_MISMATCH};
        if (end.ok()) end = Find8(handle);
      }
      if (end.ok() && Share8(a, b)) end = {v1::BAD_ARGUMENT};
    }
    if (!end.ok()) {
      MarkPoisoned(id, b, 0, 8, end);
      return MarkPoisoned(id, a, 0, 8, end);
    }
    for (int i = 0; i < 8; ++i) At(b)[i] = static_cast<char>(++At(a)[i] + 1);
    Heal(b, 0, 8);
    return {};
  }
  Expected Read(uint64_t handle) {
    Expected end = Check(handle, 0, names_.count(handle) != 0 ? names_[handle].bytes : 0);
    if (!end.ok()) return end;
    end.has_data = true;
    end.data.assign(At(handle), names_[handle].bytes);
    return end;
  }
  Expected Free(const std::vector<uint64_t>& handles) {
    std::set<uint64_t> distinct;
    bool unknown = false;
    for (const uint64_t handle : handles) {
      if (!distinct.insert(handle).second) return {v1::UNKNOWN_HANDLE};
      if (names_.count(handle) != 0) continue;
      if (freed_.count(handle) != 0) return {v1::HANDLE_FREED};
      unknown = true;
    }
    if (unknown) return {v1::UNKNOWN_HANDLE};
    for (const uint64_t handle : handles) {
      names_.erase(handle);
      freed_.insert(handle);
    }
    return {};
  }
  // How often memory was poisoned, and healed.
  int poisoned = 0, healed = 0;

 private:
  char* At(uint64_t handle) { return names_[handle].memory->bytes.data() + names_[handle].offset; }

  // Whether the bytes are there to be written to.
  Expected Find(uint64_t handle, size_t offset, size_t bytes) {
    const auto named = names_.find(handle);
    if (named == names_.end()) return {freed_.count(handle) != 0 ? v1::HANDLE_FREED : v1::UNKNOWN_HANDLE};
    if (named->second.memory == nullptr) return {codes_[named->second.cause], named->second.cause};
    return {offset + bytes <= named->second.bytes ? v1::ERROR_CODE_UNSPECIFIED : v1::OUT_OF_BOUNDS};
  }
  // The bytes of the memory that are meant; of those that are not there, the whole handle's.
  static std::pair<size_t, size_t> Meant(const Named& named, size_t offset, size_t bytes) {
    if (offset + bytes > named.bytes) return {named.offset, named.offset + named.bytes};
    return {named.offset + offset, named.offset + offset + bytes};
  }
  static uint64_t CauseIn(const Named& named, size_t offset, size_t bytes) {
    uint64_t first = 0;
    const auto [begin, end] = Meant(named, offset, bytes);
    for (size_t i = begin; i < end; ++i) {
      const uint64_t cause = named.memory->causes[i];
      if (cause != 0 && (first == 0 || cause < first)) first = cause;
    }
    return first;
  }
  // Whether they are there to be read.
  Expected Check(uint64_t handle, size_t offset, size_t bytes) {
    const Expected end = Find(handle, offset, bytes);
    const auto named = names_.find(handle);
    if (named == names_.end() || named->second.memory == nullptr) return end;
    const uint64_t cause = CauseIn(named->second, offset, bytes);
    return cause == 0 ? end : Expected{codes_[cause], cause};
  }
  // As an argument of 8 bytes: to be read, or to be overwritten.
  Expected Check8(uint64_t handle) {
    Expected end = Check(handle, 0, 8);
    return end.code == v1::OUT_OF_BOUNDS && end.cause == 0 ? Find8(handle) : end;
  }
  Expected Find8(uint64_t handle) {
    const Expected end = Find(handle, 0, 8);
    return end.code == v1::OUT_OF_BOUNDS && end.cause == 0 ? Expected{v1::BUFFER_SIZE_MISMATCH} : end;
  }
  // Whether a program gets as far as being started with it.
  bool Reaches(uint64_t handle) {
    const auto named = names_.find(handle);
    return named != names_.end() && named->second.memory != nullptr && named->second.bytes >= 8;
  }
  bool IsOn(uint64_t handle, int device) { return names_[handle].memory->device == device; }
  bool Share8(uint64_t a, uint64_t b) {
    const Named &first = names_[a], &second = names_[b];
    return first.memory == second.memory && first.offset < second.offset + 8 && second.offset < first.offset + 8;
  }
  // The one that is told of two that a command meets.
  static Expected Earliest(const Expected& first, const Expected& second) {
    if (second.cause != 0 && (first.cause == 0 || second.cause < first.cause)) return second;
    return first.ok() ? second : first;
  }
  Named Stillborn(uint64_t id, const Expected& end) { return {nullptr, 0, 0, CauseOf(id, end)}; }
  uint64_t CauseOf(uint64_t id, const Expected& end) {
    if (end.cause != 0) return end.cause;
    codes_[id] = end.code;
    return id;
  }
  Expected MarkPoisoned(uint64_t id, uint64_t handle, size_t offset, size_t bytes, const Expected& end) {
    const uint64_t cause = CauseOf(id, end);
    const auto named = names_.find(handle);
    if (named == names_.end() || named->second.memory == nullptr) return end;
    const auto [first, last] = Meant(named->second, offset, bytes);
    for (size_t i = first; i < last; ++i) {
      uint64_t& there = named->second.memory->causes[i];
      if (there == 0) there = cause;
    }
    ++poisoned;
    return end;
  }
  void Heal(uint64_t handle, size_t offset, size_t bytes) {
    const auto [first, last] = Meant(names_[handle], offset, bytes);
    for (size_t i = first; i < last; ++i) {
      healed += names_[handle].memory->causes[i] != 0;
      names_[handle].memory->causes[i] = 0;
    }
  }

  std::map<uint64_t, Named> names_;
  std::set<uint64_t> freed_;
  std::map<uint64_t, v1::ErrorCode> codes_;  // of causes
};

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_SUBMIT_SUBMIT_MODEL_H_
