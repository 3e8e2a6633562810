"""The trace that calls are part of: W3C's traceparent, which the server keeps with what it says of the call.

    with kiln.traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"):
        y = program(x)                  # docs/tracing.md shows where its time went, under that trace

A context variable holds it, so it is of one thread or task, and of the tasks that are begun within. A command of the
stream has no metadata, which is the stream's, so all goes by calls of its own within (Pipeline.on).
"""

from __future__ import annotations

import contextlib
import contextvars
import re
from typing import Any, Iterator, Optional, Tuple

from kiln.errors import InvalidArgument

# A version, the trace, the caller's span, flags; what later versions add comes behind. Zeros stand for no trace.
_IDS = r"-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_FORM = re.compile("00%s|(?!00|ff)[0-9a-f]{2}%s(-[!-~]*)?" % (_IDS, _IDS))

_current: "contextvars.ContextVar[Tuple[Tuple[str, Any], ...]]" = contextvars.ContextVar("kiln.traceparent", default=())


@contextlib.contextmanager
def traceparent(value: Optional[str]) -> Iterator[None]:
    """Within it calls are part of a trace, and wait for their answers; with None, of none. Of this thread or task alone.

    `value` is as the W3C has it, "00-…-…-01", and as OpenTelemetry's propagators write it.
    """
    if value is not None and not _FORM.fullmatch(value):
        raise InvalidArgument("%r is no traceparent" % value, code="BAD_ARGUMENT",
                              remedy='it is "00-", 32, 16 and 2 hexadecimal digits in lower case, with "-" between')  # fmt: skip
    before = _current.set(() if value is None else (("traceparent", value),))
    try:
        yield
    finally:
        _current.reset(before)


# What a call's metadata has of it; nothing outside of any trace.
metadata = _current.get
