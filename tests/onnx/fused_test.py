"""com.microsoft's attention, activations and layers, beside onnxruntime; by numpy where it has them for GPUs alone."""

import unittest

import numpy as np
from beside import Beside

B, S, N, H = 2, 5, 3, 16
D = N * H


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def attention(q, k, v):
    """Of (batch, heads, length, size)."""
    y = softmax(q @ k.swapaxes(2, 3) / np.sqrt(np.float32(q.shape[3]))) @ v
    return y.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


class Attention(Beside):
    def projected(self, *more, outputs=(True,), **attributes):
        inputs = [self.random(B, S, 7), (self.random(7, 3 * D, seed=1) / 4,), (self.random(3 * D, seed=2),)]
        return self.check("Attention", [*inputs, *more], outputs, num_heads=N, **attributes)

    def test_attention_projects_its_input(self):
        self.projected()
        self.projected(scale=0.3)
        self.projected(unidirectional=1)

    def test_attention_takes_masks_of_each_kind(self):
        keys = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], np.int32)
        self.projected(keys)
        self.projected(keys, unidirectional=1, mask_filter_value=-50.0)
        self.projected(np.array([[0] * 5, [1] * 5], np.int32))
        self.projected(np.array([3, 5], np.int32))
        self.projected(np.array([3, 5, 1, 2], np.int32))
        self.projected(np.tril(np.ones((B, S, S), np.int32)))

    def test_attention_takes_a_past_and_a_bias(self):
        past = self.random(2, B, N, 4, H, seed=3)
        both = self.projected(None, past, outputs=(True, True))
        self.assertEqual(both[1].shape, (2, B, N, S + 4, H))
        self.projected(None, past, outputs=(True, True), unidirectional=1)
        self.projected(None, None, self.random(1, 1, S, S))

    def test_attention_has_values_of_another_size(self):
        x, weight, bias = self.random(B, S, 7), (self.random(7, 2 * D + 6, seed=1),), (self.random(2 * D + 6, seed=2),)
        self.check("Attention", [x, weight, bias], num_heads=N, qkv_hidden_sizes=[D, D, 6])

    def test_attention_of_quantized_inputs(self):
        random = np.random.default_rng(0)
        x = random.integers(0, 255, (B, S, 7)).astype(np.uint8)
        weight = random.integers(-127, 127, (7, 3 * D)).astype(np.int8)
        scales = [np.array(0.02, np.float32), (np.float32(0.01),)]
        zeros = [np.array(120, np.uint8), (np.array(0, np.int8),)]
        inputs = [x, (weight,), (self.random(3 * D),), *scales, None, *zeros]
        self.check("QAttention", inputs, num_heads=N, atol=1e-4)
        self.check("QAttention", inputs, num_heads=N, unidirectional=1, atol=1e-4)

    def heads(self, *more, key=None, value=None, bias=None, outputs=(True,), **attributes):
        key = self.random(B, 4, D, seed=1) if key is None else key
        value = self.random(B, 4, D, seed=2) if value is None else value
        inputs = [self.random(B, S, D), key, value, bias]
        return self.check("MultiHeadAttention", [*inputs, *more], outputs, num_heads=N, **attributes)

    def test_multi_head_attention(self):
        self.heads()
        self.heads(scale=0.5)
        self.heads(bias=self.random(3 * D))
        self.heads(value=self.random(B, 4, 2 * D), bias=self.random(4 * D))
        self.heads(key=self.random(B, S, D), value=self.random(B, S, D, seed=1), unidirectional=1)
        self.heads(key=self.random(B, N, 4, H), value=self.random(B, N, 4, H, seed=1))

    def test_multi_head_attention_masks(self):
        self.heads(np.array([[1, 1, 0, 1], [0, 1, 1, 1]], np.int32))
        self.heads(np.array([2, 4], np.int32))
        self.heads((np.random.default_rng(0).random((B, S, 4)) > 0.3).astype(np.int32))
        self.heads(None, self.random(B, N, S, 4))
        self.heads(None, self.random(1, N, S, 4))
        self.heads(np.array([[1, 1, 0, 1], [0, 1, 1, 1]], np.int32), self.random(B, 1, S, 4))

    def test_multi_head_attention_with_a_past(self):
        past = [self.random(B, N, 6, H, seed=5), self.random(B, N, 6, H, seed=6)]
        own = {"key": self.random(B, S, D, seed=1), "value": self.random(B, S, D, seed=2)}
        self.heads(None, None, *past, outputs=(True, True, True), **own)
        self.heads(None, None, *past, outputs=(True, True, True), unidirectional=1, bias=self.random(3 * D), **own)

    def test_multi_head_attention_of_what_lies_beside_each_other(self):
        packed = self.random(B, S, N, 3, H)
        expected = attention(*(packed[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3)))
        self.check("MultiHeadAttention", [packed], num_heads=N, expected=[expected])
        query, pair = self.random(B, S, D), self.random(B, 4, N, 2, H)
        q = query.reshape(B, S, N, H).transpose(0, 2, 1, 3)
        expected = attention(q, *(pair[:, :, :, i].transpose(0, 2, 1, 3) for i in range(2)))
        self.check("MultiHeadAttention", [query, pair], num_heads=N, expected=[expected])

    def test_rotary_embedding(self):
        table = [(np.cos(self.random(16, H // 2)),), (np.sin(self.random(16, H // 2)),)]
        places = np.array([[3, 4, 5, 6, 7], [0, 1, 9, 10, 15]], np.int64)
        for interleaved in (0, 1):
            for x in (self.random(B, S, D), self.random(B, N, S, H)):
                self.check("RotaryEmbedding", [x, places, *table], interleaved=interleaved)
                self.check("RotaryEmbedding", [x, np.array([4]), *table], interleaved=interleaved)
        table = [(np.cos(self.random(16, 2)),), (np.sin(self.random(16, 2)),)]
        self.check("RotaryEmbedding", [self.random(B, S, D), places, *table], num_heads=N, rotary_embedding_dim=4)


class GroupQueryAttention(Beside):
    heads, kv = 4, 2

    def inputs(self, lengths, total, queries=S, past=None, more=(), packed=False):
        batch = len(lengths)
        q, k, v = (self.random(batch, queries, n * H, seed=i) for i, n in enumerate((self.heads, self.kv, self.kv)))
        inputs = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
        before = [None, None]
        if past is not None:
            before = [self.random(batch, self.kv, past, H, seed=i) for i in (7, 8)]
        return [*inputs, *before, np.array(lengths, np.int32) - 1, (np.array(total, np.int32),), *more]

    def grouped(self, lengths, total, queries=S, past=None, more=(), packed=False, **attributes):
        inputs = self.inputs(lengths, total, queries, past, more, packed)
        return self.check("GroupQueryAttention", inputs, (True, True, True), num_heads=self.heads, kv_num_heads=self.kv, **attributes)

    def table(self):
        return [(np.cos(self.random(32, H // 2)),), (np.sin(self.random(32, H // 2)),)]

    def test_of_a_prompt(self):
        self.grouped([S, S], S)
        self.grouped([S, S], S, scale=0.5, softcap=2.0)
        self.grouped([S, S], S, packed=True)
        self.grouped([S, S], S, more=self.table(), do_rotary=1)
        self.grouped([S, S], S, more=self.table(), do_rotary=1, rotary_interleaved=1, packed=True)
        for window in (1, 2, 3, 9):
            self.grouped([S, S], S, local_window_size=window)

    def test_of_a_token_after_a_past(self):
        self.grouped([7, 7], 7, queries=1, past=6)
        self.grouped([7, 7], 7, queries=1, past=6, more=self.table(), do_rotary=1)
        self.grouped([7, 7], 7, queries=1, past=6, local_window_size=3)

    def test_of_rows_of_several_lengths(self):
        # What is behind a row's end in the cache is nobody's, so only the result is compared.
        for past in (6, 12):
            inputs = self.inputs([7, 4], 7, queries=1, past=past, more=self.table())
            attributes = {"num_heads": self.heads, "kv_num_heads": self.kv, "do_rotary": 1}
            [result, *_] = self.by_onnxruntime("GroupQueryAttention", inputs, (True, True, True), **attributes)
            self.check("GroupQueryAttention", inputs, (True, False, False), expected=[result], **attributes)

    def test_of_a_cache_with_room(self):
        present = self.grouped([7, 7], 7, queries=1, past=7)[1]
        self.assertEqual(present.shape, (2, self.kv, 7, H))

    def test_of_several_tokens_after_a_past(self):
        self.grouped([9], 9, queries=3, past=6, more=self.table(), do_rotary=1)

    def test_of_all_keys_in_both_directions(self):
        self.grouped([S, S], S, causal=0)
        self.grouped([S, S], S, causal=0, packed=True, more=self.table(), do_rotary=1)
        self.grouped([9], 9, queries=3, past=6, causal=0)
        # Of rows of several lengths what is behind a row's end is seen by none.
        for lengths, queries, past in (([S, 3], S, None), ([S, 3], S, 8), ([7, 4], 1, 6), ([7, 4], 1, 12)):
            inputs = self.inputs(lengths, lengths[0], queries, past)
            attributes = {"num_heads": self.heads, "kv_num_heads": self.kv, "causal": 0}
            [result, *_] = self.by_onnxruntime("GroupQueryAttention", inputs, (True, True, True), **attributes)
            self.check("GroupQueryAttention", inputs, (True, False, False), expected=[result], **attributes)

    def test_what_else_may_be_seen_is_named(self):
        inputs = self.inputs([S, S], S)
        for words, attributes in (
            ("causal is 0 or 1", {"causal": 2}),
            ("beside causal 0 it is -1", {"causal": 0, "local_window_size": 2}),
            ("local_window_size is at least 1", {"local_window_size": 0}),
            ("sliding_window_cache", {"sliding_window_cache": 1, "local_window_size": 2}),
        ):
            self.refused(words, "GroupQueryAttention", inputs, (True, True, True), num_heads=self.heads,
                         kv_num_heads=self.kv, **attributes)  # fmt: skip

    def test_a_bias_and_a_sink(self):
        bias = self.random(2, self.heads, S, S)
        self.grouped([S, S], S, more=[None, None, None, bias])
        self.grouped([7, 7], 7, queries=1, past=6, more=[None, None, None, self.random(1, 1, 1, 7)])
        self.grouped([S, S], S, more=[None, None, None, None, (self.random(self.heads),)])
        self.grouped([S, S], S, smooth_softmax=1)

    def test_mistakes_are_named(self):
        x, k = self.random(2, S, self.heads * H), self.random(2, S, self.kv * H)
        lengths, total = np.array([4, 4], np.int32), (np.array(5, np.int32),)
        for words, heads, kv in (("4 heads of queries for 3 of keys", 4, 3), ("heads of queries", 0, 2), ("heads of queries", 2**62, 2**62)):
            self.refused(words, "GroupQueryAttention", [x, k, k, None, None, lengths, total], num_heads=heads, kv_num_heads=kv)


class Layers(Beside):
    def test_embeddings_are_added_and_normalized(self):
        words, places, segments = (self.random(n, D, seed=n) for n in (9, 8, 2))
        scale, bias = (self.random(D, seed=n) for n in (3, 4))
        ids, kinds = np.array([[1, 2, 8, 0], [3, 1, 1, 7]], np.int32), np.array([[0, 0, 1, 1], [1, 1, 0, 0]], np.int32)
        mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
        held = [(scale,), (bias,)]
        three = (True, True, True)
        self.check("EmbedLayerNormalization", [ids, kinds, (words,), (places,), (segments,), *held, mask], three)
        self.check("EmbedLayerNormalization", [ids, None, (words,), (places,), None, *held], three, epsilon=1e-5)
        at = np.array([[4, 5, 6, 7], [0, 1, 2, 3]], np.int32)
        self.check("EmbedLayerNormalization", [ids, None, (words,), (places,), None, *held, None, at], three)
        self.refused("input 5 is missing", "EmbedLayerNormalization", [ids, None, (words,), (places,)])

    def test_a_sum_is_normalized(self):
        x, skip, scale, bias, more = self.random(B, S, D), self.random(B, S, D, seed=1), *((self.random(D, seed=n),) for n in (2, 3, 4))
        both = (True, False, False, True)
        self.check("SkipLayerNormalization", [x, skip, scale, bias, more], both, epsilon=1e-5)
        self.check("SkipLayerNormalization", [x, skip, scale], both)
        self.check("SkipSimplifiedLayerNormalization", [x, skip, scale, more], both, epsilon=1e-5)
        self.check("SkipSimplifiedLayerNormalization", [x, skip, scale], both)

    def test_activations(self):
        x, bias = self.random(B, S, D) * 3, (self.random(D),)
        self.check("Gelu", [x])
        self.check("QuickGelu", [x], alpha=1.3)
        self.check("FastGelu", [x])
        self.check("FastGelu", [x, bias])
        self.check("BiasGelu", [x, bias])

    def test_fused_products(self):
        for a, b, attributes in (
            ((3, 4), (4, 5), {"alpha": 0.5}),
            ((2, 4, 3), (2, 4, 5), {"transA": 1}),
            ((2, 3, 4), (5, 4), {"transB": 1, "alpha": -2.0}),
            ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
            ((4, 2, 3), (2, 4, 5), {"transBatchA": 1, "transA": 1}),
            ((2, 3, 4), (4, 2, 5), {"transBatchB": 1}),
            ((3, 2, 6, 4), (5, 2, 6, 4), {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
        ):
            self.check("FusedMatMul", [self.random(*a), self.random(*b)], **attributes)

        self.check("TransposeMatMul", [self.random(2, 4, 3), self.random(2, 4, 5)], transA=1)

    def test_fused_gemm(self):
        inputs = [self.random(3, 4), self.random(4, 5), self.random(5)]
        for activation in ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "LeakyRelu", "Elu", "ThresholdedRelu"):
            alpha = 0.3 if activation in ("LeakyRelu", "Elu", "ThresholdedRelu") else None
            self.check("FusedGemm", inputs, activation=activation, activation_alpha=alpha, alpha=0.5, beta=2.0)
        self.check("FusedGemm", inputs, activation="HardSigmoid", activation_alpha=0.3, activation_beta=0.4)
        self.refused("taken are Relu, ", "FusedGemm", inputs, activation="Cosine")

    def test_fused_convolution(self):
        x, weight, bias = self.random(2, 4, 7, 7), self.random(6, 4, 3, 3), self.random(6)
        for activation, parameters in (("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.2]),
                                       ("Clip", [-0.5, 1.5]), ("HardSigmoid", [0.3, 0.4])):  # fmt: skip
            attributes = {"activation": activation, "activation_params": parameters}
            self.check("FusedConv", [x, (weight,), (bias,)], pads=[1, 1, 1, 1], strides=[2, 2], atol=1e-4, **attributes)
        self.check("FusedConv", [x, (weight,), (bias,), self.random(2, 6, 5, 5)], activation="Relu", atol=1e-4)

    def test_a_half_gates_the_other(self):
        x, bias = self.random(2, 3, 8), self.random(8)
        left, right = np.split(x + bias, 2, -1)
        erf = np.vectorize(__import__("math").erf)
        self.check("BiasSplitGelu", [x, bias], expected=[(left * 0.5 * right * (1 + erf(right / np.sqrt(2)))).astype(np.float32)])
        self.check("BiasAdd", [x, bias, x * 2], expected=[x * 3 + bias])
        self.refused("no halves", "BiasSplitGelu", [self.random(2, 3, 7), self.random(7)])


class Refusals(Beside):
    def test_hostile_numbers_are_named(self):
        x, weight = self.random(B, S, 7), (self.random(7, 3 * D),)
        for words, attributes in (
            ("num_heads is from 1", {"num_heads": 0}),
            ("num_heads is from 1", {"num_heads": -(2**63)}),
            ("num_heads is from 1", {"num_heads": 2**62}),
            ("has no 5 heads", {"num_heads": 5}),
            ("qkv_hidden_sizes", {"num_heads": N, "qkv_hidden_sizes": [2**62, 2**62, -(2**63)]}),
            ("qkv_hidden_sizes", {"num_heads": N, "qkv_hidden_sizes": [D, D]}),
            ("do_rotary", {"num_heads": N, "do_rotary": 1}),
        ):
            self.refused(words, "Attention", [x, weight], **attributes)
        self.refused("a mask of", "Attention", [x, weight, None, np.zeros((B, 1, S, S), np.int32)], num_heads=N)
        self.refused("a mask of", "Attention", [x, weight, None, np.zeros(3 * B + 2, np.int32)], num_heads=N)
        self.refused("no values", "MultiHeadAttention", [self.random(B, S, D), self.random(B, S, D)], num_heads=N)
        self.refused("a cache", "MultiHeadAttention", [*[self.random(B, S, D)] * 3, *[None] * 5, np.array(3, np.int32)], num_heads=N)
        table = [(self.random(4, 4),)] * 2
        self.refused("pairs of angles", "RotaryEmbedding", [self.random(B, N, S, H), np.array([0]), *table], rotary_embedding_dim=-(2**63))


if __name__ == "__main__":
    unittest.main()
