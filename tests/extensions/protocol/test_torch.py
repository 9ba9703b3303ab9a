"""VCP-X-Torch: handing over, taking, and the signed bytes."""

import hashlib
import json

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.extensions.protocol import relational, torch
from comity.extensions.protocol.relational import (
    DimensionReport,
    RelationalContext,
    RelationalState,
    SelfModel,
)
from comity.extensions.protocol.torch import TorchLineage, TorchRules, TorchState, TorchSummary
from comity.identity.protocol.keys import SigningKey, is_key, signature_bytes, signature_holds, signature_of
from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.wire.errors import ConfigError

NOW = 1_772_314_200.0
HOUR = 3600.0
OURS, FRIEND, STRANGER = (SigningKey(bytes([number]) * 32) for number in (1, 2, 3))
OWN = OURS.vacant_id.hex()
OWNER = "creed:user:u_8f3k2m"
RULES = TorchRules(signers=frozenset((FRIEND.vacant_id.hex(),)))
KNOWN = RelationalState(sessions=11, continuity_depth=10, standing="advisory")


def model_of(dimensions):
    return SelfModel(
        **{name: DimensionReport(value=value, uncertain=True) for name, value in dimensions.items()}
    )


@format_runner("vcp", "torch_handoff")
def test_vector_vcp_torch_is_handed_over_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    given_, expected = case["input"], case["expected"]
    known_keys(given_, "session_id", "relational_context", "lineage", "self_model_cases", "torch")
    if "relational_context" in given_:
        known_keys(expected, "torch")
        context = msgspec.convert(given_["relational_context"], RelationalContext)
        result = torch.describe(context, () if context.ai_self_model is None else (context.ai_self_model,))
        for key, value in expected["torch"].items():
            assert result[key] == value, key
    elif "torch" in given_:
        judge_receiving(given_["torch"], expected.get("relational_context", expected))
    elif "lineage" in given_:
        known_keys(expected, *EXPECTED_OF_LINEAGE)
        judge_lineage(given_["lineage"], expected)
    elif "self_model_cases" in given_:
        known_keys(expected, "format", "null_when_empty")
        for one in given_["self_model_cases"]:
            known_keys(one, "dimensions", "expected_token")
            assert torch.gestalt_token(model_of(one["dimensions"])) == one["expected_token"]
    else:
        known_keys(expected, "required_fields", "optional_fields")
        required = {field.name for field in msgspec.structs.fields(torch.Torch) if field.required}
        assert required == set(expected["required_fields"])
        assert set(expected["optional_fields"]) <= set(torch.Torch.__struct_fields__) - required


def judge_receiving(value, expected):
    """As if we had handed it over ourselves, two hours ago."""
    known_keys(expected, "trust_level", "standing", "continuity_depth")
    value = value | {"handed_at": "2026-02-28T21:30:00Z"}
    context = relational.context_of(taken(signed(OURS, **value), now=NOW + 2 * HOUR)[1])
    for key in ("trust_level", "standing", "continuity_depth"):
        assert getattr(context, key) == expected.get(key, getattr(context, key)), key


EXPECTED_OF_LINEAGE = (
    "session_count",
    "lineage_depth",
    "first_session_date",
    "chain_length",
    "serialized",
    "round_trip_equal",
)


def judge_lineage(value, expected):
    lineage = msgspec.convert(value, TorchLineage)
    result = msgspec.json.decode(msgspec.json.encode(lineage))
    assert expected.get("session_count", lineage.session_count) == lineage.session_count
    assert expected.get("first_session_date", lineage.first_session_date) == lineage.first_session_date
    assert expected.get("lineage_depth", len(lineage.torch_chain)) == len(lineage.torch_chain)
    assert expected.get("chain_length", len(lineage.torch_chain)) == len(lineage.torch_chain)
    assert expected.get("serialized", result) == result
    if "round_trip_equal" in expected:
        assert (msgspec.convert(result, TorchLineage) == lineage) == expected["round_trip_equal"]


def given_by(key, state=None, relation=KNOWN, *, owner=OWNER, jti="t1", now=NOW, session="s1", to=None):
    return torch.hand_over(
        state or TorchState(),
        relation,
        RULES,
        owner=owner,
        session_id=session,
        jti=jti,
        key=key,
        now=now,
        to=to,
    )


