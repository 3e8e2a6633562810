// The part of a vendor's library that Kiln calls and that all vendors have.
//
// The prototypes are ours and have no type of a vendor's: handles are void*, enumerations and
// devices int, addresses of the card's memory 64-bit numbers. A vendor gives the names under which
// its library has them (Symbols), and adds what only it has.
#ifndef KILN_RUNTIME_DRIVERS_GPU_CARD_LIBRARY_H_
#define KILN_RUNTIME_DRIVERS_GPU_CARD_LIBRARY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/drivers/gpu/entry_points.h"

namespace kiln::runtime::gpu {

struct CardLibrary : EntryPoints {
  // The symbols of the entries below, by the entries' names.
  struct Symbols {
    const char *init, *get_version, *get_device_count, *device_get_name, *device_total_memory, *device_can_access_peer;
    const char *allocate, *free, *allocate_host, *free_host;
    const char *stream_create, *stream_destroy, *stream_synchronize, *stream_wait_event;
    const char *event_create, *event_destroy, *event_record, *event_synchronize, *event_query, *event_elapsed_time;
    const char *copy_to_device, *copy_to_host, *copy_on_device, *set_8, *set_16, *set_32;
    const char *stream_begin_capture, *stream_end_capture, *graph_destroy, *graph_launch, *graph_exec_destroy;
    const char *module_unload, *module_get_function, *function_get_attribute, *launch_kernel;
  };
  explicit CardLibrary(const Symbols& names) : symbols(names) {}
  virtual ~CardLibrary() = default;

  struct Error {
    std::string name, text;
  };
  // The library's name and text of an error.
  virtual Error ErrorOf(int code) const = 0;
  // "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)".
  std::string ErrorText(int code) const {
    const Error error = ErrorOf(code);
    return error.name + " (" + error.text + ")";
  }

  const Symbols symbols;

  Entry<int(unsigned)> Init{this, symbols.init};
  Entry<int(int*)> GetVersion{this, symbols.get_version};
  Entry<int(int*)> GetDeviceCount{this, symbols.get_device_count};
  Entry<int(char*, int, int)> DeviceGetName{this, symbols.device_get_name};
  Entry<int(size_t*, int)> DeviceTotalMemory{this, symbols.device_total_memory};
  Entry<int(int*, int, int)> DeviceCanAccessPeer{this, symbols.device_can_access_peer};

  Entry<int(uint64_t*, size_t)> Allocate{this, symbols.allocate};
  Entry<int(uint64_t)> Free{this, symbols.free};
  Entry<int(void**, size_t, unsigned)> AllocateHost{this, symbols.allocate_host};
  Entry<int(void*)> FreeHost{this, symbols.free_host};

  Entry<int(void**, unsigned)> StreamCreate{this, symbols.stream_create};
  Entry<int(void*)> StreamDestroy{this, symbols.stream_destroy};
  Entry<int(void*)> StreamSynchronize{this, symbols.stream_synchronize};
  Entry<int(void*, void*, unsigned)> StreamWaitEvent{this, symbols.stream_wait_event};
  Entry<int(void**, unsigned)> EventCreate{this, symbols.event_create};
  Entry<int(void*)> EventDestroy{this, symbols.event_destroy};
  Entry<int(void*, void*)> EventRecord{this, symbols.event_record};
  Entry<int(void*)> EventSynchronize{this, symbols.event_synchronize};
  Entry<int(void*)> EventQuery{this, symbols.event_query};
  Entry<int(float*, void*, void*)> EventElapsedTime{this, symbols.event_elapsed_time};

  Entry<int(uint64_t, const void*, size_t, void*)> CopyToDevice{this, symbols.copy_to_device};
  Entry<int(void*, uint64_t, size_t, void*)> CopyToHost{this, symbols.copy_to_host};
  Entry<int(uint64_t, uint64_t, size_t, void*)> CopyOnDevice{this, symbols.copy_on_device};
  Entry<int(uint64_t, unsigned char, size_t, void*)> Set8{this, symbols.set_8};
  Entry<int(uint64_t, unsigned short, size_t, void*)> Set16{this, symbols.set_16};
  Entry<int(uint64_t, unsigned, size_t, void*)> Set32{this, symbols.set_32};

  Entry<int(void*, int)> StreamBeginCapture{this, symbols.stream_begin_capture};
  Entry<int(void*, void**)> StreamEndCapture{this, symbols.stream_end_capture};
  Entry<int(void*)> GraphDestroy{this, symbols.graph_destroy};
  Entry<int(void*, void*)> GraphLaunch{this, symbols.graph_launch};
  Entry<int(void*)> GraphExecDestroy{this, symbols.graph_exec_destroy};

  Entry<int(void*)> ModuleUnload{this, symbols.module_unload};
  Entry<int(void**, void*, const char*)> ModuleGetFunction{this, symbols.module_get_function};
  Entry<int(int*, int, void*)> FunctionGetAttribute{this, symbols.function_get_attribute};
  Entry<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)>
      LaunchKernel{this, symbols.launch_kernel};
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_CARD_LIBRARY_H_
