#include "client/load/arrivals.h"

#include <cmath>

namespace kiln::load {
namespace {

// In (0, 1]; of the standard's engine alone, whose numbers are the same everywhere.
double Uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 1) * 0x1p-53; }

}  // namespace

// Constant ones begin somewhere in the first gap: classes of one rate would else be due together for ever.
Arrivals::Arrivals(double rate, Spacing spacing, uint64_t seed)
    : gap_ns_(1e9 / rate), spacing_(spacing), random_(seed), exact_ns_(gap_ns_ * Uniform(random_)) {
  if (spacing_ == Spacing::kPoisson) exact_ns_ = -gap_ns_ * std::log(Uniform(random_));
  due_ns_ = static_cast<uint64_t>(exact_ns_);
}

void Arrivals::Advance() {
  ++passed_;
  if (spacing_ == Spacing::kConstant) {
    due_ns_ = static_cast<uint64_t>(exact_ns_ + gap_ns_ * static_cast<double>(passed_));
    return;
  }
  exact_ns_ -= gap_ns_ * std::log(Uniform(random_));
  due_ns_ = static_cast<uint64_t>(exact_ns_);
}

}  // namespace kiln::load
