"""Models that keep state from one request of a sequence to the next, by Triton's own clients; and the example's GPT."""

import hashlib
import pathlib
import queue
import re
import sys
import threading
import unittest
from concurrent import futures
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import kiln
import numpy as np
import serving_models as models
import support
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from serving_regions import Region, placed
from tritonclient.grpc import service_pb2 as pb
from tritonclient.utils import InferenceServerException

WAIT = 60  # seconds; far more than it takes
# A run waits until all that were in the one before have asked again: clients are together however slow the machine is.
PATIENT = "oldest { max_queue_delay_microseconds: 1000000 }"
POOLS = (16 + 16) * 2 * 4, (16 + 16) * 8  # bytes that `sums` takes: a slot for each of 16 sequences, and of 16 rows


def given(x):
    x = np.asarray(x, np.float32).reshape(1, -1, 2)
    made = triton.InferInput("x", list(x.shape), "FP32")
    made.set_data_from_numpy(x)
    return [made]


class Served(unittest.TestCase):
    """`sums` behind a server; a tenant's name is its token, and "" is a server that does not ask."""

    CONFIG = models.sequences()
    FLAGS = ()
    MODEL = models.sums()

    @classmethod
    def setUpClass(cls):
        cls.folder = models.Folder(cls)
        cls.folder.configure("sums", cls.CONFIG)
        cls.folder.put("sums", cls.MODEL)
        cls.folder.put("scale", models.scale(2))
        cls.server = support.Server("--models=%s" % cls.folder.path, "--model_sizes=n=1:16,t=1:8", *cls.FLAGS)
        cls.addClassCleanup(cls.server.stop)
        cls.client = cls.connect()

    @classmethod
    def connect(cls):
        client = triton.InferenceServerClient(cls.server.address)
        cls.addClassCleanup(client.close)
        return client

    def step(self, sequence, x, start=False, end=False, client=None, **more):
        """(y, how many steps so far)."""
        answer = (client or self.client).infer("sums", given(x), sequence_id=sequence, sequence_start=start,
                                               sequence_end=end, **more)  # fmt: skip
        return answer.as_numpy("y")[0].tolist(), int(answer.as_numpy("steps")[0])

    def refused(self, code, words, call, *arguments, **more):
        with self.assertRaises(InferenceServerException) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.status(), "StatusCode." + code, caught.exception.message())
        for word in words:
            self.assertIn(word, caught.exception.message())

    def ready(self, client=None, **more):
        self.assertTrue(support.eventually(lambda: (client or self.client).is_model_ready("sums", **more)))

    @classmethod
    def compiled(cls):
        return sum("event=compiled" in line for line in cls.server.log)

    @classmethod
    def in_use(cls):
        with kiln.connect(cls.server.address) as client:
            return client.devices()[0].memory_in_use_bytes


