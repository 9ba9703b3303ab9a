"""Revocation lists, fetched and kept (vcp 5.4).

- A list is asked of its issuer's address through the guarded client, for at most 5 seconds and 1 MiB, over
  HTTPS where the node demands it. A list that
  is refused (`core.revocation.reading`) is treated as if it had not come.
- A list is kept until its `next_update`, and for 300 seconds more while the next one is being fetched.
  It is fresh only if both clocks say so: the monotonic clock cannot be set back, and only the wall clock counts the
  time while the machine sleeps. A list that is valid for years is fetched again every hour.
- Callers that wait for the same list share one request, which goes on if one of them stops waiting. After a failure there
  is a pause, so that an address that does not answer costs one attempt and not one for each caller.
- A list never replaces a newer one that is still valid: it may be an old answer that somebody replays.
- The lists of the last 100 addresses that were used are kept, and at most 100 are fetched at the same time.
"""

import asyncio
import logging
from collections import OrderedDict
from typing import Final

from msgspec import Struct

from comity.http.client import HttpCarrier
from comity.identity.protocol.decision import Unavailable
from comity.identity.protocol.revocation import CrlSource, RevocationList, read_list
from comity.wire.clock import Clock
from comity.wire.errors import ComityError, InvalidError, TooLargeError

log = logging.getLogger("comity.crl")

CRL_LIMIT: Final = 1024 * 1024
CRL_TIMEOUT: Final = 5.0
KEPT: Final = 100
STALE_GRACE: Final = 300.0
ASK_AGAIN: Final = 3600.0
PAUSE: Final = 10.0


class _HeldSource(Struct):
    """The state of one source. Times are of the monotonic clock."""

    found: RevocationList | None = None
    fresh_until: float = 0.0
    ask_again: float = 0.0
    pause_until: float = 0.0
    failure: str = ""


class CrlFetcher:
    def __init__(self, http: HttpCarrier, clock: Clock, *, https_only: bool = True, kept: int = KEPT) -> None:
        """`http` is the guarded client, made with `CRL_TIMEOUT` and `CRL_LIMIT`."""
        self._http = http
        self._clock = clock
        self._https_only = https_only
        self._kept = kept
        self._held: OrderedDict[CrlSource, _HeldSource] = OrderedDict()
        self._fetching: dict[CrlSource, asyncio.Task[RevocationList | Unavailable]] = {}
        self._closed = False

    async def current(self, source: CrlSource) -> RevocationList | Unavailable:
        """The list of `source`. One that is out of date comes only within the grace; ask
        `revocation_status` with `STALE_GRACE`.
        """
        if self._closed:
            return Unavailable("the fetcher is closed")
        if self._https_only and not source.is_https:
            return Unavailable(f"the list of {source.issuer_id} is not at an https:// address")
        held = self._held.get(source)
        if held is not None:
            self._held.move_to_end(source)
            found = self._usable(held)
            if found is not None:
                if self._is_due(held, found):
                    self._fetch(source)
                return found
            if self._clock.monotonic() < held.pause_until:
                return Unavailable(held.failure)
        task = self._fetch(source)
        if task is None:
            return Unavailable("too many lists are being fetched at once")
        # not awaited itself: whoever stops waiting must not stop it for the others
        await asyncio.wait([task])
        return Unavailable("the fetcher was closed") if task.cancelled() else task.result()

    def held(self, source: CrlSource) -> RevocationList | None:
        """The list at hand, if it still counts. Nothing is fetched."""
        held = self._held.get(source)
        return None if held is None else self._usable(held)

    async def aclose(self) -> None:
        self._closed = True
        fetching = list(self._fetching.values())
        for task in fetching:
            task.cancel()
        await asyncio.gather(*fetching, return_exceptions=True)

    def _usable(self, held: _HeldSource) -> RevocationList | None:
        found = held.found
        if found is None or self._clock.monotonic() >= held.fresh_until + STALE_GRACE:
            return None
        return found if found.is_fresh(self._clock.now(), STALE_GRACE) else None

    def _is_due(self, held: _HeldSource, found: RevocationList) -> bool:
        now = self._clock.monotonic()
        stale = now >= held.fresh_until or not found.is_fresh(self._clock.now())
        return (stale or now >= held.ask_again) and now >= held.pause_until

    def _fetch(self, source: CrlSource) -> asyncio.Task[RevocationList | Unavailable] | None:
        """The running attempt, or a new one; None when there are too many."""
        task = self._fetching.get(source)
        if task is None and len(self._fetching) < self._kept:
            task = self._fetching[source] = asyncio.create_task(self._attempt(source))
        return task

    async def _attempt(self, source: CrlSource) -> RevocationList | Unavailable:
        try:
            found = await self._ask(source)
        except TimeoutError:
            return self._failed(source, f"no answer within {CRL_TIMEOUT:g} seconds")
        except ComityError as reason:
            return self._failed(source, reason.message)
        except Exception:
            log.exception("fetching the revocation list of %s broke", source.issuer_id)
            return self._failed(source, "fetching it broke")
        finally:
            self._fetching.pop(source, None)
        now = self._clock.monotonic()
        fresh_until = now + found.next_update - self._clock.now()
        self._keep(source, _HeldSource(found, fresh_until, now + ASK_AGAIN))
        return found

    async def _ask(self, source: CrlSource) -> RevocationList:
        async with asyncio.timeout(CRL_TIMEOUT):
            answer = await self._http.request("GET", source.uri)
        if answer.status != 200:
            raise InvalidError(f"the address answers with status {answer.status}")
        if len(answer.body) > CRL_LIMIT:
            raise TooLargeError("the list", CRL_LIMIT)
        found = read_list(answer.body, source, now=self._clock.now())
        known = self.held(source)
        if known is not None and found.published_at < known.published_at:
            raise InvalidError("the address gives an older list than before")
        return found

    def _failed(self, source: CrlSource, reason: str) -> Unavailable:
        failure = f"the list of {source.issuer_id} could not be had: {reason}"
        log.warning("%s", failure)
        held = self._held.get(source) or _HeldSource()
        held.failure = failure
        held.pause_until = self._clock.monotonic() + PAUSE
        self._keep(source, held)
        return Unavailable(failure)

    def _keep(self, source: CrlSource, held: _HeldSource) -> None:
        self._held[source] = held
        while len(self._held) > self._kept:
            self._held.popitem(last=False)
