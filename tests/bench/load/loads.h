// What benches of a shared server have in common: tenants with tokens, programs that take so long, and loads.
#ifndef KILN_TESTS_BENCH_LOAD_LOADS_H_
#define KILN_TESTS_BENCH_LOAD_LOADS_H_

#include <memory>
#include <string>
#include <vector>

#include "client/load/generator.h"
#include "kiln/v1/graph.pb.h"

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

// A tenant of the server's file, whose token is "secret of NAME"; `more` is further fields.
std::string TenantText(const std::string& name, const std::string& more);
std::string TokenOf(const std::string& name);

// A hundred sines of each of so many numbers, in place: some 50 ns for each on one core. With "{n}" in the place of the
// number, a graph to be compiled.
std::string SinesText(const std::string& elements);
v1::Graph SinesOf(int64_t elements);
// Their sum, and nothing is written: for runs that a deadline may stop. One that is stopped leaves what it was writing
// poisoned, so in place it would be the last that works.
std::string SumOfSinesText(const std::string& elements);

// Ends the process where the mix is wrong or the server refuses it.
std::unique_ptr<load::Generator> MakeLoad(const std::string& address, const std::string& mix);
// The class of this name.
const load::ClassResult& ResultOf(const std::vector<load::ClassResult>& results, const std::string& name);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_LOAD_LOADS_H_
