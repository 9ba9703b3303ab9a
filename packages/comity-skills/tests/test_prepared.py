"""Large data are prepared in files: checked before use, read only where somebody asks, and made anew when their sources change."""

import pytest

from comity_skills.crisis import crisis_detector
from comity_skills.prepared import FILES, Data, PreparedFile, written
from comity_skills.skill import SkillDataError
from comity_skills.supportive_reply import SKILL
from comity_skills.words.tables import Records, Table, Weights, records_of, table_of, weights_of
from comity_skills_data import FOLDER, read, shipped

SOURCES = b"s" * 32
WHOLE = written({"a/b": b"some bytes", "a/c": b"others"}, SOURCES)


def opened(content):
    return PreparedFile("this.bin", len(content), lambda start, end: content[start:end])


def test_a_section_is_read_as_it_was_written():
    file = opened(WHOLE)
    assert (bytes(file.get("a/b")), bytes(file.get("a/c")), file.get("a/d")) == (
        b"some bytes",
        b"others",
        None,
    )
    assert file.get("a/b").read(5, 10) == b"bytes"
    assert file.sources == SOURCES


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "cut off"),
        (WHOLE[:40], "cut off"),
        (WHOLE[:-1], f"{len(WHOLE) - 1:,} bytes instead of {len(WHOLE):,}"),
        (WHOLE + b"x", f"{len(WHOLE) + 1:,} bytes instead of {len(WHOLE):,}"),
        (b"x" + WHOLE[1:], "another kind of file"),
        (WHOLE[:14] + b"\x07\x00" + WHOLE[16:], "format 7"),
    ],
)
def test_what_is_no_whole_file_is_refused_when_it_is_opened_and_says_what_to_do(content, why):
    with pytest.raises(SkillDataError, match=why) as refusal:
        opened(content)
    assert "install comity-skills again" in refusal.value.message
    assert "this.bin" in refusal.value.message


@pytest.mark.parametrize("place", [30, 70, len(WHOLE) - 1])
def test_a_changed_byte_is_noticed_before_anything_is_used(place):
    changed = bytearray(WHOLE)
    changed[place] ^= 1
    with pytest.raises(SkillDataError):
        opened(bytes(changed)).get("a/b")


def test_a_table_gives_what_belongs_to_each_key_and_nothing_to_others():
    entries = {f"key {number}".encode(): number.to_bytes(3) for number in range(500)}
    table = Table(table_of(entries))
    assert all(table.get(key) == value for key, value in entries.items())
    for other in (b"", b"key", b"key 1 ", b"key 500", b"\xff", b"\xffkey 1\xff", b"zzz", "ключ".encode()):
        assert table.get(other) is None
    assert Table(table_of({})).get(b"key") is None


def test_records_and_weights_are_read_one_by_one():
    records = Records(records_of([("a", 1), ("b", 2), ("c", 3)]), tuple[str, int])
    assert [records[number] for number in (2, 0, 1)] == [("c", 3), ("a", 1), ("b", 2)]
    weights = Weights(weights_of({"x": (1, -2), "y": (300, 4)}))
    assert (weights.get("x"), weights.get("y"), weights.get("z")) == ((1, -2), (300, 4), None)


def test_an_english_message_is_answered_without_the_files_of_other_languages():
    asked = set()

    class Watched(PreparedFile):
        def get(self, section):
            asked.add(self._name)
            return super().get(section)

    contents = {name: (FOLDER / f"{name}.bin").read_bytes() for name in FILES}
    files = {
        name: Watched(name, len(content), lambda start, end, content=content: content[start:end])
        for name, content in contents.items()
    }
    handle = SKILL.prepare(Data(files, read))
    message = "I lost my job last week and I have not told anybody. I feel low and cannot sleep."
    handle({"message": message, "risk_level": "low"}, "enhanced")
    assert asked == {"shared", "en"}


def test_skills_share_what_they_read():
    first, second = shipped(), shipped().with_own({"crisis/lines.json": b"{}"})
    assert crisis_detector(first)._lexicon is crisis_detector(second)._lexicon
    assert second["crisis/lines.json"] == b"{}"
    assert first["crisis/lines.json"] != b"{}"


def test_files_whose_sources_have_changed_are_made_anew(tmp_path, monkeypatch):
    import comity_skills_data

    made = []
    monkeypatch.setattr(comity_skills_data, "FOLDER", tmp_path)
    monkeypatch.setattr(comity_skills_data, "prepare", lambda: made.append(True))
    comity_skills_data._prepare_if_old()
    assert made == [True]  # none was there
    for name in FILES:
        tmp_path.joinpath(f"{name}.bin").write_bytes(FOLDER.joinpath(f"{name}.bin").read_bytes())
    comity_skills_data._prepare_if_old()
    assert made == [True]
    tmp_path.joinpath("hi.bin").write_bytes(written({}, SOURCES))
    comity_skills_data._prepare_if_old()
    assert made == [True, True]
