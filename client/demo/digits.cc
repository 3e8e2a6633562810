#include "client/demo/digits.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cpp/arrays/npy.h"

namespace kiln::demo {
namespace {

constexpr int kSide = 8;

void Append(Digits& digits, const uint8_t* image, uint8_t label) {
  digits.images.insert(digits.images.end(), image, image + kPixels);
  digits.labels.push_back(label);
}

}  // namespace

absl::StatusOr<Digits> LoadDigits(const std::string& folder) {
  KILN_ASSIGN_OR_RETURN(const client::HostTensor images, client::ReadNpy(folder + "/digits_images.npy"));
  KILN_ASSIGN_OR_RETURN(const client::HostTensor labels, client::ReadNpy(folder + "/digits_labels.npy"));
  Digits digits{images.Values<uint8_t>(), labels.Values<uint8_t>()};
  if (images.dtype != v1::UINT8 || labels.dtype != v1::UINT8 ||
      images.shape != client::Shape{digits.count(), kSide, kSide}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the images must be uint8 (n, 8, 8) and the labels uint8 (n,); they are ",
        client::TypeText(images.dtype, images.shape), " and ", client::TypeText(labels.dtype, labels.shape)));
  }
  return digits;
}

std::vector<int32_t> Shuffled(int64_t count, std::mt19937_64& random) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) std::swap(order[i], order[random() % (i + 1)]);
  return order;
}

Split SplitDigits(const Digits& digits, int64_t held_out, std::mt19937_64& random) {
  Split split;
  int64_t place = 0;
  for (const int32_t i : Shuffled(digits.count(), random)) {
    Append(place++ < held_out ? split.held_out : split.train, &digits.images[i * kPixels], digits.labels[i]);
  }
  return split;
}

Digits WithShiftedCopies(const Digits& digits) {
  constexpr std::pair<int, int> kMoves[] = {{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}};
  Digits result;
  for (const auto& [down, right] : kMoves) {
    for (int64_t i = 0; i < digits.count(); ++i) {
      uint8_t moved[kPixels] = {};
      for (int pixel = 0; pixel < kPixels; ++pixel) {
        const int y = pixel / kSide - down, x = pixel % kSide - right;
        if (y >= 0 && y < kSide && x >= 0 && x < kSide) moved[pixel] = digits.images[i * kPixels + y * kSide + x];
      }
      Append(result, moved, digits.labels[i]);
    }
  }
  return result;
}

}  // namespace kiln::demo