def taken(value, state=None, relation=None, *, owner=OWNER, now=NOW + 1, session="s2", rules=RULES):
    return torch.receive(
        state or TorchState(),
        RelationalState() if relation is None else relation,
        rules,
        value,
        owner=owner,
        session_id=session,
        own_key=OWN,
        now=now,
    )


def signed(key, **members):
    value = {
        "quality_description": "Trust: deep. Standing: bilateral. 9 established norms",
        "handed_at": "2026-02-28T21:30:00Z",
        "session_count": 1,
        "from": key.vacant_id.hex(),
        "owner": torch.owner_hash(OWNER),
        "previous": None,
        "jti": "j1",
    } | members
    return value | {"signature": signature_of(torch.signed_bytes(value), key)}


def refused(value, **more):
    state, relation = TorchState(), RelationalState()
    with pytest.raises(ExtensionError) as fault:
        taken(value, state, relation, **more)
    assert (state, relation) == (TorchState(), RelationalState())
    return fault.value


class TestHandingOver:
    def test_signs_what_it_says(self):
        _, value = given_by(OURS, to=FRIEND.vacant_id.hex())
        unsigned = {name: member for name, member in value.items() if name != "signature"}
        message = b"vcp-torch-v1\n" + rfc8785.dumps(unsigned)
        assert signature_bytes(value["signature"]) == OURS.sign(message)
        assert value["owner"] == hashlib.sha256(OWNER.encode()).hexdigest()
        assert (value["from"], value["to"], value["previous"]) == (OWN, FRIEND.vacant_id.hex(), None)
        assert value["session_count"] == 11
        assert value["gift"] is None

    def test_continues_the_torch_before(self):
        state, first = given_by(OURS)
        _, second = given_by(OURS, state, jti="t2")
        message = torch.signed_bytes(first)
        assert second["previous"] == hashlib.sha256(message).hexdigest()
        assert "to" not in second

    def test_tells_how_the_mood_went(self):
        for values, result in [
            ((5,), None),
            ((5, 5.5), "Stable"),
            ((5, 5.6), "Improving"),
            ((9, 5, 4.4), "Declining"),
            ((5, 4.5), "Stable"),
        ]:
            models = tuple(model_of({"valence": value}) for value in values)
            assert torch.trajectory(models) == result
        assert torch.trajectory((model_of({"friction": 3}), model_of({"valence": 3}))) is None

    def test_rounds_halves_up_in_the_gestalt(self):
        assert torch.gestalt_token(model_of({"valence": 6.5, "task_fit": 2.4})) == "V:7 TF:2"

    def test_names_three_active_norms_cut_to_eighty_characters(self):
        norms = tuple(
            relational.read_norm(
                {
                    "norm_id": f"n{number}",
                    "description": f"{number}" + "x" * 100,
                    "origin": "human",
                    "established_date": "2026-01-15T00:00:00Z",
                    "active": number != 1,
                }
            )
            for number in range(5)
        )
        _, value = given_by(OURS, relation=replace(KNOWN, norms=norms))
        assert [prime[0] for prime in value["primes"]] == ["0", "2", "3"]
        assert {len(prime) for prime in value["primes"]} == {80}
        assert value["quality_description"].endswith("4 established norms")

    def test_without_relational_context_says_the_least(self):
        _, value = given_by(OURS, relation=None)
        assert value["quality_description"] == "Trust: initial. Standing: none. 0 established norms"
        assert (value["primes"], value["gestalt_token"], value["session_count"]) == ([], None, 1)

    def test_to_something_that_is_no_key_is_refused(self):
        with pytest.raises(ExtensionError) as fault:
            given_by(OURS, to="Bob")
        assert fault.value.field == "to"


