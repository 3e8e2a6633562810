"""Every .proto says how other languages call what is generated from it."""

import re
import unittest

import tidy_test as tidy

OPTION = re.compile(r'^option (\w+) = "?(.+?)"?;$', re.M)


class ProtoOptions(unittest.TestCase):
    def test_ours_are_one_package_in_every_language(self):
        ours = [name for name in tidy.FILES if re.fullmatch(r"proto/kiln/v1/\w+\.proto", name)]
        self.assertGreater(len(ours), 10)
        for name in ours:
            stem = name.split("/")[-1][: -len(".proto")]
            # Of its own, for Java: no class is called as a message or an enum is, in any case.
            outer = "".join(word.capitalize() for word in stem.split("_")) + "Proto"
            with self.subTest(name):
                self.assertEqual(dict(OPTION.findall(tidy.text(name))), {
                    "csharp_namespace": "Kiln.V1",
                    "go_package": "kiln/v1;kilnv1",
                    "java_multiple_files": "true",
                    "java_outer_classname": outer,
                    "java_package": "kiln.v1",
                })  # fmt: skip

    def test_those_of_others_are_called_as_their_own_libraries_call_them(self):
        packages = {"proto/google/rpc/status.proto": "google.golang.org/genproto/googleapis/rpc/status;status",
                    "proto/grpc/health/v1/health.proto": "google.golang.org/grpc/health/grpc_health_v1"}
        for name, package in packages.items():
            self.assertEqual(dict(OPTION.findall(tidy.text(name)))["go_package"], package, name)


if __name__ == "__main__":
    unittest.main()
