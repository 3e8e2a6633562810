// kiln_opt: one pass on one graph, from a file or standard input.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "CLI/CLI.hpp"
#include "compiler/tools/passes.h"

int main(int argc, char** argv) {
  CLI::App app{"Runs one compiler pass on one graph in the numbered text form, and prints the result."};
  std::string pass, file = "-";
  uint32_t vector_bytes = 64;
  app.add_option("pass", pass, "The pass, by name")->required();
  app.add_option("file", file, "A .uop file, or - for standard input");
  app.add_option("--vector_bytes", vector_bytes, "Width of the imagined machine's vector registers");
  std::string list = "Passes:\n";
  for (const auto& known : kiln::compiler::NamedPasses()) {
    list += "  " + std::string(known.name) + std::string(18 - known.name.size(), ' ') + std::string(known.what) + "\n";
  }
  list += "  render_LANGUAGE   all passes, to source in c, cuda, hip, opencl or metal\n";
  app.footer(list + "\nExample:\n  kiln_opt rangeify tests/golden/rangeify/matmul.uop");
  CLI11_PARSE(app, argc, argv);

  std::ostringstream text;
  if (file == "-") {
    text << std::cin.rdbuf();
  } else {
    std::ifstream stream(file);
    if (!stream) {
      std::cerr << "kiln_opt: cannot read " << file << "\n";
      return 2;
    }
    text << stream.rdbuf();
  }
  const absl::StatusOr<std::string> result = kiln::compiler::RunNamedPass(pass, text.str(), vector_bytes);
  if (!result.ok()) {
    std::cerr << "kiln_opt: " << result.status().message() << "\n";
    return 1;
  }
  std::cout << *result;
  return 0;
}
