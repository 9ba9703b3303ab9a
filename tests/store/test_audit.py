import json
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.store.audit_chain import (
    AuditDraft,
    AuditEntry,
    AuditHead,
    chained,
    checkpoint_bytes,
    decode,
    encode,
    entry_hash,
    head_bytes,
    link,
    privacy_hash,
    timestamp,
    verify,
)
from comity.testing.vectors import format_runner, known_keys
from comity.wire.errors import InvalidError, MalformedError

NOON = "2026-03-01T12:00:00.000000Z"
HASHED = (
    "session_id_hash",
    "request_id_hash",
    "verification_result",
    "checks_passed",
    "failed_step",
    "duration_ms",
    "bundle_id_hash",
    "content_hash",
    "issuer_hash",
    "bundle_version",
    "manifest_signature",
    "audit_level",
    "previous_hash",
    "chain_position",
    "created_at",
)
UNHASHED = ("token_count", "content_preview", "entry_hash")


def draft(**fields):
    return AuditDraft(**{"verification_result": "VALID", "created_at": NOON, **fields})


def chain(length, **fields):
    entries = []
    for position in range(1, length + 1):
        previous = entries[-1].entry_hash if entries else None
        entries.append(link(draft(duration_ms=position, **fields), position=position, previous_hash=previous))
    return entries


def edited(entry, **fields):
    return msgspec.structs.replace(entry, **fields)


def hash_by_the_sheet(entry):
    """The rule written a second time, straight from its words."""
    fields = {name: getattr(entry, name) for name in HASHED}
    fields["checks_passed"] = sorted(fields["checks_passed"])
    fields["previous_hash"] = fields["previous_hash"] or ""
    form = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(form.encode("ascii")).hexdigest()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(0, 2**53) | st.floats(0, 2**53)
drafts = st.builds(
    AuditDraft,
    verification_result=texts,
    created_at=st.floats(0, 4e9).map(timestamp),
    checks_passed=st.lists(texts, max_size=4).map(tuple),
    failed_step=st.none() | texts,
    duration_ms=numbers,
    session_id_hash=st.none() | texts.map(privacy_hash),
    bundle_version=texts,
    audit_level=st.sampled_from(["minimal", "standard", "full"]),
    token_count=st.none() | st.integers(0, 2**53),
)


class TestLinking:
    def test_the_first_entry_stands_at_one_and_names_nobody_before_it(self):
        first = link(draft(), position=1, previous_hash=None)
        assert first.chain_position == 1
        assert first.previous_hash is None
        assert first.entry_hash == hash_by_the_sheet(first)

    @given(drafts, st.integers(2, 2**53), texts.map(lambda text: sha256(text.encode()).hexdigest()))
    def test_every_entry_is_hashed_as_the_sheet_says(self, some, position, previous):
        entry = link(some, position=position, previous_hash=previous)
        assert entry.entry_hash == hash_by_the_sheet(entry) == entry_hash(entry)

    @given(drafts, st.integers(1, 2**53))
    def test_the_short_way_to_a_stored_entry_ends_where_the_long_one_does(self, some, position):
        previous = None if position == 1 else "ab" * 32
        entry = link(some, position=position, previous_hash=previous)
        assert chained(some, position=position, previous_hash=previous) == (encode(entry), entry.entry_hash)

    def test_a_float_stays_a_float_and_an_integer_an_integer(self):
        hashes = {
            link(draft(duration_ms=number), position=1, previous_hash=None).entry_hash
            for number in (10, 10.0)
        }
        assert len(hashes) == 2

    @pytest.mark.parametrize("text", ["\x7f", "é", "\U0001f600", "\u2028", '"\\/', "\x00\x1f"])
    def test_text_is_hashed_with_ascii_escapes(self, text):
        entry = link(draft(bundle_version=text), position=1, previous_hash=None)
        assert entry.entry_hash == hash_by_the_sheet(entry)

    @pytest.mark.parametrize("number", [1e-05, 1e15, 1e16, 1e22, 0.1, -0.0, 5e-324, 2**53 + 1, 2**64])
    def test_numbers_are_hashed_in_their_exact_form(self, number):
        entry = edited(chain(1)[0], duration_ms=number)
        assert entry_hash(entry) == hash_by_the_sheet(entry)

    def test_checks_are_hashed_sorted_and_stored_as_they_ran(self):
        one = link(draft(checks_passed=("size", "schema")), position=1, previous_hash=None)
        other = link(draft(checks_passed=("schema", "size")), position=1, previous_hash=None)
        assert one.entry_hash == other.entry_hash
        assert one.checks_passed == ("size", "schema")

    @pytest.mark.parametrize(("position", "previous"), [(0, None), (-1, "a" * 64), (1, "a" * 64), (2, None)])
    def test_a_place_that_cannot_be_is_refused(self, position, previous):
        with pytest.raises(InvalidError, match="position starts at 1"):
            link(draft(), position=position, previous_hash=previous)