class TestTaking:
    def test_a_torch_of_our_own_restores_what_it_tells(self):
        _, value = given_by(OURS)
        state, relation, receipt = taken(value, now=NOW + HOUR)
        assert (receipt.counted, receipt.implausible, receipt.signed) == (11, False, True)
        assert (receipt.trust_level, receipt.standing, receipt.continuity_depth) == (
            "developing",
            "advisory",
            11,
        )
        assert relation.torch == value
        assert state.used == {"t1": NOW}

    def test_brings_no_more_standing_than_advisory(self):
        _, value = given_by(OURS, relation=replace(KNOWN, standing="bilateral"))
        assert taken(value)[2].standing == "advisory"
        assert taken(value, relation=RelationalState(standing="collaborative"))[2].standing == "collaborative"

    def test_twice_is_refused(self):
        _, value = given_by(OURS)
        state, relation, _ = taken(value)
        before = msgspec.json.encode((state, relation))
        with pytest.raises(ExtensionError) as fault:
            taken(value, state, relation, now=NOW + 5)
        assert fault.value.wire_code == "ALREADY_USED"
        assert msgspec.json.encode((state, relation)) == before

    @pytest.mark.parametrize(
        ("handed", "code"),
        [
            ("2026-02-28T21:35:01Z", "STALE"),
            ("2026-02-28T21:35:00Z", None),
            ("2026-02-27T21:30:00Z", None),
            ("2026-02-27T21:29:59Z", "STALE"),
            ("2099-01-01T00:00:00Z", "STALE"),
            ("soon", "INVALID_ARGUMENT"),
        ],
    )
    def test_looks_at_its_age(self, handed, code):
        value = signed(OURS, handed_at=handed)
        if code is None:
            assert taken(value, now=NOW)[2].signed
        else:
            assert refused(value, now=NOW).wire_code == code

    def test_waits_seven_days_where_it_is_set_so(self):
        value = signed(OURS, handed_at="2026-02-22T00:00:00Z")
        assert refused(value).wire_code == "STALE"
        assert taken(value, rules=TorchRules(max_age_seconds=torch.ASYNC_SECONDS))[2].signed

    @pytest.mark.parametrize(
        ("change", "code", "field"),
        [
            ({"session_count": 100}, "BAD_SIGNATURE", "torch.signature"),
            ({"colour": "red"}, "BAD_SIGNATURE", "torch.signature"),
            ({"signature": "A" * 86}, "BAD_SIGNATURE", "torch.signature"),
            ({"signature": "short"}, "BAD_SIGNATURE", "torch.signature"),
            ({"signature": "é" * 86}, "BAD_SIGNATURE", "torch.signature"),
            ({"from": FRIEND.vacant_id.hex()}, "BAD_SIGNATURE", "torch.signature"),
            ({"from": "me"}, "INVALID_ARGUMENT", "torch.from"),
            ({"jti": None}, "INVALID_ARGUMENT", "torch.jti"),
            ({"owner": None}, "INVALID_ARGUMENT", "torch.owner"),
            ({"session_count": 0}, "INVALID_ARGUMENT", "torch.session_count"),
            ({"session_count": 2**53}, "INVALID_ARGUMENT", "torch.session_count"),
            ({"session_count": "11"}, "INVALID_ARGUMENT", "torch.session_count"),
            ({"quality_description": "x" * 501}, "LIMIT_EXCEEDED", "torch.quality_description"),
            ({"gift": "x" * 1001}, "LIMIT_EXCEEDED", "torch.gift"),
            ({"primes": ["x"] * 4}, "LIMIT_EXCEEDED", "torch.primes"),
            ({"primes": ["x" * 81]}, "LIMIT_EXCEEDED", "torch.primes[0]"),
            ({"colour": "x" * 16384}, "LIMIT_EXCEEDED", "torch"),
            ({"colour": float("nan")}, "INVALID_ARGUMENT", "torch"),
        ],
    )
    def test_refuses_what_was_forged_or_is_malformed(self, change, code, field):
        fault = refused(signed(OURS) | change)
        assert (fault.wire_code, fault.field) == (code, field)

    @pytest.mark.parametrize("value", [None, "torch", [], 5, {}])
    def test_refuses_what_is_no_torch(self, value):
        assert refused(value).wire_code == "INVALID_ARGUMENT"

    def test_refuses_that_of_another_owner_or_for_another_node(self):
        _, value = given_by(OURS, owner="somebody else")
        assert refused(value).wire_code == "FORBIDDEN"
        _, value = given_by(OURS, to=FRIEND.vacant_id.hex())
        assert (refused(value).wire_code, refused(value).field) == ("FORBIDDEN", "torch.to")
        _, value = given_by(FRIEND, to=OWN)
        assert taken(value)[2].signed

    def test_overlooks_members_it_does_not_know(self):
        assert taken(signed(OURS, colour="red"))[2].signed


