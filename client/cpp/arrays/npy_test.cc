#include "client/cpp/arrays/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace kiln::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file as NumPy lays it out, with any header.
std::string File(absl::string_view header, absl::string_view data, char version = 1) {
  std::string file("\x93NUMPY", 6);
  file.push_back(version);
  file.push_back(0);
  file.push_back(static_cast<char>(header.size()));
  file.append(version == 1 ? 1 : 3, '\0');
  return absl::StrCat(file, header, data);
}

// The bytes of numpy.save("x.npy", numpy.array([[1, 2.5, -3]], dtype="<f4")), NumPy 2.4.
std::string WrittenByNumpy() {
  std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
  file += "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }";
  file.append(127 - file.size(), ' ');
  file += "\n";
  file.append("\x00\x00\x80\x3f\x00\x00\x20\x40\x00\x00\x40\xc0", 12);
  return file;
}

TEST(NpyTest, ReadsAndWritesWhatNumpyWrites) {
  const auto tensor = ParseNpy(WrittenByNumpy());
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype, v1::FLOAT32);
  EXPECT_THAT(tensor->shape, ElementsAre(1, 3));
  EXPECT_THAT(tensor->Values<float>(), ElementsAre(1.0f, 2.5f, -3.0f));
  EXPECT_EQ(*FormatNpy(*tensor), WrittenByNumpy());
}

TEST(NpyTest, EveryDTypeRoundTrips) {
  for (const v1::DType dtype : {v1::BOOL, v1::INT8, v1::INT16, v1::INT32, v1::INT64, v1::UINT8, v1::UINT16, v1::UINT32,
                                v1::UINT64, v1::FLOAT16, v1::FLOAT32, v1::FLOAT64}) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{2, 0, 3}, Shape{2, 3, 4}}) {
      const HostTensor tensor{dtype, shape, std::string(*ByteCount(dtype, shape), '\x01')};
      const auto file = FormatNpy(tensor);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ((file->size() - tensor.bytes.size()) % 64, 0u);
      const auto again = ParseNpy(*file);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->dtype, dtype);
      EXPECT_EQ(again->shape, shape);
      EXPECT_EQ(again->bytes, tensor.bytes);
    }
  }
}

TEST(NpyTest, ReadsLaterVersionsAndOtherSpellings) {
  for (const char version : {2, 3}) {
    const auto tensor =
        ParseNpy(File("{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<i1\"}\n", "\x01\x02", version));
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->dtype, v1::INT8);
    EXPECT_THAT(tensor->Values<int8_t>(), ElementsAre(1, 2));
  }
}

TEST(NpyTest, SaysWhatIsWrong) {
  const auto header = [](absl::string_view descr, absl::string_view order, absl::string_view shape) {
    return absl::StrCat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape, ", }\n");
  };
  const std::tuple<std::string, std::string> cases[] = {
      {"", "NumPy's mark"},
      {"PK\x03\x04", "NumPy's mark"},
      {std::string("\x93NUMPY", 6), "ends in the header"},
      {std::string("\x93NUMPY\x04\x00\x00\x00", 10), "format version 4"},
      {std::string("\x93NUMPY\x01\x00\x76\x00{", 11), "ends in the header"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "a header of 4294967295 bytes"},
      {File("", ""), "no dictionary"},
      {File("{'descr'", ""), "dictionary of names"},
      {File("{}", ""), "lacks descr"},
      {File("{'descr': '<f4', 'colour': 3}", ""), "unknown key 'colour'"},
      {File(header("'>f4'", "False", "(1,)"), "1234"), "big-endian"},
      {File(header("'<V2'", "False", "(1,)"), "12"), "np.float32"},
      {File(header("'<c8'", "False", "(1,)"), "12345678"), "no counterpart"},
      {File(header("[('a', '<f4')]", "False", "(1,)"), "1234"), "structured"},
      {File(header("'<f4'", "True", "(1, 1)"), "1234"), "np.ascontiguousarray"},
      {File(header("'<f4'", "0", "(1,)"), "1234"), "neither True nor False"},
      {File(header("'<f4'", "False", "(-1,)"), "1234"), "no tuple"},
      {File(header("'<f4'", "False", "(1"), "1234"), "no tuple"},
      {File(header("'<f4'", "False", "(9223372036854775808,)"), ""), "no tuple"},
      {File(header("'<f4'", "False", "(4294967296, 4294967296)"), ""), "has no size"},
      {File(header("'<f4'", "False", "(2,)"), "1234"), "takes 8 bytes; the file has 4"},
      {File(header("'<f4'", "False", "()"), "12345"), "takes 4 bytes; the file has 5"},
  };
  for (const auto& [file, message] : cases) {
    const auto tensor = ParseNpy(file);
    EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(tensor.status().message(), HasSubstr(message));
  }
}

TEST(NpyTest, WritesNoBfloat16) {
  const auto file = FormatNpy({v1::BFLOAT16, {1}, "12"});
  EXPECT_THAT(file.status().message(), HasSubstr("bfloat16; Cast the result to float32"));
}

TEST(NpyTest, FilesKeepTheirNameInErrors) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/kiln_npy_test.npy");
  ASSERT_TRUE(WriteNpy(path, HostTensor::Of<int32_t>({2}, {7, 8})).ok());
  const auto tensor = ReadNpy(path);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->Values<int32_t>(), ElementsAre(7, 8));
  std::ofstream(path) << "something else";
  EXPECT_THAT(ReadNpy(path).status().message(), HasSubstr(path));
  EXPECT_EQ(ReadNpy(path + ".none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(WriteNpy("/nowhere/at/all.npy", *tensor).message(), HasSubstr("/nowhere/at/all.npy"));
}

}  // namespace
}  // namespace kiln::client
