"""Recorded files of other tools, and what is pasted to join a server."""

from __future__ import annotations

import contextlib
import io
import random
import shutil

from roofline.joining import CannotJoin, JoinToken, load_servers, parse_token
from roofline_agent.recorded.batches import batches, places_something
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.document import write_json
from roofline_agent.recorded.errors import RecordedError
from roofline_agent.recorded.reader import read
from roofline_agent.recorded.request import ImportRequest
from roofline_agent.recorded.sending import target_of
from roofline_agent.recorded.summary import summarise
from roofline_agent.recorded.upload import ceilings
from roofline_agent.uplink.encoding import encode
from roofline_server.access.tokens import Tokens
from roofline_server.ingest.decode import decode, parse

from tests.recordings import ours

from .ingest import _Stored, memory_folder
from .mutate import mutated, mutated_text
from .running import Reach

SIZES = (2_000, 5_000, 20_000)  # bytes of a file that is mutated: its beginning
RENEW = 500
REQUEST = ImportRequest((), "recorded", "worker", 0, 0.0, None, False, "text", "")


class Recorded:
    """One file: read, shown, and made into batches that the server takes."""

    def __init__(self) -> None:
        self._good = [path.read_bytes()[: max(SIZES)] for path in ours()]
        self._folder, self._stored, self._fed = memory_folder(), _Stored(), 0

    def make(self, chance: random.Random) -> list[bytes]:
        good = chance.choice(self._good)[: chance.choice(SIZES)]
        if chance.random() < 0.75:
            return [mutated_text(good, self._good, chance)]
        return [mutated(good, self._good, chance)]

    def feed(self, parts: list[bytes]) -> Reach:
        self._fed += 1
        if self._fed % RENEW == 0:
            self._stored.close()
            self._stored = _Stored()
        path, known, taken = self._folder / "file", 0, 0
        for data in parts:
            path.write_bytes(data)
            with contextlib.suppress(RecordedError):
                found = read(str(path), keep_launches=True)
                known += 1
                try:
                    taken += self._use(found)
                finally:
                    found.close()
        return Reach(known, taken)

    def _use(self, found: Collector) -> bool:
        """Whether there was something for the server."""
        list(summarise(found, "file"))
        write_json(found, "file", io.StringIO())
        target = target_of(found, __file__, REQUEST)
        if found.is_empty or not places_something(found, target):
            return False
        ceilings(found)
        for number, batch in enumerate(batches(found, target), 1):
            decode(parse(encode(batch, number)).batch, self._stored.node, self._stored.store.name_ids)
        return True

    def close(self) -> None:
        self._stored.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Joining:
    """A token, as a user pastes it and as a server gets it; the file of servers that were joined."""

    def __init__(self) -> None:
        self._folder = memory_folder()
        self._tokens = Tokens(self._folder)
        _, secret = self._tokens.new("agent", "somebody", joins=True)
        file = b'{"newest": "h:1", "known": {"h:1": {"authority": "x", "token": "y"}}}'
        self._good = [str(JoinToken(bytes(range(32)), secret)).encode(), secret.encode(), file]

    def make(self, chance: random.Random) -> list[bytes]:
        which = chance.choice((0, 0, 0, 1, 2))
        change = mutated_text if chance.random() < 0.3 else mutated
        data = change(self._good[which], self._good, chance)
        return [bytes([which]) + data]

    def feed(self, parts: list[bytes]) -> Reach:
        taken = sum(self._takes(data[0], data[1:]) for data in parts)
        return Reach(taken, taken)

    def _takes(self, which: int, data: bytes) -> bool:
        """As text of a command line is decoded, and as gRPC gives metadata."""
        if which == 1:
            return self._tokens.holder(data.decode("utf-8", "replace")) is not None
        try:
            if which == 2:
                path = self._folder / "servers.json"
                path.write_bytes(data)
                load_servers(path)
            else:
                assert str(parse_token(data.decode("utf-8", "surrogateescape")))
        except CannotJoin:
            return False
        return True

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
