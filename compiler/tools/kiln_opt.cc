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
  bool list = false, times = false;
  kiln::compiler::PassSettings settings;
  app.add_option("pass", pass, "The pass, by name; or simplify (the symbolic rules), or render_LANGUAGE (to source)");
  app.add_option("file", file, "A .uop file, or - for standard input");
  app.add_flag("--list", list,
               "Print every pass: its stage, whether it is optional, what it takes and leaves, and when");
  app.add_flag("--time", times, "Print to standard error what each pass took that ran");
  app.add_option("--target", settings.target, "sm_90a, gfx942, c, cuda, hip, opencl or metal; else an imagined CPU");
  app.add_option("--vector_bytes", settings.vector_bytes, "Width of the imagined CPU's vector registers");
  app.add_option("--features", settings.features, "What else it can, as LLVM names it: +avx512vnni")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--constants", settings.constants, "Slots of parameters that stay the same from run to run")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--disable_pass", settings.disabled, "Optional passes to leave out")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.footer("Example:\n  kiln_opt rangeify tests/golden/rangeify/matmul_bias.uop");
  CLI11_PARSE(app, argc, argv);

  if (list) {
    std::cout << kiln::compiler::PassList();
    return 0;
  }
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
  std::vector<std::string> ran;
  if (times) settings.ran = &ran;
  const absl::StatusOr<std::string> result = kiln::compiler::RunNamedPass(pass, text.str(), settings);
  for (const std::string& line : ran) std::cerr << line << "\n";
  if (!result.ok()) {
    std::cerr << "kiln_opt: " << result.status().message() << "\n";
    return 1;
  }
  std::cout << *result;
  return 0;
}
