"""Tensors in shared memory that clients register by name: by Triton's own client, over a socket, loopback and HTTP."""

import contextlib
import hashlib
import os
import pathlib
import queue
import re
import signal
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import numpy as np
import serving_models as models
import support
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from serving_regions import FOLDER, Region, placed
from tritonclient.utils import InferenceServerException

MOST = 16 << 20  # bytes of regions
# Of loopback, no user is known; who may ask there is the operator's to say.
LOOPBACK = "--shared_memory_named_loopback"


class RegionsTest(unittest.TestCase):
    """A server that takes shared memory, and a client of the server's own user."""

    FLAGS = ()
    BY_SOCKET = True
    MOST = MOST

    @classmethod
    def setUpClass(cls):
        cls.folder = models.Folder(cls)
        cls.folder.put("scale", models.scale(2))
        cls.folder.put("integers", models.integers())
        host = "unix:%s" % (cls.folder.path / ".socket") if cls.BY_SOCKET else "127.0.0.1"
        most = "--shared_memory_named_max_bytes=%d" % cls.MOST
        cls.server = support.Server("--models=%s" % cls.folder.path, "--model_sizes=*=1:4000000", most, *cls.flags(),
                                    host=host)  # fmt: skip
        cls.addClassCleanup(cls.server.stop)
        cls.client = triton.InferenceServerClient(cls.server.address)
        cls.addClassCleanup(cls.client.close)
        if not support.eventually(lambda: cls.client.is_server_ready()):
            raise AssertionError("it is not ready:\n" + "".join(cls.server.log[-20:]))

    @classmethod
    def flags(cls):
        return cls.FLAGS

    def tearDown(self):
        with contextlib.suppress(InferenceServerException):
            self.client.unregister_system_shared_memory()
        self.assertIsNone(self.server.process.poll())

    def refused(self, code, words, call, *arguments, **more):
        with self.assertRaises(InferenceServerException) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.status(), "StatusCode." + code, caught.exception.message())
        for word in words:
            self.assertIn(word, caught.exception.message())

    def region(self, nbytes):
        return Region(self, nbytes)

    def scale(self, n, source, target, module=triton, client=None, **more):
        """Asks for 2x, of n floats from and to places (name, bytes, offset)."""
        x, y = module.InferInput("x", [n], "FP32"), module.InferRequestedOutput("y")
        return (client or self.client).infer("scale", [placed(x, *source)], outputs=[placed(y, *target)], **more)


