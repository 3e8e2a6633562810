// What the demo shows: progress, and the summary at the end.
#ifndef KILN_CLIENT_DEMO_REPORT_H_
#define KILN_CLIENT_DEMO_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/demo/trainer.h"

namespace kiln::demo {

// One line that is drawn over again on a terminal; elsewhere, one line an epoch.
class Progress {
 public:
  Progress(int64_t epochs, int64_t steps_per_epoch, bool terminal)
      : epochs_(epochs), steps_per_epoch_(steps_per_epoch), terminal_(terminal) {}
  // `step` steps of this epoch are done.
  void Show(int64_t epoch, int64_t step, const Statistics& statistics);

 private:
  const int64_t epochs_;
  const int64_t steps_per_epoch_;
  const bool terminal_;
};

// "12.3 kB"
std::string BytesText(double bytes);

// A row a true digit, a column a guess; zeros are left out so that errors show.
std::string ConfusionTable(const std::vector<uint8_t>& truth, const std::vector<int32_t>& guesses);

// The share of guesses that are right.
double Accuracy(const std::vector<uint8_t>& truth, const std::vector<int32_t>& guesses);

}  // namespace kiln::demo

#endif  // KILN_CLIENT_DEMO_REPORT_H_
