"""The extensions of VCP 3.1, one line each: the module with its `EXTENSION`, imported when first needed."""

import functools
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from comity.vcp.protocol.extension_calls import ExtensionOperation
    from comity.vcp.protocol.registry import Extension
    from comity.vcp.protocol.resource_addresses import VcpAddress

BUILT_IN: Final[Mapping[str, str]] = {
    "VCP-X-Personal": "comity.extensions.protocol.personal",
    "VCP-X-Relational": "comity.extensions.protocol.relational",
    "VCP-X-Consensus": "comity.votes.protocol.operations",
    "VCP-X-Torch": "comity.extensions.protocol.torch",
    "VCP-X-Intent": "comity.extensions.protocol.intent",
}
NAMES: Final = tuple(id_.removeprefix("VCP-X-").lower() for id_ in BUILT_IN)
"""As settings and commands name them."""


@functools.cache
def built_in() -> "Mapping[str, Extension]":
    """Return the extensions by id."""
    return {id_: importlib.import_module(module).EXTENSION for id_, module in BUILT_IN.items()}


@functools.cache
def operations() -> "Mapping[str, ExtensionOperation]":
    """Return the operations of all extensions by name."""
    return {each.name: each for extension in built_in().values() for each in extension.operations}


@functools.cache
def addresses() -> "Mapping[str, VcpAddress]":
    """Return the resources of all extensions by host."""
    found = (extension.resource for extension in built_in().values())
    return {address.host: address for address in found if address is not None}