class Sequences(Served):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        assert support.eventually(lambda: cls.client.is_model_ready("sums"))
        # Of `scale`, and of `sums` as it is and over pools; the log may come a moment after.
        assert support.eventually(lambda: cls.compiled() == 3)
        cls.empty = cls.in_use()

    def test_each_sequence_goes_on_from_its_own_state(self):
        before = self.compiled()
        draw = np.random.default_rng(1)
        wanted = {}
        for at in range(60):
            sequence = [7, "seven", "7"][at % 3]
            x = draw.integers(-9, 9, 2)
            wanted[sequence] = wanted.get(sequence, 0) + x
            self.assertEqual(self.step(sequence, x, start=at < 3), (wanted[sequence].tolist(), at // 3 + 1))
        self.assertEqual(self.compiled(), before)
        for sequence in wanted:
            self.step(sequence, [0, 0], end=True)

    def test_a_sequence_may_begin_anew_and_ends_when_it_says_so(self):
        self.assertEqual(self.step(1, [1, 2], start=True), ([1, 2], 1))
        self.assertEqual(self.step(1, [1, 2]), ([2, 4], 2))
        self.assertEqual(self.step(1, [5, 5], start=True), ([5, 5], 1))
        self.assertEqual(self.step(1, [1, 0], end=True), ([6, 5], 2))
        self.refused("NOT_FOUND", ["sequence 1 is not there", "sequence_start"], self.step, 1, [1, 0])
        self.assertEqual(self.step(1, [3, 3], start=True, end=True), ([3, 3], 1))
        self.refused("NOT_FOUND", ["sequence 1"], self.step, 1, [1, 0])

    def test_a_request_may_have_more_than_one_token(self):
        self.assertEqual(self.step(1, [[1, 2], [3, 4], [5, 6]], start=True), ([9, 12], 1))
        self.assertEqual(self.step(1, [1, 1]), ([10, 13], 2))
        self.assertEqual(self.step(1, [[1, 1], [1, 1]], end=True), ([12, 15], 3))

    def test_a_request_that_fails_changes_nothing(self):
        self.step(1, [1, 2], start=True)
        bad = given([1, 1])
        bad[0].set_shape([2, 1, 1])
        self.refused("INVALID_ARGUMENT", ["x"], self.client.infer, "sums", bad, sequence_id=1, sequence_end=True)
        none = [triton.InferRequestedOutput("next_s")]
        self.refused("INVALID_ARGUMENT", ["next_s"], self.step, 1, [1, 2], start=True, outputs=none)
        self.assertEqual(self.step(1, [1, 1], end=True)[0], [2, 3])

    def test_what_is_wrong_is_named(self):
        two = triton.InferInput("x", [2, 1, 2], "FP32")
        two.set_data_from_numpy(np.zeros([2, 1, 2], np.float32))
        infer = self.client.infer
        self.refused("INVALID_ARGUMENT", ["parameters.sequence_id is missing"], infer, "sums", given([1, 2]))
        more = {"sequence_id": 1, "sequence_start": True}
        self.refused("INVALID_ARGUMENT", ["n = 2", "of one sequence"], infer, "sums", [two], **more)
        self.refused("NOT_FOUND", ["sequence 99 is not there"], self.step, 99, [1, 2])
        self.refused("INVALID_ARGUMENT", ["129 bytes; at most 128"], self.step, "a" * 129, [1, 2])
        state = triton.InferInput("k", [1], "INT64")
        state.set_data_from_numpy(np.zeros(1, np.int64))
        self.refused("INVALID_ARGUMENT", ['"k" is none of the model\'s'], infer, "sums", [*given([1, 2]), state], **more)
        for parameters, word in (({"sequence_start": pb.InferParameter(int64_param=1)}, "sequence_start is neither true"),
                                 ({"sequence_id": pb.InferParameter(int64_param=-1)}, "sequence_id is neither a number"),
                                 ({"sequence_id": pb.InferParameter(bool_param=True)}, "sequence_id is neither a number"),
                                 ({"sequence_length": pb.InferParameter(bool_param=True)}, "sequence_length")):  # fmt: skip
            x = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 1, 2])
            request = pb.ModelInferRequest(model_name="sums", raw_input_contents=[bytes(8)], inputs=[x])
            request.parameters["sequence_id"].int64_param = 1
            for name, value in parameters.items():
                request.parameters[name].CopyFrom(value)
            with self.assertRaises(triton._client.grpc.RpcError) as caught:
                self.client._client_stub.ModelInfer(request)
            self.assertIn(word, caught.exception.details())
        x = triton.InferInput("x", [2], "FP32")
        x.set_data_from_numpy(np.zeros(2, np.float32))
        self.assertRaises(InferenceServerException, infer, "scale", [x], sequence_id=1)

    def test_there_is_a_limit_and_the_last_gives_its_memory_back(self):
        self.assertTrue(support.eventually(lambda: self.in_use() == self.empty))
        for sequence in range(1, 17):
            self.step(sequence, [1, 2], start=True)
        # What a run takes for itself may go a moment after its answer.
        self.assertTrue(support.eventually(lambda: self.in_use() == self.empty + sum(POOLS)))
        self.refused("RESOURCE_EXHAUSTED", ["16 sequences", "sequence_end"], self.step, 17, [1, 2], start=True)
        self.step(3, [1, 2], end=True)
        self.assertEqual(self.step(17, [1, 2], start=True), ([1, 2], 1))
        for sequence in (*range(1, 3), *range(4, 18)):
            self.assertGreaterEqual(self.in_use(), self.empty + sum(POOLS))
            self.step(sequence, [1, 2], end=True)
        self.assertTrue(support.eventually(lambda: self.in_use() == self.empty))

    def test_steps_of_many_streams_are_all_answered_right(self):
        compiled, failures = self.compiled(), queue.Queue()
        self.folder.configure("together", models.sequences(PATIENT))
        self.folder.put("together", models.sums())  # the same programs, which are there
        self.assertTrue(support.eventually(lambda: self.client.is_model_ready("together")))

        def go(number):
            answers, client, draw, sum_ = queue.Queue(), self.connect(), np.random.default_rng(number), 0
            client.start_stream(callback=lambda result, error: answers.put((result, error)))
            for at in range(40):
                x = draw.integers(-9, 9, 2)
                sum_ = sum_ + x
                client.async_stream_infer("together", given(x), sequence_id=number + 1, sequence_start=at == 0,
                                          sequence_end=at == 39)  # fmt: skip
                result, error = answers.get(timeout=WAIT)
                if error is not None or result.as_numpy("y")[0].tolist() != sum_.tolist():
                    return failures.put((number, at, error))
            client.stop_stream()

        threads = [threading.Thread(target=go, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures.qsize(), 0, list(failures.queue))
        counts = self.client.get_inference_statistics("together").model_stats[0]
        self.assertEqual(counts.inference_count, 320)
        self.assertLess(counts.execution_count, 320)  # some of them were one run
        self.assertEqual(self.compiled(), compiled)

    def test_clients_are_told_what_goes_around(self):
        config = self.client.get_model_config("sums").config
        states = [(state.input_name, state.output_name) for state in config.sequence_batching.state]
        self.assertEqual(states, [("s", "next_s"), ("k", "next_k")])
        self.assertEqual(config.sequence_batching.oldest.max_candidate_sequences, 16)
        self.assertEqual(config.sequence_batching.max_sequence_idle_microseconds, 60_000_000)
        metadata = self.client.get_model_metadata("sums")
        self.assertEqual([row.name for row in metadata.inputs], ["x"])
        self.assertEqual([row.name for row in metadata.outputs], ["y", "steps"])
        self.assertIn("sequence", self.client.get_server_metadata().extensions)

    def test_a_model_that_is_loaded_anew_has_no_sequences(self):
        self.folder.configure("again", models.sequences())
        self.folder.put("again", models.sums())
        self.assertTrue(support.eventually(lambda: self.client.is_model_ready("again")))
        infer = self.client.infer
        infer("again", given([1, 2]), sequence_id=1, sequence_start=True)
        self.folder.configure("again", models.sequences("oldest { max_candidate_sequences: 1 }"))

        def limit():
            return self.client.get_model_config("again").config.sequence_batching.oldest.max_candidate_sequences

        self.assertTrue(support.eventually(lambda: limit() == 1))
        self.refused("NOT_FOUND", ["sequence 1"], infer, "again", given([1, 2]), sequence_id=1)

    def test_what_cannot_be_sequences_is_in_the_index(self):
        for name, config, word in (
            ("a", models.sequences(states=["s", "z"]), 'z\\" is to be state, and is no input of the model'),
            ("b", models.sequences().replace("next_s", "steps"), 'differs from the input'),
            ("c", models.sequences("iterative_sequence: true"), "sequence_batching.iterative_sequence: not served"),
            ("d", "sequence_batching {", "config.pbtxt: sequence_batching: is not a message"),
            ("e", models.sequences(states=[]), "there is none; name the input and the output"),
        ):  # fmt: skip
            self.folder.configure(name, config)
            self.folder.put(name, models.sums())

            def reasons():
                return [row.reason for row in self.client.get_model_repository_index().models if row.name == name]

            self.assertTrue(support.eventually(lambda: any(reasons())), name)
            self.assertIn(word, reasons()[0])


class IdleOnes(Served):
    CONFIG = models.sequences("max_sequence_idle_microseconds: 300000")

    def test_end_and_give_their_memory_back(self):
        # That they take memory until then is told above, where they have time.
        self.ready()
        empty = self.in_use()
        self.step(1, [1, 2], start=True)
        self.assertTrue(support.eventually(lambda: self.in_use() == empty))
        self.refused("NOT_FOUND", ["sequence 1 is not there"], self.step, 1, [1, 2])


class MixedRows(Served):
    """Where rows mix, which the compiler finds, steps that come together are run one by one."""

    MODEL = models.sums(mixes=True)

    def test_are_never_run_together(self):
        self.ready()
        def go(number):
            client = self.connect()
            for at in range(1, 20):
                y, _ = self.step(number, [number, at], start=at == 1, client=client)
                self.assertEqual(y, [2 * number * at, at * (at + 1)])

        with futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(go, range(1, 5)))  # raises what they raise
        counts = self.client.get_inference_statistics("sums").model_stats[0]
        self.assertEqual((counts.inference_count, counts.execution_count), (4 * 19, 4 * 19))


