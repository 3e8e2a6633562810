// Writes files into C++ source, so that the program has them with it: embed PREFIX FILE… > web_files.cc.
//
// A file's path is what follows PREFIX in its name. Tested by tests/python/pages_test.py, which compares what is
// served with the files.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

// A literal of lines that a compiler reads fast. Bytes that are no plain letters are written in octal, of three
// digits, which no letter that follows can make longer.
void PrintLiteral(const std::string& bytes) {
  std::string line;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || byte == ' ') {
      line.push_back(c);
    } else {
      char octal[5];
      std::snprintf(octal, sizeof(octal), "\\%03o", byte);
      line += octal;
    }
    if (line.size() >= 100) {
      std::printf("      \"%s\"\n", line.c_str());
      line.clear();
    }
  }
  std::printf("      \"%s\"", line.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string prefix = argv[1];
  std::vector<std::string> names(argv + 2, argv + argc);
  std::sort(names.begin(), names.end());
  std::printf(
      "#include \"server/admin/web_files.h\"\n\nnamespace kiln::server {\n\nabsl::Span<const WebFile> WebFiles() {\n"
      "  static constexpr WebFile kFiles[] = {\n");
  for (const std::string& name : names) {
    std::ifstream file(name, std::ios::binary);
    const std::string bytes = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file || name.find(prefix) == std::string::npos) {
      std::fprintf(stderr, "embed: cannot read %s, or it is not below %s\n", name.c_str(), prefix.c_str());
      return 1;
    }
    std::printf("    {\"%s\",\n     absl::string_view(\n", name.c_str() + name.find(prefix) + prefix.size());
    PrintLiteral(bytes);
    std::printf(",\n      %zu)},\n", bytes.size());
  }
  std::printf("  };\n  return kFiles;\n}\n\n}  // namespace kiln::server\n");
  return 0;
}