class TestTrust:
    def test_is_not_given_by_a_torch_without_a_signature(self):
        value = {
            name: member for name, member in signed(OURS, session_count=500).items() if name != "signature"
        }
        state, relation, receipt = taken(value, now=NOW + HOUR)
        assert (receipt.signed, receipt.counted, receipt.implausible) == (False, 0, True)
        assert (receipt.trust_level, receipt.standing, receipt.continuity_depth) == ("initial", "none", 0)
        assert state.chain == ()
        assert relation.torch == value

    def test_is_not_given_by_an_unknown_signer(self):
        receipt = taken(signed(STRANGER, session_count=500), now=NOW + HOUR)[2]
        assert (receipt.signed, receipt.counted, receipt.trust_level) == (True, 0, "initial")

    def test_of_a_configured_signer_begins_with_one(self):
        for previous in (None, "0" * 64, "nonsense"):
            receipt = taken(signed(FRIEND, session_count=500, previous=previous), now=NOW + HOUR)[2]
            assert (receipt.counted, receipt.implausible, receipt.trust_level) == (1, True, "initial")
        receipt = taken(signed(FRIEND), now=NOW + HOUR)[2]
        assert (receipt.counted, receipt.implausible) == (1, False)

    def test_of_a_configured_signer_grows_by_one_from_a_torch_that_is_known(self):
        first = signed(FRIEND, session_count=500)
        state, relation, _ = taken(first, now=NOW)
        follower = signed(FRIEND, session_count=501, previous=torch.torch_hash(first), jti="j2")
        state, relation, receipt = taken(follower, state, relation, now=NOW + HOUR)
        assert (receipt.counted, receipt.implausible, receipt.continuity_depth) == (2, True, 2)
        assert relation.sessions == 2

    def test_is_not_bought_by_a_configured_signer_in_a_hurry(self):
        state, relation, previous = TorchState(), RelationalState(), None
        for number in range(1, 200):
            value = signed(FRIEND, session_count=number, previous=previous, jti=f"j{number}")
            state, relation, receipt = taken(value, state, relation, now=NOW + number / 10)
            previous = torch.torch_hash(value)
        assert (relation.sessions, receipt.trust_level) == (1, "initial")

    def test_is_not_bought_by_handing_torches_in_a_circle(self):
        state, relation = TorchState(), relational.count_session(RelationalState(), NOW)
        for number in range(200):
            moment = NOW + number / 10
            state, value = given_by(OURS, state, relation, jti=f"t{number}", now=moment)
            state, relation, receipt = taken(value, state, relation, now=moment, session=f"s{number}")
        assert (relation.sessions, receipt.trust_level) == (1, "initial")
        assert value["session_count"] == 1

    def test_is_not_bought_by_forgetting_in_between(self):
        relation = relational.count_session(RelationalState(), NOW)
        for number in range(50):
            moment = NOW + number / 10
            _, value = given_by(OURS, TorchState(), relation, jti=f"t{number}", now=moment)
            _, relation, receipt = taken(value, TorchState(), RelationalState(), now=moment)
        assert (relation.sessions, receipt.trust_level) == (1, "initial")

    @settings(max_examples=50)
    @given(
        st.lists(
            st.tuples(st.sampled_from(["session", "circle", "forget", "friend"]), st.floats(0, 2 * HOUR)),
            max_size=30,
        )
    )
    def test_never_grows_faster_than_the_hours_pass(self, steps):
        state, relation, now, previous = TorchState(), RelationalState(), NOW, None
        for number, (step, seconds) in enumerate(steps):
            now += seconds
            if step == "session":
                relation = relational.count_session(relation, now)
            elif step == "friend":
                value = signed(
                    FRIEND,
                    session_count=number + 1,
                    previous=previous,
                    jti=f"f{number}",
                    handed_at=torch.timestamp(now),
                )
                state, relation, _ = taken(value, state, relation, now=now)
                previous = torch.torch_hash(value)
            else:
                state, value = given_by(OURS, state, relation, jti=f"t{number}", now=now)
                if step == "forget":
                    state, relation = TorchState(), RelationalState()
                state, relation, _ = taken(value, state, relation, now=now)
            assert relation.sessions <= 1 + (now - NOW) // HOUR


