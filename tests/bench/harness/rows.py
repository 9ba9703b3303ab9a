"""Rows whose contenders say what they are told and write down when they were asked."""

import contextlib

from bench.harness.row import Contender, Row, Unit


class Diary:
    def __init__(self):
        self.turns = []
        self.folder = None
        self.closed = False


def fake_row(diary, *figures, name="fake", unit=Unit.RATE, bars=()):
    """Contenders a, b, c …; each takes its figures one after the other and then its last one again."""

    def contender(letter, values):
        left = list(values)

        def turn():
            diary.turns.append(letter)
            return left.pop(0) if len(left) > 1 else left[0]

        return Contender(letter, turn)

    @contextlib.contextmanager
    def opened(setting):
        diary.folder = setting.folder
        (setting.folder / "data").write_bytes(b"x")
        try:
            yield [contender(letter, values) for letter, values in zip("abcdef", figures, strict=False)]
        finally:
            diary.closed = True

    return Row(name=name, title="a fake", unit=unit, open=opened, bars=bars)