class UnixSocket(RegionsTest):
    def test_tensors_go_by_regions(self):
        for n in (1, 5, 1 << 20):
            source, target = self.region(4 * n + 8), self.region(4 * n + 100)
            x = np.arange(n, dtype=np.float32)
            source.put(x, 8).register(self.client, "in")
            target.put(np.full(n + 25, 7, np.float32)).register(self.client, "out")
            answer = self.scale(n, ("in", 4 * n, 8), ("out", 4 * n + 50, 16)).get_response()
            np.testing.assert_array_equal(target.get(np.float32, [n], 16), 2 * x)
            # Nothing before it, and nothing behind it.
            self.assertEqual(target.get(np.float32, [4]).tolist(), [7] * 4)
            self.assertEqual(target.get(np.float32, [21], 4 * n + 16).tolist(), [7] * 21)
            self.assertEqual(list(answer.raw_output_contents), [b""])
            row = answer.outputs[0]
            self.assertEqual((row.name, row.datatype, list(row.shape)), ("y", "FP32", [n]))
            self.assertEqual(row.parameters["shared_memory_region"].string_param, "out")
            self.assertEqual(row.parameters["shared_memory_byte_size"].int64_param, 4 * n)
            self.client.unregister_system_shared_memory()

    def test_some_in_regions_and_some_in_messages(self):
        shared = self.region(64)
        shared.put(np.int8([1, 2, 3])).put(np.int32([9, -9]), 8).register(self.client, "all")
        a, b, c = (triton.InferInput(name, [n], kind) for name, n, kind in
                   (("a", 3, "INT8"), ("b", 3, "INT8"), ("c", 2, "INT32")))  # fmt: skip
        b.set_data_from_numpy(np.int8([10, 20, 30]))
        outputs = [triton.InferRequestedOutput("difference"), placed(triton.InferRequestedOutput("sum"), "all", 3, 32),
                   triton.InferRequestedOutput("same")]  # fmt: skip
        answer = self.client.infer("integers", [placed(a, "all", 3), b, placed(c, "all", 8, 8)], outputs=outputs)
        self.assertEqual(answer.as_numpy("difference").tolist(), [-9, -18, -27])
        self.assertEqual(answer.as_numpy("same").tolist(), [9, -9])
        self.assertEqual(shared.get(np.int8, [3], 32).tolist(), [11, 22, 33])

    def test_by_a_stream(self):
        shared = self.region(4 << 16)
        shared.register(self.client, "both")
        answers = queue.Queue()
        self.client.start_stream(callback=lambda result, error: answers.put((result, error)))
        self.addCleanup(self.client.stop_stream)
        for n in (3, 1 << 16):
            x = np.arange(n, dtype=np.float32)
            shared.put(x)
            y = placed(triton.InferRequestedOutput("y"), "both", 4 * n)
            x_in = placed(triton.InferInput("x", [n], "FP32"), "both", 4 * n)
            self.client.async_stream_infer("scale", [x_in], outputs=[y])
            _, error = answers.get(timeout=60)
            self.assertIsNone(error)
            np.testing.assert_array_equal(shared.get(np.float32, [n]), 2 * x)
        x_in = placed(triton.InferInput("x", [1], "FP32"), "neither", 4)
        self.client.async_stream_infer("scale", [x_in])
        self.assertIn('"neither"', str(answers.get(timeout=60)[1]))

    def test_what_is_registered_is_told(self):
        self.assertEqual(len(self.client.get_system_shared_memory_status().regions), 0)
        one, other = self.region(100), self.region(50)
        one.register(self.client, "one", nbytes=60, offset=40)
        other.register(self.client, "other")
        told = {name: (row.name, row.key, row.offset, row.byte_size)
                for name, row in self.client.get_system_shared_memory_status().regions.items()}  # fmt: skip
        self.assertEqual(told, {"one": ("one", one.key, 40, 60), "other": ("other", other.key, 0, 50)})
        self.assertEqual(list(self.client.get_system_shared_memory_status("one").regions), ["one"])
        self.refused("NOT_FOUND", ['"none"'], self.client.get_system_shared_memory_status, "none")
        self.refused("ALREADY_EXISTS", ['"one"'], one.register, self.client, "one")
        self.client.unregister_system_shared_memory("one")
        self.client.unregister_system_shared_memory("one")  # as Triton has it
        self.assertEqual(list(self.client.get_system_shared_memory_status().regions), ["other"])
        self.client.unregister_system_shared_memory()
        self.assertEqual(len(self.client.get_system_shared_memory_status().regions), 0)
        self.assertIn("system_shared_memory", self.client.get_server_metadata().extensions)

    def test_what_does_not_fit_is_named(self):
        self.region(64).register(self.client, "in")
        self.region(64).register(self.client, "out")
        cases = (
            ("NOT_FOUND", ['"nowhere"'], 4, ("nowhere", 16), ("out", 16)),
            ("NOT_FOUND", ['"nowhere"'], 4, ("in", 16), ("nowhere", 16)),
            ("INVALID_ARGUMENT", ['"x"', "16 bytes; 12 came"], 4, ("in", 12), ("out", 16)),
            ("INVALID_ARGUMENT", ['"in"', "invalid offset + byte size"], 4, ("in", 16, 49), ("out", 16)),
            ("INVALID_ARGUMENT", ['"in"', "invalid offset + byte size"], 4, ("in", 16, (1 << 63) - 8), ("out", 16)),
            ("INVALID_ARGUMENT", ['"out"', "invalid offset + byte size"], 4, ("in", 16), ("out", 65)),
            ("INVALID_ARGUMENT", ['"y"', '"out"', "at least 16"], 4, ("in", 16), ("out", 15)),
        )
        for code, words, n, source, target in cases:
            with self.subTest(source=source, target=target):
                self.refused(code, words, self.scale, n, source, target)
        self.scale(4, ("in", 16), ("out", 16))

    def test_regions_that_cannot_be_are_named(self):
        mine = self.region(64)
        register = self.client.register_system_shared_memory
        for key in ("", "/", "..", "../etc/passwd", "/etc/passwd", mine.key + "/", "a/b", "k\n", "k" * 256):
            self.refused("INVALID_ARGUMENT", ['"in"', "key"], register, "in", key, 4)
        self.refused("NOT_FOUND", ['"in"', "kiln_nobody"], register, "in", "/kiln_nobody", 4)
        for nbytes, offset in ((0, 0), (65, 0), (1, 64), (32, 33), (1 << 40, 0), (64, 1 << 63), ((1 << 64) - 1, 1)):
            self.refused("INVALID_ARGUMENT", ['"in"'], register, "in", mine.key, nbytes, offset)
        for name in ("", "a b", "a\n", "n" * 256):
            self.refused("INVALID_ARGUMENT", ["name"], register, name, mine.key, 4)
        large = self.region(MOST + 1)
        self.refused("RESOURCE_EXHAUSTED", [str(MOST)], large.register, self.client, "in")
        self.assertEqual(len(self.client.get_system_shared_memory_status().regions), 0)

    def test_a_region_that_becomes_shorter_ends_nobody(self):
        source, target = self.region(1 << 16), self.region(1 << 16)
        n = 1 << 14
        for spoilt, name in ((source, "in"), (target, "out")):
            source.register(self.client, "in")
            target.register(self.client, "out")
            os.truncate(spoilt.path, 4096)
            self.refused("INVALID_ARGUMENT", ['"%s"' % name, "shorter"], self.scale, n, ("in", 4 * n), ("out", 4 * n))
            self.assertEqual(os.path.getsize(spoilt.path), 4096)
            os.truncate(spoilt.path, 1 << 16)
            self.client.unregister_system_shared_memory()

    def test_memory_of_others_is_not_there(self):
        mine = self.region(64)
        link = FOLDER + mine.key + "_link"
        os.symlink(mine.path, link)
        self.addCleanup(os.unlink, link)
        register = self.client.register_system_shared_memory
        self.refused("NOT_FOUND", ["user who asks"], register, "in", mine.key + "_link", 4)
        if os.getuid() != 0:
            self.skipTest("only root can make another's file")
        os.chown(mine.path, 1, -1)
        self.refused("NOT_FOUND", ["user who asks"], mine.register, self.client, "in")
        os.chown(mine.path, 0, -1)
        mine.register(self.client, "in")

    def test_memory_without_a_name_makes_room(self):
        first, second = self.region(MOST), self.region(64)
        first.register(self.client, "first")
        os.rename(first.path, first.path + "_moved")
        self.refused("RESOURCE_EXHAUSTED", [str(MOST)], second.register, self.client, "second")
        os.unlink(first.path + "_moved")
        self.scale(1, ("first", 4), ("first", 4))  # until then it serves
        second.register(self.client, "second")
        self.assertEqual(list(self.client.get_system_shared_memory_status().regions), ["second"])
        pathlib.Path(first.path).touch()  # what the test's end removes

    def test_memory_of_cuda_is_not_taken(self):
        self.client.unregister_cuda_shared_memory()
        self.assertEqual(len(self.client.get_cuda_shared_memory_status().regions), 0)
        self.refused("NOT_FOUND", ['"in"'], self.client.get_cuda_shared_memory_status, "in")
        self.refused("UNIMPLEMENTED", ["CudaSharedMemoryRegister", "whose memory"],
                     self.client.register_cuda_shared_memory, "in", b"aGFuZGxl", 0, 4)  # fmt: skip


