#include "compiler/structure/tf32.h"

#include <algorithm>

namespace kiln::compiler {
namespace {

constexpr char kFeature[] = "+tf32";

}  // namespace

bool MayRoundToTf32(const v1::Target& target) {
  return std::find(target.features().begin(), target.features().end(), kFeature) != target.features().end();
}

v1::Target WithTf32(v1::Target target) {
  if (target.kind() == v1::Target::NVPTX && !MayRoundToTf32(target)) target.add_features(kFeature);
  return target;
}

v1::Target WithoutTf32(v1::Target target) {
  auto* features = target.mutable_features();
  features->erase(std::remove(features->begin(), features->end(), kFeature), features->end());
  return target;
}

}  // namespace kiln::compiler
