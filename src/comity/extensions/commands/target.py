"""The VCP extensions of this data folder, for a command that works while its node may be running.

A command is the node's own user, and reads and writes the database itself. What the node or another command stores
meanwhile is read, and the operation is applied to that.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from comity.extensions.handler import OperationRequest
from comity.extensions.part import Extensions, extension_service
from comity.extensions.protocol import calls
from comity.extensions.protocol.calls import RelationalReport
from comity.extensions.protocol.torch import TorchLineage
from comity.extensions.service import ExtensionService
from comity.requests.caller import OWN_PROCESS
from comity.requests.pipeline import Walk
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.terminal.open_target import own_key, own_vault, refuse_memory, refuse_off, writing

_DOOR = "cli"


class OwnExtensions:
    def __init__(self, service: ExtensionService) -> None:
        self.own_id = service.own_id
        self._service = service
        self._session = service.own_session()

    async def perform(self, op: str, **args: Any) -> Any:
        """Run an operation; arguments that are None are left out. Raises ExtensionError."""
        given = {name: value for name, value in args.items() if value is not None}
        request = OperationRequest(op=op, args=given, session=self._session)
        return await self._service.perform(request, OWN_PROCESS, _DOOR)

    async def relation(self) -> tuple[TorchLineage, RelationalReport]:
        """What torches and sessions have come to. Looking counts for nothing and changes nothing."""
        call = await self._service.view(self._session)
        return calls.torch_view(call), calls.relational_view(call)

    async def forget(self, session_id: str | None) -> int:
        return await self._service.forget(session_id, OWN_PROCESS, _DOOR)


@contextlib.asynccontextmanager
async def own_extensions(settings: Settings, passphrase_file: str | None) -> AsyncIterator[OwnExtensions]:
    refuse_off(settings, Extensions)
    refuse_memory(settings, "what VCP extensions know is kept there")
    key, vault, clock = own_key(settings, passphrase_file), own_vault(settings), SystemClock()
    async with writing(settings, key) as (store, record, _chain):
        walk = Walk(record, clock, budget=None)
        yield OwnExtensions(extension_service(settings, walk, store, clock, vault, key))
