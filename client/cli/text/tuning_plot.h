// How a search went: time against candidates.
#ifndef KILN_CLIENT_CLI_TEXT_TUNING_PLOT_H_
#define KILN_CLIENT_CLI_TEXT_TUNING_PLOT_H_

#include <string>
#include <vector>

namespace kiln::cli {

// One kernel's candidates, in the order in which they were tried.
struct SearchedKernel {
  std::string name;
  double first_micros = 0, best_micros = 0;
  std::vector<double> micros;  // of each that ran
  size_t tried = 0;            // and how many did not run are the rest
};

// The best so far against candidates, as lines of text of at most `columns` letters;
// logarithmic upwards.
std::string PlotText(const SearchedKernel& kernel, int columns = 72, int rows = 12);

// One panel a kernel: a dot for each candidate, and the best so far as a line.
std::string PlotSvg(const std::vector<SearchedKernel>& kernels);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_TUNING_PLOT_H_
