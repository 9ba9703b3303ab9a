"""Why a text is no CSM-1 code. The labels are the protocol's; programs may compare them."""

from enum import StrEnum

from comity.core.errors import MalformedError


class Csm1Label(StrEnum):
    EMPTY_CODE = "empty_code"
    INVALID_PERSONA = "invalid_persona"
    MISSING_ADHERENCE = "missing_adherence"
    ADHERENCE_OUT_OF_RANGE = "adherence_out_of_range"
    INVALID_SCOPE = "invalid_scope"
    INVALID_SCOPE_FORMAT = "invalid_scope_format"
    DUPLICATE_SCOPE = "duplicate_scope"
    CONFLICTING_SCOPES = "conflicting_scopes"
    INVALID_NAMESPACE = "invalid_namespace"
    NAMESPACE_TOO_LONG = "namespace_too_long"
    NAMESPACE_REQUIRED = "namespace_required"
    INVALID_VERSION = "invalid_version"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - a label
    INVALID_COMPACT = "invalid_compact"


class Csm1Error(MalformedError):
    """A text that is no CSM-1 code; `label` says which rule it breaks."""

    code = "csm1"

    def __init__(self, label: Csm1Label, message: str) -> None:
        super().__init__(message)
        self.label = label
