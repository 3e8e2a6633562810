// Which build this process is.
#ifndef KILN_SERVER_BUILD_ID_H_
#define KILN_SERVER_BUILD_ID_H_

#include <string>

namespace kiln::server {

// 16 hexadecimal digits that are others as soon as the program, or a library that it has
// loaded, is another: what the linker calls their build ids, digested, and the bytes of
// a file that has none. People forget to raise a version number; code that was
// stored by yesterday's compiler must not pass for today's.
std::string BuildId();

}  // namespace kiln::server

#endif  // KILN_SERVER_BUILD_ID_H_
