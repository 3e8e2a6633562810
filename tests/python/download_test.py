"""What a download makes of the pieces that come: bytes in their place, or a KilnError. A process that is told by another
exception that a server's message is broken would end by it."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support  # noqa: F401: finds the package

from kiln import errors
from kiln.transport.transfer import Download, chunk_of
from kiln.v1 import buffer_service_pb2


def message(chunk):
    return buffer_service_pb2.ReadResponse(chunk=chunk).SerializeToString()


class Downloads(unittest.TestCase):
    def test_pieces_come_one_after_the_other(self):
        target = bytearray(5)
        download = Download(memoryview(target))
        download.take(message(b"abc"))
        download.take(message(b"de"))
        download.finish()
        self.assertEqual(bytes(target), b"abcde")

    def test_framing_that_is_not_as_usual(self):
        of_tomorrow = b"\xc2\x3e\x03new"  # field 1000
        for framed in (message(b"abc") + of_tomorrow, of_tomorrow + message(b"abc"), message(b"xy") + message(b"abc")):
            with self.subTest(framed):
                self.assertEqual(bytes(chunk_of(framed)), b"abc")
        self.assertEqual(bytes(chunk_of(b"")), b"")

    def test_a_piece_that_cannot_be_read(self):
        good = message(bytes(200))
        for broken in (good[:-1], good[:2], b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xff" * 12):
            with self.subTest(broken), self.assertRaises(errors.Internal) as raised:
                Download(memoryview(bytearray(400))).take(broken)
            self.assertIn("cannot be read", str(raised.exception))

    def test_more_or_less_than_was_asked_for(self):
        download = Download(memoryview(bytearray(4)))
        with self.assertRaisesRegex(errors.Internal, "more than the 4 bytes"):
            download.take(message(b"abcde"))
        download.take(message(b"abc"))
        with self.assertRaisesRegex(errors.Internal, "3 of 4 bytes"):
            download.finish()


class Failures(unittest.TestCase):
    def test_one_that_cannot_be_read(self):
        error = errors.from_status(b"\x0a\xff", tag="mine", command=3)
        self.assertIsInstance(error, errors.Internal)
        self.assertEqual((error.tag, error.command), ("mine", 3))

    def test_one_whose_detail_cannot_be_read(self):
        status = errors._Status(code=3, message="no")
        status.details.add(type_url="type.googleapis.com/kiln.v1.ErrorDetail", value=b"\x0a\xff")
        error = errors.from_status(status.SerializeToString())
        self.assertIsInstance(error, errors.InvalidArgument)
        self.assertEqual((error.message, error.detail), ("no", None))


if __name__ == "__main__":
    unittest.main()