class Loopback(RegionsTest):
    BY_SOCKET = False
    FLAGS = (LOOPBACK, "--http_listen=127.0.0.1:0")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        port = next(found.group(1) for line in cls.server.log
                    for found in [re.search(r"event=http .*\bport=(\d+)", line)] if found)  # fmt: skip
        cls.http = triton_http.InferenceServerClient("127.0.0.1:" + port, connection_timeout=60, network_timeout=60)
        cls.addClassCleanup(cls.http.close)

    def refused_by_http(self, status, words, call, *arguments, **more):
        with self.assertRaises(InferenceServerException) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.status(), str(status), caught.exception.message())
        for word in words:
            self.assertIn(word, caught.exception.message())

    def test_by_http_and_by_grpc_alike(self):
        source, target = self.region(4 << 16), self.region(4 << 16)
        source.register(self.http, "in")
        target.register(self.client, "out")
        for n in (4, 1 << 16):
            x = np.arange(n, dtype=np.float32)
            source.put(x)
            answer = self.scale(n, ("in", 4 * n), ("out", 4 * n), triton_http, self.http).get_response()
            np.testing.assert_array_equal(target.get(np.float32, [n]), 2 * x)
            self.assertEqual(answer["outputs"][0]["parameters"],
                             {"shared_memory_region": "out", "shared_memory_byte_size": 4 * n})  # fmt: skip
        told = self.http.get_system_shared_memory_status()
        self.assertEqual(told, [{"name": "in", "key": source.key, "offset": 0, "byte_size": 4 << 16},
                                {"name": "out", "key": target.key, "offset": 0, "byte_size": 4 << 16}])  # fmt: skip
        self.assertEqual(self.http.get_system_shared_memory_status("in"), told[:1])
        self.http.unregister_system_shared_memory("in")
        self.assertEqual(list(self.client.get_system_shared_memory_status().regions), ["out"])
        self.http.unregister_system_shared_memory()
        self.assertEqual(self.http.get_system_shared_memory_status(), [])

    def test_errors_by_http(self):
        mine = self.region(64)
        mine.register(self.http, "in")
        self.refused_by_http(404, ['"none"'], self.http.get_system_shared_memory_status, "none")
        self.refused_by_http(409, ['"in"'], mine.register, self.http, "in")
        self.refused_by_http(400, ['"more"', "key"], self.http.register_system_shared_memory, "more", "/a/b", 4)
        self.refused_by_http(400, ["byte_size"], self.http.register_system_shared_memory, "more", mine.key, -4)
        self.refused_by_http(404, ['"nowhere"'], self.scale, 4, ("nowhere", 16), ("in", 16), triton_http, self.http)
        register = self.http.register_cuda_shared_memory
        self.refused_by_http(501, ["CudaSharedMemoryRegister"], register, "in", "aGk=", 0, 4)
        self.assertEqual(self.http.get_cuda_shared_memory_status(), [])
        self.http.unregister_cuda_shared_memory()

    def test_others_files_are_not_the_servers(self):
        if os.getuid() != 0:
            self.skipTest("only root can make another's file")
        mine = self.region(64)
        os.chown(mine.path, 1, -1)
        self.refused("NOT_FOUND", ["user who asks"], mine.register, self.client, "in")
        self.refused_by_http(404, ["user who asks"], mine.register, self.http, "in")