class InSharedMemory(Served):
    FLAGS = ("--shared_memory_named_max_bytes=1048576", "--shared_memory_named_loopback")

    def test_a_place_that_is_too_small_is_told_before_the_run(self):
        self.ready()
        region = Region(self, 8).register(self.client, "out")
        self.step(1, [1, 2], start=True)
        y, infer = triton.InferRequestedOutput("y"), self.client.infer
        more = {"sequence_id": 1, "outputs": [placed(y, "out", 7)]}
        self.refused("INVALID_ARGUMENT", ['"out" has 7 bytes', "at least 8"], infer, "sums", given([1, 1]), **more)
        infer("sums", given([1, 1]), sequence_id=1, outputs=[placed(y, "out", 8)])
        self.assertEqual(region.get(np.float32, [2]).tolist(), [2, 3])
        self.assertEqual(self.step(1, [1, 1], end=True), ([3, 4], 3))


class ByHttp(Served):
    FLAGS = ("--http_listen=127.0.0.1:0",)

    def test_a_sequence_goes_on(self):
        self.ready()
        port = next(int(found.group(1)) for line in self.server.log
                    for found in [re.search(r"event=http .*\bport=(\d+)", line)] if found)  # fmt: skip
        client = triton_http.InferenceServerClient("127.0.0.1:%d" % port, connection_timeout=60, network_timeout=60)
        self.addCleanup(client.close)
        for at in range(1, 4):
            x = triton_http.InferInput("x", [1, 1, 2], "FP32")
            x.set_data_from_numpy(np.array([[[1, at]]], np.float32))
            answer = client.infer("sums", [x], sequence_id="h", sequence_start=at == 1, sequence_end=at == 3)
            self.assertEqual(answer.as_numpy("y").tolist(), [[at, at * (at + 1) / 2]])


