// Work in a process of its own, which may crash or hang without harm.
#ifndef KILN_TESTS_REDUCE_CHILD_H_
#define KILN_TESTS_REDUCE_CHILD_H_

#include <functional>
#include <string>

namespace kiln::testing {

struct ChildEnd {
  enum Kind { kExited, kSignalled, kTimedOut };
  Kind kind = kExited;
  int code = 0;        // its exit status, or the signal
  std::string output;  // what it wrote to its descriptor
};

// Forks; the child runs `work` with a descriptor to write to and ends with what it
// returns. Its standard output and error go nowhere. After `seconds` it is killed,
// with all that it started. The caller has one thread.
ChildEnd RunInChild(const std::function<int(int descriptor)>& work, double seconds);

// For the child: writes all of `text`.
void WriteAll(int descriptor, const std::string& text);

}  // namespace kiln::testing

#endif  // KILN_TESTS_REDUCE_CHILD_H_
