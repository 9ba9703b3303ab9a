"""What nodes of this kind add to a message beside its envelope: `metadata["urn:comity:v1"]`, one member per feature.

- The envelope does not sign it. Whoever carries a message can add, change and remove members, and peers of other kinds
  drop them. So a member is a hint: what counts in it carries a signature of its own, and no member, good or bad, decides
  whether a message is accepted.
- A feature owns one member, a JSON object of at most so many bytes. What is unknown, no object, or too large is left out
  when a message is read; what a feature cannot read is ignored by it. A message that we write holds only good members.
- The members of a reply are stored with it, so that the same request gets the same bytes again.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from comity.wire import strict_json

COMITY_METADATA_KEY: Final = "urn:comity:v1"

MEMBER_BYTES: Final[Mapping[str, int]] = MappingProxyType({"witness": 16_384, "succession": 24_576})
"""The features that have a member, and how many bytes of JSON it may have."""

NO_MEMBERS: Final[Mapping[str, Any]] = MappingProxyType({})


def members_of_request(body: Any) -> Mapping[str, Any]:
    """Return the members in the body of a request."""
    try:
        message = body["params"]["message"]
        if COMITY_METADATA_KEY not in message["metadata"]:  # as in most requests
            return NO_MEMBERS
    except (KeyError, TypeError):
        return NO_MEMBERS
    return members_of_message(message)


def members_of_reply(body: Any) -> Mapping[str, Any]:
    """Return the members in the body of a reply."""
    return members_of_message(_member(_member(body, "result"), "message"))


def members_of_message(message: Any) -> Mapping[str, Any]:
    added = _member(_member(message, "metadata"), COMITY_METADATA_KEY)
    if not isinstance(added, dict):
        return NO_MEMBERS
    return {name: added[name] for name in MEMBER_BYTES if name in added and is_good(name, added[name])}


def with_members(message: dict[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message of `to_a2a_message` with these members; the message as it is where there are none."""
    if not members:
        return message
    return {**message, "metadata": {**message["metadata"], COMITY_METADATA_KEY: dict(members)}}


def is_good(name: str, value: Any) -> bool:
    """Return whether the value may be the member of that name."""
    return isinstance(value, dict) and len(strict_json.dumps(value)) <= MEMBER_BYTES[name]


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