class Tenants(Served):
    ALL = ("a", "b", "poor")

    @classmethod
    def setUpClass(cls):
        cls.file = pathlib.Path(models.tempfile.mkdtemp()) / "tenants"
        cls.addClassCleanup(models.shutil.rmtree, cls.file.parent)
        cls.write(*cls.ALL)
        cls.FLAGS = ("--tenants=%s" % cls.file,)
        super().setUpClass()

    @classmethod
    def write(cls, *names):
        """The file of tenants, at once."""
        quotas = {"poor": "quota { device_bytes: 100 }"}
        draft = cls.file.with_suffix(".draft")
        draft.write_text("".join(
            'tenant { name: "%s" token { sha256: "%s" } %s }\n'
            % (name, hashlib.sha256(name.encode()).hexdigest(), quotas.get(name, "")) for name in names))  # fmt: skip
        draft.replace(cls.file)

    def test_who_comes_back_under_a_name_has_no_sequences(self):
        b = {"headers": {"authorization": "Bearer b"}}
        self.ready(**b)
        self.assertEqual(self.step("kept", [1, 2], start=True, **b), ([1, 2], 1))

        def told():
            try:
                return self.step("kept", [1, 2], **b)
            except InferenceServerException as error:
                return error.status()

        answers, goes_on = queue.Queue(), self.connect()
        goes_on.start_stream(callback=lambda result, error: answers.put((result, error)), **b)

        def streamed(start):
            goes_on.async_stream_infer("sums", given([1, 2]), sequence_id="kept", sequence_start=start)
            result, error = answers.get(timeout=WAIT)
            return error.message() if result is None else result.as_numpy("y")[0].tolist()

        self.assertEqual(streamed(False), [2, 4])
        self.write("a", "poor")
        self.assertTrue(support.eventually(lambda: told() == "StatusCode.UNAUTHENTICATED"))
        result, error = answers.get(timeout=WAIT)  # the stream is over, too
        self.assertIsNone(result)
        self.assertIn("the token is none of this server's", error.message())
        self.write(*self.ALL)
        self.assertTrue(support.eventually(lambda: told() != "StatusCode.UNAUTHENTICATED"))
        self.assertEqual(told(), "StatusCode.NOT_FOUND")
        goes_on.stop_stream()

    def test_know_nothing_of_each_other(self):
        who = {name: {"headers": {"authorization": "Bearer " + name}} for name in self.ALL}
        self.ready(**who["a"])
        self.assertEqual(self.step(1, [1, 2], start=True, **who["a"]), ([1, 2], 1))
        self.refused("NOT_FOUND", ["sequence 1 is not there"], self.step, 1, [1, 2], **who["b"])
        self.assertEqual(self.step(1, [5, 5], start=True, **who["b"]), ([5, 5], 1))
        self.assertEqual(self.step(1, [1, 2], **who["a"]), ([2, 4], 2))
        self.step(1, [0, 0], end=True, **who["b"])
        self.assertEqual(self.step(1, [1, 2], **who["a"]), ([3, 6], 3))
        for sequence in range(2, 17):
            self.step(sequence, [1, 2], start=True, **who["a"])
        self.refused("RESOURCE_EXHAUSTED", ["16 sequences"], self.step, 17, [1, 2], start=True, **who["a"])
        self.assertEqual(self.step(17, [1, 2], start=True, **who["b"]), ([1, 2], 1))
        self.refused("RESOURCE_EXHAUSTED", ["device_bytes"], self.step, 1, [1, 2], start=True, **who["poor"])


class TheExample(unittest.TestCase):
    def test_generates_what_numpy_does(self):
        sys.path.append(str(ROOT / "examples"))
        import gpt
        import gpt_model

        folder = models.Folder(type(self))
        gpt_model.write(folder.path, gpt_model.model(gpt_model.weights(), batching=PATIENT))
        with support.running("--models=%s" % folder.path) as server, mock.patch.object(gpt, "ADDRESS", server.address):
            client = triton.InferenceServerClient(server.address)
            self.addCleanup(client.close)
            self.assertTrue(support.eventually(lambda: client.is_model_ready("gpt")))
            texts, counts = gpt.main(clients=3, count=20)
        self.assertEqual([len(text) for text in texts], [20, 20, 20])
        self.assertEqual(counts.inference_count, 3 * 19 + 3 + 4 + 5)
        self.assertLess(counts.execution_count, counts.inference_count)
        self.assertEqual("".join(server.log).count("event=compiled"), 2)

if __name__ == "__main__":
    unittest.main()