class TestADraft:
    @pytest.mark.parametrize(
        ("fields", "shown"),
        [
            ({"created_at": "2026-03-01T12:00:00Z"}, "created_at"),
            ({"created_at": "2026-03-01T12:00:00.000000+00:00"}, "created_at"),
            ({"created_at": NOON + "\n"}, "created_at"),
            ({"audit_level": "loud"}, "audit_level"),
            ({"duration_ms": -1}, "duration_ms"),
            ({"duration_ms": float("nan")}, "duration_ms"),
            ({"duration_ms": float("inf")}, "duration_ms"),
            ({"duration_ms": 2**63}, "duration_ms"),
            ({"duration_ms": True}, "duration_ms"),
            ({"token_count": -1}, "token_count"),
            ({"token_count": 2**63}, "token_count"),
            ({"content_preview": "hi"}, "diagnostic only"),
            ({"content_preview": "x" * 101, "audit_level": "diagnostic"}, "100 characters"),
            ({"failed_step": "\ud800"}, "surrogate"),
            ({"checks_passed": ("size", "\udfff")}, "surrogate"),
        ],
    )
    def test_is_refused_before_it_can_trouble_a_commit(self, fields, shown):
        with pytest.raises(InvalidError, match=shown):
            draft(**fields)

    def test_may_preview_content_when_diagnosing(self):
        assert draft(content_preview="x" * 100, audit_level="diagnostic").content_preview == "x" * 100

    def test_says_that_there_is_no_bundle_unless_told(self):
        entry = link(draft(), position=1, previous_hash=None)
        assert entry.bundle_id_hash == entry.content_hash == entry.issuer_hash == "n/a"
        assert entry.bundle_version == entry.manifest_signature == "n/a"
        assert (entry.duration_ms, entry.checks_passed, entry.audit_level) == (0, (), "standard")


class TestVerifying:
    def test_a_sound_chain_passes(self):
        assert verify(chain(20)) == (True, None)
        assert verify([]) == (True, None)

    @pytest.mark.parametrize("at", [0, 7, 19])
    @pytest.mark.parametrize("field", HASHED)
    def test_every_edit_of_a_hashed_field_is_found_and_its_position_named(self, field, at):
        entries = chain(20)
        old = getattr(entries[at], field)
        new = {
            "checks_passed": ("size",),
            "duration_ms": 4711,
            "chain_position": 4711,
            "audit_level": "full",
        }.get(field, "edited")
        assert new != old
        entries[at] = edited(entries[at], **{field: new})
        ok, message = verify(entries)
        assert not ok
        assert message.startswith(f"audit entry {at + 1}: ")

    def test_an_edit_with_a_hash_made_to_fit_is_found_at_the_next_link(self):
        entries = chain(5)
        forged = edited(entries[2], failed_step="forged")
        entries[2] = edited(forged, entry_hash=entry_hash(forged))
        assert verify(entries) == (
            False,
            "audit entry 4: link does not match the hash of the entry before it",
        )

    def test_a_dropped_entry_is_found_by_its_position(self):
        entries = chain(5)
        del entries[2]
        assert verify(entries) == (False, "audit entry 3: position is 4, expected 3")

    def test_a_dropped_entry_is_found_when_the_rest_was_renumbered(self):
        entries = chain(5)
        kept = entries[:2]
        for entry in entries[3:]:
            moved = edited(entry, chain_position=entry.chain_position - 1)
            kept.append(edited(moved, entry_hash=entry_hash(moved)))
        assert verify(kept) == (False, "audit entry 3: link does not match the hash of the entry before it")

    def test_two_entries_in_the_wrong_order_are_found(self):
        entries = chain(5)
        entries[1], entries[2] = entries[2], entries[1]
        assert verify(entries) == (False, "audit entry 2: position is 3, expected 2")

    def test_an_inserted_entry_is_found(self):
        entries = chain(5)
        stray = link(draft(), position=3, previous_hash=entries[1].entry_hash)
        assert verify([*entries[:2], stray, *entries[2:]]) == (
            False,
            "audit entry 4: position is 3, expected 4",
        )

    def test_an_entry_told_twice_is_found(self):
        entries = chain(3)
        assert verify([entries[0], *entries]) == (False, "audit entry 2: position is 1, expected 2")

    @pytest.mark.parametrize("missing", [None, ""])
    def test_only_the_first_entry_may_lack_a_link(self, missing):
        entries = chain(3)
        entries[1] = edited(entries[1], previous_hash=missing)
        entries[1] = edited(entries[1], entry_hash=entry_hash(entries[1]))
        assert verify(entries)[1] == "audit entry 2: link does not match the hash of the entry before it"

    def test_an_empty_link_is_not_a_missing_one(self):
        first = edited(chain(1)[0], previous_hash="")
        assert entry_hash(first) == first.entry_hash
        assert verify([first])[1] == "audit entry 1: link does not match the hash of the entry before it"

    def test_what_is_not_hashed_may_change(self):
        entries = chain(3)
        entries[1] = edited(entries[1], token_count=5, content_preview="seen")
        assert verify(entries).ok


