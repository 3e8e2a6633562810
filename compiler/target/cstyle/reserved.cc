#include "compiler/target/cstyle/reserved.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"

namespace kiln::compiler {
namespace {

// Of all the languages together: a name that is free in each is the same in each.
constexpr absl::string_view kWords[] = {
    // C and C++
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
    "class", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "co_await",
    "co_return", "co_yield", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "final", "float", "for", "friend", "goto", "if", "import", "inline", "int",
    "long", "main", "module", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
    "or_eq", "override", "private", "protected", "public", "register", "reinterpret_cast", "requires", "restrict",
    "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template",
    "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof", "union", "unsigned",
    "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
    // OpenCL and Metal
    "constant", "device", "fragment", "global", "half", "image", "kernel", "local", "metal", "pipe", "sampler",
    "thread", "threadgroup", "uchar", "uint", "ulong", "ushort", "vec", "vertex",
    // what the texts themselves use
    "fmax", "fmin", "max", "min", "select", "std"};

// Elements of vectors: a number from 1 to 16 follows.
constexpr absl::string_view kElements[] = {"bool",  "char", "uchar", "short",  "ushort", "int",      "uint",     "long",
                                           "ulong", "half", "float", "double", "bfloat", "longlong", "ulonglong"};

}  // namespace

bool IsReserved(absl::string_view name) {
  static const auto* const kAll = new absl::flat_hash_set<absl::string_view>(std::begin(kWords), std::end(kWords));
  static const auto* const kVectors =
      new absl::flat_hash_set<absl::string_view>(std::begin(kElements), std::end(kElements));
  size_t letters = name.size();
  while (letters > 0 && absl::ascii_isdigit(static_cast<unsigned char>(name[letters - 1]))) --letters;
  return kAll->contains(name) || (letters < name.size() && kVectors->contains(name.substr(0, letters)));
}

}  // namespace kiln::compiler
