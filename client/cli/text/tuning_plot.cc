#include "client/cli/text/tuning_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/text/table.h"

namespace kiln::cli {
namespace {

constexpr double kWidth = 640, kHeight = 220, kLeft = 80, kTop = 36, kBottom = 40, kRight = 20;

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

std::vector<double> BestSoFar(const SearchedKernel& kernel) {
  std::vector<double> best;
  double least = kernel.first_micros;
  for (double micros : kernel.micros) {
    least = least > 0 ? std::min(least, micros) : micros;
    best.push_back(least);
  }
  return best;
}

// From 0 at `low` to 1 at `high`, by ratios.
struct Scale {
  Scale(double low, double high) : low(std::log(std::max(low, 1e-9))), high(std::log(std::max(high, 2e-9))) {
    if (this->high - this->low < 0.05) this->high = this->low + 0.05;
  }
  double At(double value) const { return std::clamp((std::log(std::max(value, 1e-9)) - low) / (high - low), 0.0, 1.0); }
  double low, high;
};

}  // namespace

std::string PlotText(const SearchedKernel& kernel, int columns, int rows) {
  const std::vector<double> best = BestSoFar(kernel);
  if (best.empty()) return "";
  const int width = std::min<int>(columns - 12, static_cast<int>(best.size()));
  const Scale scale(best.back(), best.front());
  std::vector<std::string> lines(static_cast<size_t>(rows), std::string(static_cast<size_t>(width), ' '));
  for (int x = 0; x < width; ++x) {
    const size_t i = width == 1 ? 0 : static_cast<size_t>(x) * (best.size() - 1) / static_cast<size_t>(width - 1);
    const auto y = static_cast<size_t>(std::lround((1 - scale.At(best[i])) * (rows - 1)));
    lines[y][static_cast<size_t>(x)] = '*';
  }
  std::string text;
  for (int y = 0; y < rows; ++y) {
    const std::string label = y == 0 ? MicrosText(best.front()) : y + 1 == rows ? MicrosText(best.back()) : "";
    absl::StrAppend(&text, absl::StrFormat("%10s |", label), lines[static_cast<size_t>(y)], "\n");
  }
  absl::StrAppend(&text, std::string(11, ' '), "+", std::string(static_cast<size_t>(width), '-'), "\n",
                  absl::StrFormat("%12s%d candidates that ran\n", "", best.size()));
  return text;
}

std::string PlotSvg(const std::vector<SearchedKernel>& kernels) {
  const double height = kHeight * static_cast<double>(std::max<size_t>(1, kernels.size()));
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" font-family=\"Helvetica\" "
      "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, height);
  for (size_t k = 0; k < kernels.size(); ++k) {
    const SearchedKernel& kernel = kernels[k];
    const double top = kHeight * static_cast<double>(k) + kTop;
    const double bottom = kHeight * static_cast<double>(k + 1) - kBottom;
    absl::StrAppendFormat(&svg, "<text x=\"%g\" y=\"%g\" font-weight=\"bold\">%s: %s, was %s</text>\n", kLeft, top - 14,
                          Escaped(kernel.name), MicrosText(kernel.best_micros), MicrosText(kernel.first_micros));
    absl::StrAppendFormat(&svg, "<path d=\"M%g %gV%gH%g\" fill=\"none\" stroke=\"black\"/>\n", kLeft, top, bottom,
                          kWidth - kRight);
    const std::vector<double> best = BestSoFar(kernel);
    if (best.empty()) continue;
    const double most = *std::max_element(kernel.micros.begin(), kernel.micros.end());
    const Scale scale(best.back(), std::min(std::max(most, best.front()), 10 * best.front()));
    const auto x_at = [&](size_t i) {
      return kLeft + (kWidth - kLeft - kRight) * (static_cast<double>(i) + 0.5) / static_cast<double>(best.size());
    };
    const auto y_at = [&](double micros) { return bottom - (bottom - top) * scale.At(micros); };
    for (size_t i = 0; i < best.size(); ++i)
      absl::StrAppendFormat(&svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill=\"#8ab\"/>\n", x_at(i),
                            y_at(kernel.micros[i]));
    std::string path = absl::StrFormat("M%.1f %.1f", x_at(0), y_at(best[0]));
    for (size_t i = 1; i < best.size(); ++i) absl::StrAppendFormat(&path, "H%.1fV%.1f", x_at(i), y_at(best[i]));
    absl::StrAppend(&svg, "<path d=\"", path, "\" fill=\"none\" stroke=\"#c33\" stroke-width=\"2\"/>\n");
    for (const auto& [value, y] : {std::pair(std::exp(scale.high), top), std::pair(std::exp(scale.low), bottom)})
      absl::StrAppendFormat(&svg, "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%s</text>\n", kLeft - 6, y + 4,
                            MicrosText(value));
    absl::StrAppendFormat(&svg, "<text x=\"%g\" y=\"%g\">%d candidates, %d of which ran</text>\n", kLeft, bottom + 18,
                          kernel.tried, kernel.micros.size());
  }
  return svg + "</svg>\n";
}

}  // namespace kiln::cli
