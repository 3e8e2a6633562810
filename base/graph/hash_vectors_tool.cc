// Prints hash_vectors.json for a cases file: hash_vectors_tool hash_cases.txt
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/graph/hash_cases.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s hash_cases.txt > hash_vectors.json\n", argv[0]);
    return 2;
  }
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  const auto cases = kiln::ParseHashCases(text.str());
  const auto json = cases.ok() ? kiln::HashVectorsJson(*cases) : absl::StatusOr<std::string>(cases.status());
  if (!file || !json.ok()) {
    std::fprintf(stderr, "%s: %s\n", argv[1], json.ok() ? "cannot be read" : json.status().ToString().c_str());
    return 1;
  }
  std::fputs(json->c_str(), stdout);
  return 0;
}
