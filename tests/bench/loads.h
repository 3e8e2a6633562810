// What benches of a loaded server have in common: files, a program that takes so long, and loads.
#ifndef KILN_TESTS_BENCH_LOADS_H_
#define KILN_TESTS_BENCH_LOADS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "client/load/generator.h"

namespace kiln::bench {

// A folder of files for one bench; removed with it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  // The path of a file with this text.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// A hundred sines of each of so many numbers, in place: some 50 ns for each on one core.
std::string SinesText(int64_t elements);

// Ends the process where the mix is wrong or the server refuses it.
std::unique_ptr<load::Generator> MakeLoad(const std::string& address, const std::string& mix);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_LOADS_H_
