#include "runtime/drivers/gpu/library_card.h"

#include "absl/strings/str_cat.h"

namespace kiln::runtime::gpu {
namespace {

// Of the libraries' enumerations, which both vendors number alike.
enum FunctionAttribute : int { kFunctionMaxThreads = 0, kFunctionSharedBytes = 1, kFunctionRegisters = 4 };
constexpr unsigned kNonBlocking = 1;    // of streams: not in the order of the default stream
constexpr unsigned kDisableTiming = 2;  // of events
constexpr int kNotReady = 600;
constexpr int kPeerAccessAlreadyEnabled = 704;
constexpr int kRelaxedCapture = 2;  // other threads' calls do not end it

}  // namespace

LibraryCard::LibraryCard(const CardLibrary* library, const char* kind, int index) : library_(library) {
  facts_.number = index;
  facts_.name = absl::StrCat(kind, ":", index);
}

absl::Status LibraryCard::Describe(int device) {
  char product[256] = "";
  KILN_RETURN_IF_ERROR(Ask(library_->DeviceGetName, product, static_cast<int>(sizeof(product) - 1), device));
  facts_.product = product;
  size_t bytes = 0;
  KILN_RETURN_IF_ERROR(Ask(library_->DeviceTotalMemory, &bytes, device));
  facts_.memory_bytes = bytes;
  return absl::OkStatus();
}

absl::Status LibraryCard::Failed(const char* call, int code) {
  const CardLibrary::Error error = library_->ErrorOf(code);
  return Failure(call, code, error.name, error.text);
}

absl::StatusOr<bool> LibraryCard::Reached(const char* call, int code) {
  if (code == 0 || code == kPeerAccessAlreadyEnabled) return true;
  return Failed(call, code);
}

absl::StatusOr<Address> LibraryCard::Allocate(uint64_t bytes) {
  Address address = 0;
  KILN_RETURN_IF_ERROR(Call(library_->Allocate, &address, bytes));
  return address;
}

absl::Status LibraryCard::Free(Address address) { return GiveBack(library_->Free, address); }

absl::StatusOr<void*> LibraryCard::AllocatePinned(uint64_t bytes) {
  void* memory = nullptr;
  KILN_RETURN_IF_ERROR(Call(library_->AllocateHost, &memory, bytes, 0u));
  return memory;
}

absl::Status LibraryCard::FreePinned(void* memory) { return GiveBack(library_->FreeHost, memory); }

absl::StatusOr<Stream> LibraryCard::MakeStream() {
  void* stream = nullptr;
  KILN_RETURN_IF_ERROR(Call(library_->StreamCreate, &stream, kNonBlocking));
  return static_cast<Stream>(stream);
}

absl::Status LibraryCard::DestroyStream(Stream stream) { return GiveBack(library_->StreamDestroy, Raw(stream)); }

absl::Status LibraryCard::Finish(Stream stream) { return Waited(Call(library_->StreamSynchronize, Raw(stream))); }

absl::StatusOr<Event> LibraryCard::MakeEvent(unsigned flags) {
  void* event = nullptr;
  KILN_RETURN_IF_ERROR(Call(library_->EventCreate, &event, flags));
  return static_cast<Event>(event);
}

absl::StatusOr<Event> LibraryCard::MakeEvent() { return MakeEvent(kDisableTiming); }

absl::StatusOr<Event> LibraryCard::MakeTimedEvent() { return MakeEvent(0u); }

absl::Status LibraryCard::DestroyEvent(Event event) { return GiveBack(library_->EventDestroy, Raw(event)); }

absl::Status LibraryCard::Record(Event event, Stream stream) {
  return Call(library_->EventRecord, Raw(event), Raw(stream));
}

absl::Status LibraryCard::Wait(Event event) { return Waited(Call(library_->EventSynchronize, Raw(event))); }

absl::StatusOr<bool> LibraryCard::Happened(Event event) {
  KILN_RETURN_IF_ERROR(health());
  const int code = library_->EventQuery.function()(Raw(event));
  if (code == 0) return true;
  if (code == kNotReady) return false;
  return Waited(Failed(library_->EventQuery.name(), code));
}

absl::StatusOr<double> LibraryCard::SecondsBetween(Event from, Event to) {
  float milliseconds = 0;
  KILN_RETURN_IF_ERROR(Call(library_->EventElapsedTime, &milliseconds, Raw(from), Raw(to)));
  return milliseconds * 1e-3;
}

absl::Status LibraryCard::Follow(Stream stream, Event event) {
  return Call(library_->StreamWaitEvent, Raw(stream), Raw(event), 0u);
}

absl::Status LibraryCard::CopyIn(Stream stream, const void* from, Address to, uint64_t bytes) {
  return Call(library_->CopyToDevice, to, from, bytes, Raw(stream));
}

absl::Status LibraryCard::CopyOut(Stream stream, Address from, void* to, uint64_t bytes) {
  return Call(library_->CopyToHost, to, from, bytes, Raw(stream));
}

absl::Status LibraryCard::CopyInside(Stream stream, Address from, Address to, uint64_t bytes) {
  return Call(library_->CopyOnDevice, to, from, bytes, Raw(stream));
}

absl::Status LibraryCard::Fill(Stream stream, Address to, uint32_t value, uint32_t value_bytes, uint64_t count) {
  switch (value_bytes) {
    case 1: return Call(library_->Set8, to, static_cast<unsigned char>(value), count, Raw(stream));
    case 2: return Call(library_->Set16, to, static_cast<unsigned short>(value), count, Raw(stream));
    default: return Call(library_->Set32, to, value, count, Raw(stream));
  }
}

absl::Status LibraryCard::Launch(Stream stream, Function function, const LaunchShape& shape, void** parameters) {
  return Call(library_->LaunchKernel, Raw(function), shape.groups[0], shape.groups[1], shape.groups[2], shape.items[0],
              shape.items[1], shape.items[2], shape.dynamic_shared_bytes, Raw(stream), parameters, nullptr);
}

absl::StatusOr<Graph> LibraryCard::Capture(Stream stream, absl::FunctionRef<absl::Status()> launches) {
  KILN_RETURN_IF_ERROR(Call(library_->StreamBeginCapture, Raw(stream), kRelaxedCapture));
  absl::Status status = launches();
  void* graph = nullptr;
  status.Update(Call(library_->StreamEndCapture, Raw(stream), &graph));
  absl::StatusOr<void*> made = nullptr;
  if (status.ok()) made = Instantiate(graph);
  if (graph != nullptr) GiveBack(library_->GraphDestroy, graph).IgnoreError();
  if (!status.ok()) return status;
  if (!made.ok()) return made.status();
  return static_cast<Graph>(*made);
}

absl::Status LibraryCard::LaunchGraph(Stream stream, Graph graph) {
  return Call(library_->GraphLaunch, Raw(graph), Raw(stream));
}

absl::Status LibraryCard::DestroyGraph(Graph graph) { return GiveBack(library_->GraphExecDestroy, Raw(graph)); }

absl::Status LibraryCard::Unload(Image image) { return GiveBack(library_->ModuleUnload, Raw(image)); }

absl::StatusOr<Function> LibraryCard::Find(Image image, const std::string& symbol) {
  void* function = nullptr;
  absl::Status status = Call(library_->ModuleGetFunction, &function, Raw(image), symbol.c_str());
  if (!status.ok()) return Annotate(status, absl::StrCat("kernel ", symbol));
  return static_cast<Function>(function);
}

absl::StatusOr<FunctionFacts> LibraryCard::FactsOf(Function function) {
  int items = 0, shared = 0, registers = 0;
  KILN_RETURN_IF_ERROR(Call(library_->FunctionGetAttribute, &items, int{kFunctionMaxThreads}, Raw(function)));
  KILN_RETURN_IF_ERROR(Call(library_->FunctionGetAttribute, &shared, int{kFunctionSharedBytes}, Raw(function)));
  KILN_RETURN_IF_ERROR(Call(library_->FunctionGetAttribute, &registers, int{kFunctionRegisters}, Raw(function)));
  return FunctionFacts{static_cast<uint64_t>(items), static_cast<uint64_t>(shared), static_cast<uint64_t>(registers)};
}

}  // namespace kiln::runtime::gpu
