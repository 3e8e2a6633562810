"""kiln.served: models that a server serves (kilnd --models), by the open inference protocol.

    model = client.model("minilm")
    model.inputs                                  # names, dtypes, shapes
    outputs = model.infer({"input_ids": ids, "attention_mask": mask})

Client.models() says which there are. Arrays go in and come out by name; a model that keeps state goes on from one
request of a sequence to the next (`sequence`); with model.stream() many requests are on their way at a time.
kiln.aio's clients have the same, awaited (kiln.served.aio).

Who asks, deadlines, traces and failures are as of all calls: docs/serving.md says what a server serves.
"""

from kiln.help import describe
from kiln.served.models import Model
from kiln.served.streams import Stream
from kiln.served.tensors import Tensor, Version

__all__ = ["Model", "Stream", "Tensor", "Version"]

describe({name: globals()[name] for name in __all__}, "served.")
