"""Value tokens for properties: any valid one, and texts that nearly are."""

from string import ascii_lowercase, ascii_uppercase, digits

from hypothesis import strategies as st

from comity.identity.protocol.uvc import (
    ALIASES,
    AliasVersion,
    Constraint,
    NumberedVersion,
    UvcToken,
    UvcTokenError,
)


def _word(first, rest, longest):
    return st.builds(
        str.__add__, st.sampled_from(first), st.text(st.sampled_from(rest), max_size=longest - 1)
    )


segments = _word(ascii_lowercase, ascii_lowercase + digits + "-", 32)
numbers = st.integers(0, 99_999)
versions = st.one_of(
    st.sampled_from(ALIASES).map(AliasVersion),
    st.builds(
        NumberedVersion,
        numbers,
        numbers,
        numbers,
        st.none() | st.lists(_word("0aZ-", "01abYZ-", 6), min_size=1, max_size=3).map(".".join),
        st.sampled_from([Constraint.EXACT, Constraint.COMPATIBLE, Constraint.APPROXIMATE]),
    ),
)


def _built(*parts):
    try:
        return UvcToken(*parts)
    except UvcTokenError:
        return None  # longer than a token may be


tokens = st.builds(
    _built,
    st.lists(segments, min_size=3, max_size=10).map(tuple),
    st.none() | versions,
    st.none() | _word(ascii_uppercase, ascii_uppercase + digits, 32),
).filter(bool)

near_tokens = st.text(st.sampled_from("aZ0-._@:^~* \t\uff20\uff0e\xe9\x00\u0301"), max_size=40) | st.text(
    max_size=40
)
