import pytest

from comity.identity.protocol.tokens import Issuer, IssuerRegistry, SharedKey, SignatureKey, Validity
from comity.wire.errors import InvalidError

NAN = float("nan")


def test_a_validity_holds_both_its_ends():
    validity = Validity(10.0, 20.0)
    assert [validity.too_early(now) for now in (9.999, 10.0, 21.0)] == [True, False, False]
    assert [validity.too_late(now) for now in (9.0, 20.0, 20.001)] == [False, False, True]
    assert not Validity().too_early(0.0)
    assert not Validity().too_late(1e12)


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(33)])
def test_a_signature_key_has_32_bytes(public):
    with pytest.raises(InvalidError, match="32 bytes"):
        SignatureKey(public)


def test_a_secret_is_long_enough_and_not_shown():
    with pytest.raises(InvalidError, match="16 bytes"):
        SharedKey(bytes(15))
    assert "shared-secret-01" not in repr(SharedKey(b"shared-secret-01"))
    assert "shared-secret-01" not in repr(Issuer(name="a", shared_keys=(SharedKey(b"shared-secret-01"),)))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("minimum_tag", 31),
        ("minimum_tag", 65),
        ("max_token_age_s", 0),
        ("max_token_age_s", -1),
        ("max_token_age_s", float("inf")),
        ("max_token_age_s", NAN),
        ("skew_s", -1),
        ("skew_s", float("inf")),
        ("skew_s", NAN),
    ],
)
def test_a_setting_out_of_its_limits_is_refused_by_name(setting, value):
    with pytest.raises(InvalidError, match=f"{setting} of issuer creed"):
        Issuer(name="creed", **{setting: value})


def test_the_limits_themselves_can_be_set():
    assert Issuer(name="creed", minimum_tag=32, skew_s=0)
    assert Issuer(name="creed", minimum_tag=64, max_token_age_s=0.5)


def test_an_issuer_is_configured_once():
    with pytest.raises(InvalidError, match="creed is configured twice"):
        IssuerRegistry([Issuer(name="creed"), Issuer(name="creed")])
    registry = IssuerRegistry([Issuer(name="creed"), Issuer(name="other")])
    assert len(registry) == 2
    assert registry.get("creed").name == "creed"
    assert registry.get("nobody") is None
