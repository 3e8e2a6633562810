#include "server/engine/programs/program_key.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

namespace kiln::server {
namespace {

v1::Target SomeTarget() {
  v1::Target target;
  target.set_kind(v1::Target::CPU);
  target.set_triple("x86_64-unknown-linux-gnu");
  target.set_arch("skylake");
  target.add_features("+avx2");
  target.add_features("+fma");
  return target;
}

TEST(ProgramKeyTest, TuningDoesNotCount) {
  v1::Target tuned = SomeTarget();
  tuned.mutable_tuning()->set_cores(64);
  EXPECT_EQ(TargetFingerprint(tuned), TargetFingerprint(SomeTarget()));
}

TEST(ProgramKeyTest, EveryRequirementCounts) {
  v1::Target other = SomeTarget();
  other.set_kind(v1::Target::NULL_TARGET);
  EXPECT_FALSE(TargetFingerprint(other) == TargetFingerprint(SomeTarget()));
  other = SomeTarget();
  other.set_arch("znver4");
  EXPECT_FALSE(TargetFingerprint(other) == TargetFingerprint(SomeTarget()));
  other = SomeTarget();
  other.add_features("+avx512f");
  EXPECT_FALSE(TargetFingerprint(other) == TargetFingerprint(SomeTarget()));
  // Two features do not run together into one.
  v1::Target joined = SomeTarget();
  joined.clear_features();
  joined.add_features("+avx2+fma");
  EXPECT_FALSE(TargetFingerprint(joined) == TargetFingerprint(SomeTarget()));
}

TEST(ProgramKeyTest, GraphOptionsAndDeviceCount) {
  Digest graph, other_graph;
  other_graph.bytes[31] = 1;
  const Digest target = TargetFingerprint(SomeTarget()), place = PlaceOf(target, "CPU:0");
  const Digest options = DigestOf(compiler::Options());
  compiler::Options strict;
  strict.strict = true;
  const Digest key = ProgramKey({}, graph, place, options);
  EXPECT_EQ(key, ProgramKey({}, graph, place, options));
  EXPECT_FALSE(key == ProgramKey({}, other_graph, place, options));
  EXPECT_FALSE(key == ProgramKey({}, graph, place, DigestOf(strict)));
  EXPECT_FALSE(key == ProgramKey({}, graph, PlaceOf(target, "CPU:1"), options));
  EXPECT_FALSE(key == ProgramKey({}, graph, PlaceOf(Digest(), "CPU:0"), options));
  EXPECT_FALSE(key == ProgramKey(DomainOf("secret", "tenant"), graph, place, options));
  // Limits decide what is refused, not what is made.
  compiler::Options narrow;
  narrow.limits.max_nodes = 5;
  EXPECT_EQ(key, ProgramKey({}, graph, place, DigestOf(narrow)));
}

Digest KeyOnDisk(const v1::Target::Tuning& tuning) {
  return StoredKey({}, Digest(), TargetFingerprint(SomeTarget()), tuning, "options", "limits", "compiler");
}

TEST(StoredKeyTest, EveryFigureOfTheCoreCounts) {
  const v1::Target::Tuning usual;
  EXPECT_EQ(KeyOnDisk(usual), KeyOnDisk(v1::Target::Tuning()));
  const auto* type = v1::Target::Tuning::Core::descriptor();
  ASSERT_GT(type->field_count(), 0);
  for (int i = 0; i < type->field_count(); ++i) {
    v1::Target::Tuning measured;
    v1::Target::Tuning::Core& core = *measured.mutable_core();
    const auto* field = type->field(i);
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_FLOAT) {
      core.GetReflection()->SetFloat(&core, field, 1.5f);
    } else {
      core.GetReflection()->SetUInt32(&core, field, 64);
    }
    EXPECT_FALSE(KeyOnDisk(measured) == KeyOnDisk(usual)) << field->name();
  }
}

TEST(TrustDomain, IsOfATenantAndASecret) {
  EXPECT_EQ(DomainOf("secret", ""), TrustDomain());
  EXPECT_EQ(DomainOf("secret", "a"), DomainOf("secret", "a"));
  EXPECT_FALSE(DomainOf("secret", "a") == DomainOf("secret", "b"));
  EXPECT_FALSE(DomainOf("secret", "a") == DomainOf("other", "a"));
  EXPECT_FALSE(DomainOf("a", "b") == DomainOf("b", "a"));
}

}  // namespace
}  // namespace kiln::server