class TestVerifyingAPart:
    def test_it_follows_the_entry_before_it(self):
        entries = chain(9)
        assert verify(entries[4:], prior=entries[3]) == (True, None)

    def test_it_follows_a_signed_head(self):
        entries = chain(9)
        head = AuditHead(chain="main", position=4, entry_hash=entries[3].entry_hash, at=NOON)
        assert verify(entries[4:], prior=head) == (True, None)
        assert verify(entries[5:], prior=head)[1] == "audit entry 5: position is 6, expected 5"

    def test_it_does_not_follow_a_stranger(self):
        entries = chain(9)
        stranger = chain(4, bundle_version="2")[3]
        assert verify(entries[4:], prior=stranger)[1].startswith("audit entry 5: link")

    def test_without_the_entry_before_it_the_first_link_is_taken_as_it_is(self):
        entries = chain(9)
        assert verify(entries[4:], first_position=5) == (True, None)
        assert verify(entries[1:], first_position=2) == (True, None)
        assert verify(entries[4:]) == (False, "audit entry 1: position is 5, expected 1")

    def test_without_the_entry_before_it_a_link_must_still_be_there(self):
        entry = edited(chain(5)[4], previous_hash=None)
        entry = edited(entry, entry_hash=entry_hash(entry))
        assert verify([entry], first_position=5)[1].startswith("audit entry 5: link is missing")

    def test_a_chain_is_read_once_and_not_held(self):
        alive = []

        class Watched(AuditEntry, frozen=True, kw_only=True, weakref=True):
            pass

        def stream():
            import weakref

            for entry in chain(50):
                watched = Watched(**msgspec.structs.asdict(entry))
                alive.append(weakref.ref(watched))
                yield watched
                del watched
                assert sum(reference() is not None for reference in alive) <= 2

        assert verify(stream()).ok
        assert len(alive) == 50


class TestTheStoredForm:
    @given(drafts)
    def test_it_comes_back_as_it_was(self, some):
        entry = link(some, position=1, previous_hash=None)
        assert decode(encode(entry)) == entry
        assert verify([decode(encode(entry))]).ok

    def test_it_is_compact(self):
        data = encode(chain(1)[0])
        assert data == json.dumps(json.loads(data), separators=(",", ":")).encode()

    @pytest.mark.parametrize("name", [*HASHED, *UNHASHED])
    def test_a_missing_field_is_refused(self, name):
        fields = json.loads(encode(chain(1)[0]))
        del fields[name]
        with pytest.raises(MalformedError, match=name):
            decode(json.dumps(fields).encode())

    def test_an_unknown_field_is_refused(self):
        fields = json.loads(encode(chain(1)[0])) | {"extra": 1}
        with pytest.raises(MalformedError, match="extra"):
            decode(json.dumps(fields).encode())

    def test_a_repeated_field_is_refused(self):
        data = encode(chain(1)[0])
        with pytest.raises(MalformedError, match="failed_step"):
            decode(b'{"failed_step":"none at all",' + data[1:])

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("duration_ms", True),
            ("duration_ms", "1"),
            ("duration_ms", None),
            ("chain_position", 1.5),
            ("checks_passed", "size"),
            ("checks_passed", [1]),
            ("audit_level", "loud"),
            ("created_at", 5),
        ],
    )
    def test_an_ill_typed_field_is_refused(self, name, value):
        fields = json.loads(encode(chain(1)[0])) | {name: value}
        with pytest.raises(MalformedError, match=name):
            decode(json.dumps(fields).encode())

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"null",
            b"[]",
            b"{",
            b"\xff",
            b"[" * 100_000,
            b'{"x":' * 100_000,
            b'{"duration_ms":' + b"9" * 5000,
        ],
    )
    def test_bytes_that_are_no_entry_are_refused(self, data):
        with pytest.raises(MalformedError, match="audit entry"):
            decode(data)

    @given(st.binary())
    def test_any_bytes_get_an_answer(self, data):
        with pytest.raises(MalformedError):
            decode(data)

    def test_a_number_beyond_64_bits_is_hashed_exactly(self):
        fields = json.loads(encode(chain(1)[0])) | {"duration_ms": 2**70}
        entry = decode(json.dumps(fields).encode())
        assert verify([entry])[1] == "audit entry 1: hash does not match its fields"
        assert entry_hash(entry) == hash_by_the_sheet(entry)


