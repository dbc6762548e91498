"""HTTP with an end: how many bytes an answer may have, and when its bytes came.

Facts (httpx2 2.14-2.16): a transport may be wrapped; the stream of a response is iterated by whoever reads it, so that the moment at
which a piece of it came can be taken there, before anything is parsed.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import AsyncIterator

import httpx2

#: The largest answer to a question that is no completion: /metrics of a server with many engines has some 500 kB.
MOST_PLAIN = 16 * 1024**2
#: The largest stream of one completion: some 400 bytes a token.
MOST_STREAM = 64 * 1024**2

_END = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\]\s*$")
_TAIL = 256


class TooLarge(Exception):
    """An answer has more bytes than any honest one."""


class Encoded(Exception):
    """An answer is compressed, although no compression was asked for: its size could not be bounded."""


class Record(httpx2.AsyncByteStream):
    """The bytes of one answer on their way: ``at`` is when the last piece came (``time.perf_counter``), ``tail`` how they end."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self.stream, self.limit = stream, limit
        self.size, self.tail, self.at = 0, b"", time.perf_counter()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self.stream:
            self.at = time.perf_counter()
            self.size += len(piece)
            if self.size > self.limit:
                raise TooLarge(f"the answer has more than {self.limit} bytes")
            self.tail = (self.tail + piece)[-_TAIL:]
            yield piece

    async def aclose(self) -> None:
        """Let the connection go."""
        await self.stream.aclose()

    @property
    def is_whole(self) -> bool:
        """Did the stream say that it is at its end?"""
        return bool(_END.search(self.tail))


class _Bounded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self.inner.handle_async_request(request)
        coding = response.headers.get("content-encoding", "identity")
        if coding.lower() != "identity":
            await response.aclose()
            raise Encoded(f"the answer is compressed ({coding[:40]}), and nothing compressed was asked for")
        limit = MOST_STREAM if request.method == "POST" else MOST_PLAIN
        response.stream = response.extensions["record"] = Record(response.stream, limit)
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


def connect(connections: int, stall: float, inner: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    """A client for one endpoint: no proxy (one would gather what is to be timed), no redirect, no compression, nothing tried twice.

    :param connections: how many at once. :param stall: seconds without a byte after which an answer is given up.
    :param inner: what carries it, instead of the network.
    """
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    inner = inner or httpx2.AsyncHTTPTransport(
        verify=ssl.create_default_context(), limits=limits, retries=0, trust_env=False
    )
    return httpx2.AsyncClient(
        transport=_Bounded(inner),
        timeout=httpx2.Timeout(stall, connect=min(stall, 30.0), pool=None),
        headers={"accept-encoding": "identity"},
        follow_redirects=False,
        trust_env=False,
    )
