"""The texts that are learned from are packed, each file with its hash."""

import json

import pytest

from evals.training import packed


def test_every_set_has_the_files_of_the_manifest():
    manifest = json.loads(packed.MANIFEST.read_bytes())
    assert set(manifest) == set(packed.SETS)
    for name in packed.SETS:
        assert {f"{stem}.jsonl" for stem in packed.files_of(name)} == set(manifest[name])


def test_what_was_unpacked_is_packed_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "SETS", ("small",))
    monkeypatch.setattr(packed, "ARCHIVES", tmp_path / "archives")
    monkeypatch.setattr(packed, "MANIFEST", tmp_path / "archives" / "manifest.json")
    tmp_path.joinpath("small").mkdir()
    tmp_path.joinpath("small", "en.jsonl").write_text('{"text": "é"}\n', encoding="utf-8")
    packed.files_of.cache_clear()
    try:
        packed.pack(tmp_path)
        first = tmp_path.joinpath("archives", "small.tar.xz").read_bytes()
        packed.unpack(tmp_path / "again")
        packed.pack(tmp_path / "again")
        assert tmp_path.joinpath("archives", "small.tar.xz").read_bytes() == first
        packed.MANIFEST.write_text('{"small": {"en.jsonl": "0"}}')
        packed.files_of.cache_clear()
        with pytest.raises(ValueError, match="pack the set again"):
            packed.files_of("small")
    finally:
        packed.files_of.cache_clear()