class TestLineage:
    def test_has_one_entry_per_session_oldest_first(self):
        state, _ = given_by(OURS, session="s1")
        state, _ = given_by(OURS, state, session="s1", jti="t2", now=NOW + 1)
        state, value = given_by(OURS, state, session="s2", jti="t3", now=NOW + 2)
        state, _, _ = taken(value, state, session="s3", now=NOW + 3)
        assert [one.session_id for one in state.chain] == ["s1", "s2"], "our own torch is in it already"
        state, _, _ = taken(signed(FRIEND), state, session="s3", now=NOW + 3)
        lineage = torch.lineage_of(state, None)
        assert [one.session_id for one in lineage.torch_chain] == ["s1", "s2", "s3"]
        assert lineage.session_count == 3
        assert lineage.first_session_date == "2026-02-28T21:30:00.000000Z"

    @settings(max_examples=30, deadline=None)
    @given(st.integers(1, 12), st.integers(0, 40))
    def test_never_grows_past_its_cap(self, cap, sessions):
        state, rules = TorchState(), TorchRules(max_lineage_depth=cap)
        for number in range(sessions):
            state, value = torch.hand_over(
                state,
                None,
                rules,
                owner=OWNER,
                session_id=f"s{number}",
                jti=f"t{number}",
                key=OURS,
                now=NOW + number,
            )
            if number % 3 == 0:
                state, _, _ = torch.receive(
                    state, None, rules, value, owner=OWNER, session_id="x", own_key=OWN, now=NOW + number
                )
            assert len(state.chain) <= cap
        assert [one.session_id for one in state.chain] == [f"s{number}" for number in range(sessions)][-cap:]

    def test_of_a_thousand_is_the_most(self):
        chain = tuple(TorchSummary(date="d", gestalt_token=None, session_id=f"s{n}") for n in range(1000))
        state, _ = given_by(OURS, TorchState(chain=chain, first_session_date="d"), session="new")
        assert (len(state.chain), state.chain[0].session_id, state.chain[-1].session_id) == (
            1000,
            "s1",
            "new",
        )
        assert torch.lineage_of(state, None).first_session_date == "d"

    @pytest.mark.parametrize(
        "wrong", [{"max_lineage_depth": 0}, {"max_lineage_depth": 1001}, {"max_age_seconds": 0}]
    )
    def test_has_settings_that_make_sense(self, wrong):
        with pytest.raises(ConfigError):
            TorchRules(**wrong)


class TestWithoutRelational:
    def test_a_torch_is_taken_and_the_relation_stays_empty(self):
        state, relation, receipt = torch.receive(
            TorchState(),
            None,
            RULES,
            signed(OURS, session_count=50),
            owner=OWNER,
            session_id="s2",
            own_key=OWN,
            now=NOW,
        )
        assert relation is None
        assert (receipt.degraded, receipt.trust_level, receipt.continuity_depth) == (True, "initial", 0)
        assert len(state.chain) == 1


def test_a_torch_survives_json_and_padding():
    _, value = given_by(OURS)
    assert taken(value | {"signature": value["signature"] + "=="})[2].signed
    assert taken(json.loads(json.dumps(value)))[2].signed


def test_the_oldest_ids_make_room_once_they_are_too_old():
    used = {f"u{number}": NOW for number in range(torch.MAX_USED)}
    with pytest.raises(ExtensionError) as fault:
        taken(signed(OURS), TorchState(used=used))
    assert fault.value.wire_code == "LIMIT_EXCEEDED"
    later = NOW + torch.INTERACTIVE_SECONDS + 10
    value = signed(OURS, handed_at=torch.timestamp(later))
    assert list(taken(value, TorchState(used=used), now=later)[0].used) == ["j1"]


KEY = SigningKey(b"k" * 32)
SIGNED = signature_of(b"words", KEY)
NAME = KEY.vacant_id.hex()


def test_a_signature_holds_for_its_key_and_its_words_alone():
    assert signature_holds(NAME, b"words", SIGNED)
    assert not signature_holds(NAME, b"other words", SIGNED)
    assert not signature_holds(SigningKey(b"o" * 32).vacant_id.hex(), b"words", SIGNED)
    assert signature_bytes(SIGNED) == KEY.sign(b"words")


@pytest.mark.parametrize(
    "text",
    [
        "",
        SIGNED + "==",
        SIGNED + "=",
        f" {SIGNED}",
        SIGNED[:-1],
        SIGNED[:-1] + chr(ord(SIGNED[-1]) + 1),
        f"{SIGNED[:40]}!{SIGNED[40:]}",
        SIGNED.replace("-", "+").replace("_", "/") + " ",
        "\u00e9" * 86,
    ],
)
def test_a_signature_is_written_in_one_way(text):
    assert signature_bytes(text) is None
    assert not signature_holds(NAME, b"words", text)


@pytest.mark.parametrize("name", ["", NAME.upper(), NAME[:-1], "g" * 64, f" {NAME}"])
def test_a_key_is_named_in_lower_case_hex(name):
    assert is_key(NAME)
    assert not is_key(name)
    assert not signature_holds(name, b"words", SIGNED)