class TestHeads:
    head = AuditHead(chain="node-é", position=7, entry_hash="ab" * 32, at=NOON)

    def test_each_part_is_signed(self):
        changed = [
            edited(self.head, chain="other"),
            edited(self.head, position=8),
            edited(self.head, entry_hash="cd" * 32),
            edited(self.head, at=timestamp(0)),
        ]
        assert len({head_bytes(head) for head in [self.head, *changed]}) == 5

    def test_an_old_head_is_no_checkpoint(self):
        assert head_bytes(self.head) != checkpoint_bytes(self.head)

    def test_what_is_signed_stays_what_it_was(self):
        assert head_bytes(self.head) == (
            b"comity audit head 1\n"
            b'{"at":"2026-03-01T12:00:00.000000Z","chain":"node-\\u00e9",'
            b'"entry_hash":"' + b"ab" * 32 + b'","position":7}'
        )


class TestTimestamps:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1772366400, NOON),
            (1772366400.25, "2026-03-01T12:00:00.250000Z"),
            (-1, "1969-12-31T23:59:59.000000Z"),
        ],
    )
    def test_they_are_utc_with_microseconds(self, seconds, text):
        assert timestamp(seconds) == text

    @pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300, -1e300, 1e12])
    def test_a_time_that_cannot_be_written_is_refused(self, seconds):
        with pytest.raises(InvalidError, match="timestamp"):
            timestamp(seconds)


class TestPrivacyHashes:
    def test_with_a_key_they_cannot_be_guessed(self):
        assert privacy_hash("ses-1", b"k") != privacy_hash("ses-1")
        assert privacy_hash("ses-1", b"k") != privacy_hash("ses-1", b"l")
        assert len(privacy_hash("ses-1", b"k")) == len("sha256:") + 32

    def test_with_a_key_they_are_hmac_sha256(self):
        # RFC 4231, test case 2
        assert (
            privacy_hash("what do ya want for nothing?", b"Jefe") == "sha256:5bdcc146bf60754e6a042426089575c7"
        )

    def test_any_text_has_one(self):
        assert privacy_hash("\ud800") != privacy_hash("\ud801")


def recorded(content):
    known_keys(content, "suite", "hash_fields", "serialization", "privacy_hash", "chain")
    yield "fields", {"hash_fields": content["hash_fields"]}
    yield "chain", {"chain": content["chain"]}
    for value, digest in content["privacy_hash"].items():
        yield f"privacy_hash-{value or 'nothing'}", {"value": value, "privacy_hash": digest}


@format_runner("vcp", "audit_chain", cases=recorded)
def test_vector_vcp_audit_chain_is_hashed_as_recorded(case):
    if "hash_fields" in case:
        assert sorted(case["hash_fields"]) == sorted(HASHED)
    elif "privacy_hash" in case:
        assert privacy_hash(case["value"]) == case["privacy_hash"]
    else:
        entries = [decode(json.dumps(entry).encode()) for entry in case["chain"]]
        first = entries[0].chain_position
        assert verify(entries, first_position=first) == (True, None)
        for entry in entries:
            assert entry_hash(entry) == entry.entry_hash
            fields = msgspec.structs.asdict(entry)
            said = {name: fields[name] for name in AuditDraft.__struct_fields__}
            again = link(AuditDraft(**said), position=entry.chain_position, previous_hash=entry.previous_hash)
            assert again == entry