class OfNoUser(RegionsTest):
    BY_SOCKET = False

    def test_who_calls_by_loopback_is_nobody(self):
        mine = self.region(64)
        for call in (lambda: mine.register(self.client, "in"), self.client.get_system_shared_memory_status,
                     self.client.unregister_system_shared_memory,
                     lambda: self.scale(4, ("in", 16), ("in", 16))):  # fmt: skip
            self.refused("PERMISSION_DENIED", ["Unix socket"], call)

    def test_metadata_make_nobody_local(self):
        mine = self.region(64)
        for headers in ({"kiln-http-peer": "127.0.0.1"}, {"kiln_unix_user": "0"}):
            register = self.client.register_system_shared_memory
            self.refused("PERMISSION_DENIED", ["Unix socket"], register, "in", mine.key, 4, headers=headers)

    def test_settings_that_would_not_do_are_refused(self):
        tenants = self.folder.path / ".none"
        tenants.write_text("")
        with_tenants = (LOOPBACK, "--shared_memory_named_max_bytes=1", "--tenants=%s" % tenants)
        for flags, word in (((LOOPBACK,), "named_max_bytes"), (with_tenants, "unix_user")):
            with self.assertRaises(AssertionError) as caught:
                support.Server(*flags)
            self.assertIn(word, str(caught.exception))


