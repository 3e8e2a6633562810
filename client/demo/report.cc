#include "client/demo/report.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kiln::demo {

void Progress::Show(int64_t epoch, int64_t step, const Statistics& statistics) {
  constexpr int64_t kWidth = 32;
  const bool finished = step == steps_per_epoch_;
  if (!terminal_ && !finished) return;
  const int64_t filled = kWidth * step / steps_per_epoch_;
  std::string bar(filled, '#');
  bar.append(kWidth - filled, '.');
  absl::PrintF("%sepoch %d/%d [%s] loss %.4f  accuracy %.4f%s", terminal_ ? "\r" : "", epoch + 1, epochs_, bar,
               statistics.loss, statistics.accuracy, finished ? "\n" : "");
  std::fflush(stdout);
}

std::string BytesText(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, bytes, kUnits[unit]);
}

std::string ConfusionTable(const std::vector<uint8_t>& truth, const std::vector<int32_t>& guesses) {
  int counts[10][10] = {};
  for (size_t i = 0; i < std::min(truth.size(), guesses.size()); ++i) {
    if (truth[i] < 10 && guesses[i] >= 0 && guesses[i] < 10) ++counts[truth[i]][guesses[i]];
  }
  std::string table = "digit | guessed 0    1    2    3    4    5    6    7    8    9 | right\n";
  for (int digit = 0; digit < 10; ++digit) {
    absl::StrAppendFormat(&table, "    %d |     ", digit);
    int total = 0;
    for (int guess = 0; guess < 10; ++guess) {
      total += counts[digit][guess];
      absl::StrAppend(&table, counts[digit][guess] == 0 ? "    ." : absl::StrFormat("%5d", counts[digit][guess]));
    }
    absl::StrAppendFormat(&table, " | %5.1f%%\n", total == 0 ? 0.0 : 100.0 * counts[digit][digit] / total);
  }
  return table;
}

double Accuracy(const std::vector<uint8_t>& truth, const std::vector<int32_t>& guesses) {
  if (truth.empty() || truth.size() != guesses.size()) return 0;
  int64_t right = 0;
  for (size_t i = 0; i < truth.size(); ++i) right += truth[i] == guesses[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(truth.size());
}

}  // namespace kiln::demo
