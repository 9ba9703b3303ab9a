import pytest
from hypothesis import given

from comity.identity.protocol.uvc import AliasVersion, Constraint, NumberedVersion, read_version
from comity.wire.errors import MalformedError
from tests.identity.protocol.uvc.tokens import versions


@given(versions)
def test_a_version_reads_back_as_itself(version):
    assert read_version(str(version)) == version


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("1.2.0", Constraint.EXACT),
        ("^1.2.0", Constraint.COMPATIBLE),
        ("~1.2.0", Constraint.APPROXIMATE),
        ("latest", Constraint.ALIAS),
        ("canary", Constraint.ALIAS),
    ],
)
def test_the_sign_tells_the_constraint(text, constraint):
    assert read_version(text).constraint is constraint


def test_leading_zeros_are_read_and_never_written():
    assert read_version("00012.02.00000") == NumberedVersion(12, 2, 0)
    assert str(read_version("^01.2.0-RC.1")) == "^1.2.0-RC.1"


def test_a_version_cannot_be_made_past_its_rules():
    for wrong in [
        lambda: NumberedVersion(100_000, 0, 0),
        lambda: NumberedVersion(0, -1, 0),
        lambda: NumberedVersion(0, 0, 0, ""),
        lambda: NumberedVersion(0, 0, 0, "a..b"),
        lambda: NumberedVersion(0, 0, 0, None, Constraint.ALIAS),
        lambda: AliasVersion("newest"),
    ]:
        with pytest.raises(MalformedError):
            wrong()
