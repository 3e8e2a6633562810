// CHECK: for what only we can cause. The outside gets a Status instead.
#ifndef KILN_BASE_CHECK_H_
#define KILN_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define KILN_CHECK(condition)                                                            \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#endif  // KILN_BASE_CHECK_H_
