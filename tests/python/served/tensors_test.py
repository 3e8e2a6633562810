"""Requests of models and their answers as bytes: what goes in, and answers that cannot be right."""

import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support  # noqa: F401: finds the package
import numpy as np

import kiln
from kiln.inference import grpc_service_pb2 as pb
from kiln.served import tensors
from kiln.served.tensors import Ask

DTYPES = {"x": kiln.float32}


def asked(inputs, ask=Ask(), dtypes=DTYPES):
    return pb.ModelInferRequest.FromString(tensors.request("m", "7", dtypes, inputs, ask))


def said(datatype="FP32", shape=(2,), content=bytes(8), **more):
    output = pb.ModelInferResponse.InferOutputTensor(name="y", datatype=datatype, shape=shape)
    return pb.ModelInferResponse(outputs=[output], raw_output_contents=[content], **more)


class Requests(unittest.TestCase):
    def test_arrays_travel_raw_in_their_order(self):
        message = asked({"x": np.float32([[1, 2]]), "n": np.int64(3)}, Ask(outputs=["y", "z"], id="me"))
        self.assertEqual((message.model_name, message.model_version, message.id), ("m", "7", "me"))
        self.assertEqual([(row.name, row.datatype, list(row.shape)) for row in message.inputs],
                         [("x", "FP32", [1, 2]), ("n", "INT64", [])])  # fmt: skip
        self.assertEqual(list(message.raw_input_contents), [b"\0\0\x80?\0\0\0@", b"\3\0\0\0\0\0\0\0"])
        self.assertEqual([row.name for row in message.outputs], ["y", "z"])
        self.assertEqual(len(message.parameters), 0)

    def test_lists_become_what_the_model_takes_and_arrays_stay_what_they_are(self):
        self.assertEqual(asked({"x": [1, 2]}).inputs[0].datatype, "FP32")
        self.assertEqual(asked({"x": np.float64([1, 2])}).inputs[0].datatype, "FP64")
        message = asked({"x": np.arange(6, dtype=">f4").reshape(2, 3).T})
        self.assertEqual(message.raw_input_contents[0], np.float32([0, 3, 1, 4, 2, 5]).tobytes())

    def test_a_sequence_is_in_its_parameters(self):
        first = asked({}, Ask(sequence=5, start=True)).parameters
        self.assertEqual((first["sequence_id"].int64_param, first["sequence_start"].bool_param, len(first)), (5, True, 2))
        last = asked({}, Ask(sequence=(1 << 64) - 1, end=True)).parameters
        self.assertEqual((last["sequence_id"].uint64_param, last["sequence_end"].bool_param), ((1 << 64) - 1, True))
        self.assertEqual(asked({}, Ask(sequence="a")).parameters["sequence_id"].string_param, "a")
        self.assertEqual(asked({}, Ask(timeout=0.5)).parameters["timeout"].int64_param, 500_000)
        for wrong in (0, -1, 1 << 64):
            with self.assertRaisesRegex(kiln.InvalidArgument, "sequence"):
                asked({}, Ask(sequence=wrong))

    def test_what_no_model_takes_is_told_before_it_is_sent(self):
        for inputs, kind, words in (([1, 2], kiln.InvalidArgument, "by name"), ({"x": np.array(["a"])}, kiln.UnsupportedDType, ""),
                                    ({"x": np.float32([1]).astype(kiln.float8_e4m3.numpy)}, kiln.UnsupportedDType, "float8_e4m3")):
            with self.subTest(inputs), self.assertRaisesRegex(kind, words):
                asked(inputs)
        with self.assertRaises(TypeError):
            asked({}, Ask(outputs="y"))


