// Pictures of a load: how long which part of the requests took, and what came of which rate.
#ifndef KILN_CLIENT_LOAD_PLOT_H_
#define KILN_CLIENT_LOAD_PLOT_H_

#include <string>
#include <vector>

#include "client/load/report.h"

namespace kiln::load {

// A page of SVG. Latency by percentile of all that were due, a line a class, both axes by ratios, so that the tail
// has as much room as the rest: of the step whose goodput is the greatest. With several steps, below
// it, goodput and what was answered against what was offered.
std::string PlotSvg(const std::vector<StepResult>& results);

}  // namespace kiln::load

#endif  // KILN_CLIENT_LOAD_PLOT_H_