class Off(RegionsTest):
    BY_SOCKET = False
    MOST = 0

    def test_without_the_flag_none_is_taken(self):
        mine = self.region(64)
        for call in (lambda: mine.register(self.client, "in"), self.client.get_system_shared_memory_status,
                     self.client.unregister_system_shared_memory,
                     lambda: self.scale(4, ("in", 16), ("in", 16))):  # fmt: skip
            self.refused("UNIMPLEMENTED", ["--shared_memory_named_max_bytes"], call)
        self.assertNotIn("system_shared_memory", self.client.get_server_metadata().extensions)


class Tenants(RegionsTest):
    OTHER = {"authorization": "Bearer other"}

    @classmethod
    def flags(cls):
        cls.file = cls.folder.path / ".tenants.txtpb"
        cls.write("here", "other")
        return ("--tenants=%s" % cls.file,)

    @classmethod
    def write(cls, *names):
        digest = hashlib.sha256(b"other").hexdigest()
        rows = {"here": 'tenant { name: "here" unix_user: "%d" quota { shared_memory_regions: 2 } }' % os.getuid(),
                "other": 'tenant { name: "other" token { sha256: "%s" } }' % digest}  # fmt: skip
        cls.file.with_suffix(".new").write_text("\n".join(rows[name] for name in names))
        cls.file.with_suffix(".new").rename(cls.file)

    def names(self, **more):
        return list(self.client.get_system_shared_memory_status(**more).regions)

    def test_regions_of_another_tenant_do_not_exist(self):
        """Also where both are one user's, as here."""
        mine = self.region(64)
        mine.put(np.full(16, 3, np.float32)).register(self.client, "in")
        self.assertEqual(self.names(headers=self.OTHER), [])
        self.refused("NOT_FOUND", ['"in"'], self.scale, 4, ("in", 16), ("in", 16), headers=self.OTHER)
        self.client.unregister_system_shared_memory("in", headers=self.OTHER)
        self.client.unregister_system_shared_memory(headers=self.OTHER)
        self.assertEqual(self.names(), ["in"])
        # A name is each tenant's own.
        mine.register(self.client, "in", headers=self.OTHER)
        self.client.unregister_system_shared_memory(headers=self.OTHER)
        self.scale(4, ("in", 16), ("in", 16, 16))
        self.assertEqual(mine.get(np.float32, [8]).tolist(), [3] * 4 + [6] * 4)

    def test_a_quota_holds(self):
        mine = self.region(64)
        for name in ("a", "b"):
            mine.register(self.client, name)
        self.refused("RESOURCE_EXHAUSTED", ["shared_memory_regions"], mine.register, self.client, "c")
        self.client.unregister_system_shared_memory("a")
        mine.register(self.client, "c")

    def test_they_end_with_their_tenant(self):
        self.region(64).register(self.client, "in")
        self.write("other")
        self.server.process.send_signal(signal.SIGHUP)
        self.assertTrue(support.eventually(lambda: not self.client_is_known()))
        self.write("here", "other")
        self.server.process.send_signal(signal.SIGHUP)
        self.assertTrue(support.eventually(self.client_is_known))
        self.assertEqual(self.names(), [])

    def client_is_known(self):
        try:
            return self.client.is_server_live()
        except InferenceServerException as error:
            self.assertEqual(error.status(), "StatusCode.UNAUTHENTICATED")
            return False


if __name__ == "__main__":
    unittest.main()
