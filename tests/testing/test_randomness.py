"""Seeded chance."""

import pytest

from comity.testing.links import Randomness, seeded


def draw(source):
    return (
        source.bytes(8),
        source.hex(4),
        source.uuid(),
        source.integer(1, 100),
        source.between(0, 1),
        source.choice("abcdefgh"),
    )


def test_equal_seeds_draw_equal_things():
    assert draw(Randomness(1)) == draw(Randomness(1))
    assert draw(Randomness(1)) != draw(Randomness(2))


def test_draws_keep_their_bounds():
    source = Randomness(3)
    assert len(source.bytes(33)) == 33
    assert len(source.hex(6)) == 12
    assert source.uuid().version == 4
    assert {source.integer(1, 3) for _ in range(100)} == {1, 2, 3}
    assert all(2 <= source.between(2, 3) <= 3 for _ in range(100))
    assert not any(source.chance(0) for _ in range(100))
    assert all(source.chance(1) for _ in range(100))
    items = list(range(30))
    source.shuffle(items)
    assert items != sorted(items) == list(range(30))


def test_a_branch_does_not_disturb_the_trunk():
    plain, branched = Randomness(1), Randomness(1)
    branch = branched.branch("left")
    branch.bytes(100)
    assert draw(plain) == draw(branched)
    assert draw(Randomness(1).branch("left")) != draw(Randomness(1).branch("right"))


def test_it_shows_its_seed():
    assert repr(Randomness(42)) == "Randomness(seed=42)"


def test_what_is_raised_carries_the_seed():
    with pytest.raises(KeyError) as caught, seeded(5) as source:
        raise KeyError(source.integer(1, 9))
    assert caught.value.__notes__ == ["seed: 5"]


def test_the_fixture_draws_the_same_for_the_same_test(randomness, request):
    assert draw(randomness) == draw(Randomness(randomness.seed))
    assert randomness.seed


def test_a_failed_test_prints_the_seed_to_repeat_it_with(pytester, monkeypatch):
    monkeypatch.setenv("COMITY_SEED", "1234")
    pytester.makeconftest("pytest_plugins = ['comity.testing.fixtures']")
    pytester.makepyfile("def test_it(randomness):\n    assert randomness.bytes(4) == b''")
    result = pytester.runpytest_inprocess("--disable-plugin-autoload", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["*repeat with COMITY_SEED=1234*"])