class Answers(unittest.TestCase):
    def test_outputs_come_by_name_as_arrays_of_their_own(self):
        outputs = tensors.answer(said(content=np.float32([1, 2]).tobytes()).SerializeToString(), ["y"])
        self.assertEqual(list(outputs), ["y"])
        y = outputs["y"]
        self.assertEqual((y.dtype, y.tolist()), (np.float32, [1, 2]))
        self.assertTrue(y.flags.writeable and y.flags.aligned and y.flags.owndata)
        empty = tensors.answer(said(shape=(0, 4), content=b"").SerializeToString())["y"]
        self.assertEqual(empty.shape, (0, 4))

    def test_every_dtype_has_one_name(self):
        self.assertEqual(len(tensors.BY_DATATYPE), 13)
        for name, datatype in tensors.DATATYPES.items():
            dtype = kiln.dtype(name)
            y = tensors.answer(said(datatype, content=bytes(2 * dtype.itemsize)).SerializeToString())["y"]
            self.assertEqual((kiln.dtype(y.dtype).name, y.shape), (name, (2,)))

    def test_what_cannot_be_right_is_internal(self):
        twice = pb.ModelInferResponse(outputs=list(said().outputs) * 2, raw_output_contents=[bytes(8)] * 2)
        cases = {
            "contents of 0": pb.ModelInferResponse(outputs=said().outputs), "0 outputs": pb.ModelInferResponse(),
            "twice": twice, "somebody": said(id="somebody's"), "7 bytes": said(content=bytes(7)),
            "12 bytes": said(content=bytes(12)), "-1": said(shape=(-1,), content=b""), "FP4": said("FP4"),
            "BYTES": said("BYTES"), "no array": said(shape=[0] + [1 << 62] * 2, content=b""),
            "65 axes": said(shape=[1] * 64 + [2]), "has 10000 axes": said(shape=[1 << 62] * 10000),
        }  # fmt: skip
        for words, message in cases.items():
            with self.subTest(words), self.assertRaisesRegex(kiln.Internal, words):
                tensors.answer(message.SerializeToString())
        with self.assertRaisesRegex(kiln.Internal, "no output z"):
            tensors.answer(said().SerializeToString(), ["z"])

    def test_axes_are_counted_before_their_product_is_made(self):
        with mock.patch.object(tensors.arrays, "count_of", side_effect=AssertionError), self.assertRaises(kiln.Internal) as caught:
            tensors.answer(said(shape=[1 << 62] * 10000).SerializeToString())
        self.assertLess(len(caught.exception.message), 100)

    def test_whose_an_answer_of_a_stream_is(self):
        cases = [
            (pb.ModelStreamInferResponse(infer_response=said(id="7")), "7"),
            (pb.ModelStreamInferResponse(infer_response=said()), ""),
            (pb.ModelStreamInferResponse(error_message="no", infer_response=pb.ModelInferResponse(id="7")), "7"),
            (pb.ModelStreamInferResponse(error_message="no"), None),
        ]
        for message, id in cases:
            self.assertEqual(tensors.streamed_id(message.SerializeToString()), id)
        for wrong in (b"\x12\x05ab", b"\x12\x03\x1a\x01\xff"):
            self.assertIsNone(tensors.streamed_id(wrong))

    def test_what_is_no_message_is_internal(self):
        whole = said(model_name="m", id="").SerializeToString()
        for cut in range(1, len(whole)):
            with self.assertRaises(kiln.Internal):
                tensors.answer(whole[:cut])
        for wrong in (b"\xff" * 12, b"\x0b", b"\x32\x05ab", b"\x30\x01", b"\x32\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
            with self.assertRaises(kiln.Internal):
                tensors.answer(wrong)
            with self.assertRaises(kiln.Internal):
                tensors.streamed(b"\x12" + wrong)

    def test_a_streams_request_that_failed_has_the_servers_text_and_no_code(self):
        failed = pb.ModelStreamInferResponse(error_message='input "x" is missing')
        with self.assertRaisesRegex(kiln.KilnError, "missing") as caught:
            tensors.streamed(failed.SerializeToString(), id="1")
        self.assertEqual((caught.exception.code, caught.exception.status.name), (None, "UNKNOWN"))
        good = pb.ModelStreamInferResponse(infer_response=said(id="1"))
        self.assertEqual(tensors.streamed(good.SerializeToString(), id="1")["y"].tolist(), [0, 0])


if __name__ == "__main__":
    unittest.main()
