#include "client/load/plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/text/table.h"

namespace kiln::load {
namespace {

constexpr double kWidth = 720, kHeight = 320, kLeft = 90, kTop = 40, kBottom = 50, kRight = 140;
constexpr const char* kColours[] = {"#27c", "#c33", "#393", "#a5a", "#b71", "#088"};

using Point = std::pair<double, double>;

// From 0 at `low` to 1 at `high`, evenly or by ratios.
struct Scale {
  double low, high;
  bool ratios;
  double At(double value) const {
    if (!ratios) return (value - low) / (high - low);
    return std::log(std::max(value, low) / low) / std::log(high / low);
  }
};

// One picture of the page, `top` below its beginning.
class Panel {
 public:
  Panel(double top, Scale x, Scale y) : top_(top + kTop), bottom_(top + kHeight - kBottom), x_(x), y_(y) {
    absl::StrAppendFormat(&svg_, "<path d=\"M%g %gV%gH%g\" fill=\"none\" stroke=\"black\"/>\n", kLeft, top_, bottom_,
                          kWidth - kRight);
  }

  void Title(const std::string& text) {
    absl::StrAppendFormat(&svg_, "<text x=\"%g\" y=\"%g\" font-weight=\"bold\">%s</text>\n", kLeft, top_ - 16, text);
  }
  void TickX(double value, const std::string& label) {
    absl::StrAppendFormat(&svg_,
                          "<path d=\"M%.1f %gv4\" stroke=\"black\"/><text x=\"%.1f\" y=\"%g\" "
                          "text-anchor=\"middle\">%s</text>\n",
                          X(value), bottom_, X(value), bottom_ + 18, label);
  }
  void TickY(double value, const std::string& label) {
    absl::StrAppendFormat(&svg_,
                          "<path d=\"M%g %.1fH%g\" stroke=\"#ddd\"/><text x=\"%g\" y=\"%.1f\" "
                          "text-anchor=\"end\">%s</text>\n",
                          kLeft, Y(value), kWidth - kRight, kLeft - 6, Y(value) + 4, label);
  }
  // Lines say at their right what they are, the `number`th below those before it.
  void Line(const std::vector<Point>& points, size_t number, const std::string& label, const char* dashes = "none") {
    const char* colour = kColours[number % std::size(kColours)];
    std::string path;
    for (const auto& [x, y] : points) absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : "L", X(x), Y(y));
    absl::StrAppendFormat(&svg_,
                          "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n"
                          "<text x=\"%g\" y=\"%g\" fill=\"%s\">%s</text>\n",
                          path, colour, dashes, kWidth - kRight + 8, top_ + 10 + 16 * static_cast<double>(number),
                          colour, label);
  }
  const std::string& svg() const { return svg_; }

 private:
  double X(double value) const { return kLeft + (kWidth - kLeft - kRight) * std::clamp(x_.At(value), 0.0, 1.0); }
  double Y(double value) const { return bottom_ - (bottom_ - top_) * std::clamp(y_.At(value), 0.0, 1.0); }

  const double top_, bottom_;
  const Scale x_, y_;
  std::string svg_;
};

double PowerOfTenFrom(double value) { return std::pow(10, std::floor(std::log10(value))); }

std::string Latencies(const StepResult& result) {
  // The part that is slower goes from all to one in as many as the most frequent class has.
  uint64_t most = 10, slowest = 1;
  for (const ClassResult& each : result.classes) {
    const Histogram times = each.Latencies();
    most = std::max(most, times.count());
    slowest = std::max(slowest, times.max());
  }
  const Histogram all = result.Latencies();
  const double low = PowerOfTenFrom(static_cast<double>(std::max<uint64_t>(1, all.Quantile(0))));
  const Scale x{1, static_cast<double>(most), true}, y{low, std::max(static_cast<double>(slowest), 10 * low), true};
  Panel panel(0, x, y);
  panel.Title(absl::StrFormat("Latency by percentile, at %.4g requests/s", result.rate));
  for (double part = 10; part <= x.high; part *= 10) {
    panel.TickX(part, absl::StrFormat("%.*g %%", 12, 100 - 100 / part));
  }
  panel.TickX(2, "50 %");
  for (double value = low; value <= y.high; value *= 10) panel.TickY(value, cli::MicrosText(value / 1e3));
  size_t number = 0;
  for (const ClassResult& each : result.classes) {
    std::vector<Point> points;
    uint64_t seen = 0;
    const Histogram times = each.Latencies();
    times.ForEach([&](uint64_t end, uint64_t count) {
      const auto total = static_cast<double>(times.count()), slower = static_cast<double>(times.count() - seen);
      points.emplace_back(total / slower, static_cast<double>(end));
      seen += count;
    });
    if (!points.empty()) points.emplace_back(static_cast<double>(times.count()), static_cast<double>(times.max()));
    panel.Line(points, number++, each.name);
  }
  return panel.svg();
}

std::string Goodput(const std::vector<StepResult>& results) {
  std::vector<Point> good, ok;
  double most = 1, best = 1;
  for (const StepResult& result : results) {
    double answered = 0;
    for (const ClassResult& each : result.classes) {
      if (each.seconds > 0) answered += static_cast<double>(each.ok) / each.seconds;
    }
    good.emplace_back(result.rate, result.goodput());
    ok.emplace_back(result.rate, answered);
    most = std::max(most, result.rate);
    best = std::max({best, answered, result.goodput()});
  }
  Panel panel(kHeight, {0, most, false}, {0, 1.1 * best, false});
  panel.Title("Goodput against what was offered, requests/s");
  for (const StepResult& result : results) panel.TickX(result.rate, absl::StrFormat("%.4g", result.rate));
  for (int i = 0; i <= 4; ++i) panel.TickY(best * i / 4, absl::StrFormat("%.4g", best * i / 4));
  panel.Line(good, 0, "in deadline");
  panel.Line(ok, 1, "answered OK", "6 3");
  panel.Line({{0, 0}, {std::min(most, 1.1 * best), std::min(most, 1.1 * best)}}, 2, "offered", "2 4");
  return panel.svg();
}

}  // namespace

std::string PlotSvg(const std::vector<StepResult>& results) {
  if (results.empty()) return "";
  const auto best = std::max_element(results.begin(), results.end(), [](const StepResult& a, const StepResult& b) {
    return a.goodput() < b.goodput();
  });
  const bool several = results.size() > 1;
  return absl::StrCat(
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" font-family=\"Helvetica\" "
                      "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                      kWidth, several ? 2 * kHeight : kHeight),
      Latencies(*best), several ? Goodput(results) : "", "</svg>\n");
}

}  // namespace kiln::load
