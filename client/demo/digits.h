// The handwritten digits: 1,797 images of 8x8 pixels (data/README.md says whose).
#ifndef KILN_CLIENT_DEMO_DIGITS_H_
#define KILN_CLIENT_DEMO_DIGITS_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln::demo {

inline constexpr int kPixels = 64;

struct Digits {
  std::vector<uint8_t> images;  // kPixels each, row-major, 0 (paper) to 16 (ink)
  std::vector<uint8_t> labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

struct Split {
  Digits train;
  Digits held_out;
};

// Reads digits_images.npy and digits_labels.npy.
absl::StatusOr<Digits> LoadDigits(const std::string& folder);

// A random order of 0..count-1; the same from the same generator anywhere.
std::vector<int32_t> Shuffled(int64_t count, std::mt19937_64& random);

// Sets `held_out` random images apart: they are never trained on.
Split SplitDigits(const Digits& digits, int64_t held_out, std::mt19937_64& random);

// Every image, and four copies of it moved by one pixel: a digit is the same digit
// a little further left.
Digits WithShiftedCopies(const Digits& digits);

}  // namespace kiln::demo

#endif  // KILN_CLIENT_DEMO_DIGITS_H_
