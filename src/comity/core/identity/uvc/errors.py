"""Why a text is not a value token. The labels are the protocol's; programs may compare them."""

from enum import StrEnum

from comity.core.errors import MalformedError


class UvcLabel(StrEnum):
    EMPTY_TOKEN = "empty_token"  # noqa: S105 - a label
    TOO_FEW_SEGMENTS = "too_few_segments"
    TOO_MANY_SEGMENTS = "too_many_segments"
    INVALID_SEGMENT = "invalid_segment"
    SEGMENT_TOO_LONG = "segment_too_long"
    INVALID_VERSION = "invalid_version"
    INVALID_NAMESPACE = "invalid_namespace"
    TOKEN_TOO_LONG = "token_too_long"  # noqa: S105 - a label


class UvcTokenError(MalformedError):
    code = "uvc_token"

    def __init__(self, label: UvcLabel, message: str) -> None:
        super().__init__(message)
        self.label = label
