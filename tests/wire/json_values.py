"""Values that JSON encoders disagree on, for the property tests of this folder."""

import math

from hypothesis import strategies as st

NASTY_TEXTS = [
    "",
    "\x7f",
    "\u2028\u2029",
    "\x00\x01\x1f",
    '\b\t\n\f\r"\\/',
    "\ue000",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
    "é✓😀",
    "πρᾶξις",
    "ˇ˝",
    ":",
    " :",
    '":',
    "1",
    "01",
    "4294967294",
    "4294967295",
    "²",
    "-1",
    "[{",
    "]}",
    "e+16",
    "1.0,",
]
NASTY_FLOATS = [
    sign * magnitude * nudge
    for magnitude in [0.0, 5e-324, 1e-7, 1e-6, 1e-5, 1e-4, 2.0**-13, 0.1, 1.0, 2.0**49, 1e15, 1e16, 1e17]
    for nudge in [1.0, 1 - 2**-53, 1 + 2**-52]
    for sign in [1, -1]
] + [2.0**53, 123456789012345680000.0, 1e20, 1e21, 1e22, 1.7976931348623157e308]
NASTY_INTEGERS = [
    sign * (2**power + step)
    for power in [0, 15, 31, 32, 53, 63, 64, 70, 1024]
    for step in [-1, 0, 1]
    for sign in [1, -1]
]

texts = st.sampled_from(NASTY_TEXTS) | st.text(max_size=6)
floats = st.sampled_from(NASTY_FLOATS) | st.floats(allow_nan=False, allow_infinity=False)
integers = st.sampled_from(NASTY_INTEGERS) | st.integers()


def values(texts=texts, integers=integers, floats=floats):
    scalars = st.none() | st.booleans() | integers | floats | texts
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=5) | st.tuples(inner, inner)
        ),
        max_leaves=12,
    )


def nested(depth):
    """A list in a list in a list."""
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


def same(left, right):
    """Equal in value and in type, at every level: 1 is not 1.0 and 0.0 is not -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return left == right
