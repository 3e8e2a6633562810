// Which release this is, of the server, the command line and the C++ client alike.
#ifndef KILN_BASE_RELEASE_H_
#define KILN_BASE_RELEASE_H_

namespace kiln {

// Raised whenever generated code may change, too: a program stored under another one is not used.
inline constexpr char kRelease[] = "kiln-0.15.0";

}  // namespace kiln

#endif  // KILN_BASE_RELEASE_H_
