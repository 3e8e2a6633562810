// kiln_compile: a graph as text in a C-like language, for builds and for reading.
#include <fstream>
#include <iostream>
#include <sstream>

#include "CLI/CLI.hpp"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "compiler/source.h"

int main(int argc, char** argv) {
  CLI::App app{"Compiles a graph, in the numbered text form, to source."};
  std::string file = "-", language = "c", output;
  bool kernels_only = false;
  app.add_option("file", file, "A .uop file, or - for standard input");
  app.add_option("--target", language, "c, cuda, hip, opencl or metal, or a GPU: sm_90a, gfx942");
  app.add_option("--output,-o", output, "A file, instead of standard output");
  app.add_flag("--kernels", kernels_only, "C: the kernels alone, without kiln_run, which calls them");
  app.footer(
      "Example:\n  kiln_compile model.uop -o model.c && cc -O2 -fwrapv -fno-strict-aliasing "
      "-ffp-contract=off -c model.c");
  CLI11_PARSE(app, argc, argv);

  std::ostringstream text;
  std::ifstream stream;
  if (file != "-") stream.open(file);
  if (file != "-" && !stream) {
    std::cerr << "kiln_compile: cannot read " << file << "\n";
    return 2;
  }
  text << (file == "-" ? std::cin.rdbuf() : stream.rdbuf());
  const auto graph = kiln::ParseGraph(text.str());
  if (!graph.ok()) {
    std::cerr << "kiln_compile: " << graph.status().message() << "\n";
    return 1;
  }
  const auto compiled = kiln::compiler::Compile(*graph, kiln::compiler::SourceTarget(language), {});
  if (!compiled.ok()) {
    std::cerr << "kiln_compile: " << compiled.status().message() << "\n";
    return 1;
  }
  const bool whole = language == "c" && !kernels_only;
  const std::string source = whole ? kiln::compiler::ProgramText(*compiled) : compiled->object();
  if (output.empty()) {
    std::cout << source;
    return 0;
  }
  std::ofstream result(output);
  result << source;
  result.close();
  if (result) return 0;
  std::cerr << "kiln_compile: cannot write " << output << "\n";
  return 2;
}
