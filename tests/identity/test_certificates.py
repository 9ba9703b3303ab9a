import datetime as dt
import ssl
import stat

import pytest

from comity.identity.certificates import (
    CERTIFICATE_FILE,
    KEY_FILE,
    load_or_make_certificate,
)
from comity.identity.protocol.pins import pin_of_certificate
from comity.wire.errors import KeyRefusedError

NOW = dt.datetime(2026, 11, 19, tzinfo=dt.UTC)


def test_a_certificate_is_made_once_and_its_key_is_private(tmp_path):
    own = load_or_make_certificate(tmp_path, NOW)
    before = own.cert.read_bytes()
    assert load_or_make_certificate(tmp_path, NOW + dt.timedelta(days=3000)) == own
    assert own.cert.read_bytes() == before
    assert stat.S_IMODE(own.key.stat().st_mode) == 0o600
    assert pin_of_certificate(ssl.PEM_cert_to_DER_cert(before.decode())) == own.pin
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(own.cert, own.key)


def test_a_certificate_that_expired_or_is_missing_is_made_again_with_the_same_pin(tmp_path):
    own = load_or_make_certificate(tmp_path, NOW)
    before = own.cert.read_bytes()
    later = load_or_make_certificate(tmp_path, NOW + dt.timedelta(days=3660))
    assert later.pin == own.pin
    assert own.cert.read_bytes() != before
    own.cert.unlink()
    assert load_or_make_certificate(tmp_path, NOW).pin == own.pin


def test_the_certificate_of_another_key_is_replaced(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (load_or_make_certificate(tmp_path / name, NOW) for name in "ab")
    second.cert.write_bytes(first.cert.read_bytes())
    again = load_or_make_certificate(tmp_path / "b", NOW)
    assert again.pin == second.pin
    assert again.cert.read_bytes() != first.cert.read_bytes()


@pytest.mark.parametrize("name", [KEY_FILE, CERTIFICATE_FILE])
def test_a_damaged_file_is_named_and_never_replaced(tmp_path, name):
    load_or_make_certificate(tmp_path, NOW)
    (tmp_path / name).write_bytes(b"damaged")
    with pytest.raises(KeyRefusedError, match=name):
        load_or_make_certificate(tmp_path, NOW)
    assert (tmp_path / name).read_bytes() == b"damaged"
