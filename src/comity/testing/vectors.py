"""Known answers, run in place: the folder is `$COMITY_VECTORS`, else `../shared/vectors` beside the project.

The format of a file is its area (the folder) and its stem: `peers/stdio_framing_cases.json` has the
format `("peers", "stdio_framing_cases")`. A test module plugs a format in with one decorator; the function
below it judges one case and becomes a parametrised test, sync or async, with any fixtures it likes:

    from comity.testing.vectors import format_runner, known_keys

    @format_runner("vcp", "injection_scan")
    def test_vector_vcp_scan_finds_what_was_recorded(case):
        known_keys(case, "name", "input", "expected")
        assert scan(case["input"]) == case["expected"]

The content of a file is turned into named cases by `named_cases`, which knows the usual shapes; for
another shape give `cases=`, a function from the content to pairs of name and case. Several modules may
share a file: each names all the cases and says with `takes=` which are its own, so that a case that
belongs to nobody is noticed.

    @format_runner("peers", "stdio_framing_cases", takes=lambda case: case["needs"] == "wire")
    def test_vector_peers_framing_is_answered_as_recorded(case): ...

The test's own name holds "vector" and the area, so that `pytest -k "vector and peers"` selects it.
Whatever cannot be understood fails: a file that no longer fits its runner, a file without cases, a
case with keys that `known_keys` does not name. Without a folder, and for a file that a given folder
does not hold, the tests skip and say so. What no module plugs in is returned by `unplugged(area)`; the
tests of this module turn that into one visible line per area.

A test that only needs the content calls `vector_file(area, stem)`.
"""

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from comity.runtime.lazy import late
from comity.wire.errors import ConfigError, InvalidError, NotFoundError

if TYPE_CHECKING:
    import pytest
else:
    pytest = late("pytest")

AREAS = ("envelope", "vcp", "actions", "peers")

_VARIABLE = "COMITY_VECTORS"
_BESIDE_THE_PROJECT = Path(__file__).resolve().parents[4] / "shared" / "vectors"
_ENDINGS = (".json", ".jsonl")
_CASE_LISTS = ("cases", "vectors", "test_cases")
_CASE_NAMES = ("name", "id", "case")
_COMMENTS = ("note", "notes", "formula")
_COMMENT_ENDINGS = ("_legend", "_description")

_Judge = TypeVar("_Judge", bound=Callable[..., Any])
_Split = Callable[[Any], Iterable[tuple[str, Any]]]


class _Unreadable(NamedTuple):
    """Stands in for the cases of a file, so that what went wrong fails one test and not the collection."""

    error: Exception


class _Runner(NamedTuple):
    judge: str
    taken: frozenset[str]
    left: frozenset[str]


_runners: dict[tuple[str, str], list[_Runner]] = {}


def vectors_folder() -> Path | None:
    """Return where the known answers are; None when there are none. A named folder that is missing is an error."""
    given = os.environ.get(_VARIABLE)
    if given:
        folder = Path(given)
        if not folder.is_dir():
            raise ConfigError(
                f"{_VARIABLE} names {given}, which is not a folder; name the vectors folder or unset it"
            )
        return folder
    return _BESIDE_THE_PROJECT if _BESIDE_THE_PROJECT.is_dir() else None


def folder_was_given() -> bool:
    """Return whether the folder was named: then every file in it has to be understood."""
    return bool(os.environ.get(_VARIABLE))


def vector_file(area: str, stem: str) -> Any:
    """Return the content of one file (a list of values for JSON lines). Skips the test when it cannot be had."""
    reason = _absence(area, stem)
    if reason is not None:
        pytest.skip(reason, allow_module_level=True)
    return _content(area, stem)


def known_keys(case: Mapping[str, Any], *known: str) -> None:
    """Fail when a case holds a key its runner does not know of; notes and legends are comments."""
    unknown = [
        key
        for key in case
        if key not in known and key not in _COMMENTS and not key.endswith(_COMMENT_ENDINGS)
    ]
    assert not unknown, f"the case holds {', '.join(unknown)}, which its runner does not understand"


def named_cases(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield the cases of the usual shapes: a list of cases, an object with one list of cases, an object of named cases."""
    if isinstance(content, dict):
        lists = [key for key in _CASE_LISTS if isinstance(content.get(key), list)]
        rest = [key for key, value in content.items() if key not in lists and isinstance(value, dict | list)]
        if all(isinstance(value, dict) for value in content.values()):
            yield from content.items()
            return
        if len(lists) != 1 or rest:
            raise InvalidError(
                f"cases are not only under one of {', '.join(_CASE_LISTS)}: "
                f"{', '.join(lists + rest) or 'nothing'} found; give the runner its own cases="
            )
        content = content[lists[0]]
    if not isinstance(content, list):
        raise InvalidError(
            f"no cases can be seen in a {type(content).__name__}; give the runner its own cases="
        )
    for index, case in enumerate(content):
        names = [case[key] for key in _CASE_NAMES if key in case] if isinstance(case, dict) else []
        yield (str(names[0]) if names else str(index)), case


def format_runner(
    area: str, *stems: str, cases: _Split = named_cases, takes: Callable[[Any], bool] = lambda _case: True
) -> Callable[[_Judge], _Judge]:
    """Plug in the runner of `stems`: the decorated function judges its argument `case`."""

    def plug_in(judge: _Judge) -> _Judge:
        name = judge.__name__
        if "vector" not in name or area not in name:
            raise ConfigError(f"{name} has to hold 'vector' and '{area}' in its name; rename the test")
        parameters: list[Any] = []
        for stem in stems:
            reason = _absence(area, stem)
            found = {} if reason else _cases_of(area, stem, cases)
            mine = dict(_taken(found, takes))
            if not mine:
                reason = reason or f"no case of {area}/{stem} belongs to this runner"
                skip = pytest.mark.skip(reason=reason)
                parameters.append(pytest.param(None, marks=skip, id=f"{stem}-absent"))
            parameters.extend(pytest.param(case, id=f"{stem}-{key}") for key, case in mine.items())
            runner = _Runner(judge=name, taken=frozenset(mine), left=frozenset(found.keys() - mine.keys()))
            _runners.setdefault((area, stem), []).append(runner)
        test: _Judge = pytest.mark.vector(
            pytest.mark.parametrize("case", parameters)(_fail_unreadable(judge))
        )
        return test

    return plug_in


def unplugged(area: str) -> list[str]:
    """Return files of an area, and cases in them, that no runner in this process takes."""
    folder = vectors_folder()
    missing = []
    for stem in _stems(folder / area) if folder else ():
        runners = _runners.get((area, stem))
        if not runners:
            missing.append(stem)
            continue
        left = frozenset[str]().union(*(runner.left for runner in runners))
        left -= frozenset[str]().union(*(runner.taken for runner in runners))
        missing.extend(f"{stem}[{name}]" for name in sorted(left))
    return missing


def areas_found() -> list[str]:
    """Return the known areas, and all others in the folder. Never raises, because pytest calls it during collection."""
    try:
        folder = vectors_folder()
    except ConfigError:
        folder = None
    more = (entry.name for entry in folder.iterdir() if entry.is_dir()) if folder else ()
    return sorted({*AREAS, *more})


def _stems(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(entry.stem for entry in folder.iterdir() if entry.suffix in _ENDINGS)


def _absence(area: str, stem: str) -> str | None:
    """Return why a file may be missing, or None if it must exist."""
    try:
        folder = vectors_folder()
    except ConfigError:
        return None  # reading the file tells it, inside a test
    if folder is None:
        return f"no vectors: {_VARIABLE} is not set and there is no shared/vectors beside the project"
    if folder_was_given() and stem not in _stems(folder / area):
        return f"the folder that {_VARIABLE} names holds no {area}/{stem}"
    return None


def _content(area: str, stem: str) -> Any:
    folder = vectors_folder()
    assert folder is not None
    for ending in _ENDINGS:
        path = folder / area / (stem + ending)
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            if ending == ".jsonl":
                return [json.loads(line) for line in text.split("\n") if line.strip()]
            return json.loads(text)
    raise NotFoundError(f"the vectors folder holds no {area}/{stem}; correct the name")


def _cases_of(area: str, stem: str, split: _Split) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        for name, case in split(_content(area, stem)):
            found[name if name not in found else f"{name}~{len(found)}"] = case
        if not found:
            return {
                "empty": _Unreadable(InvalidError(f"{area}/{stem} holds no case that its runner understands"))
            }
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the test that reports it
        return {"unreadable": _Unreadable(error)}
    return found


def _taken(found: dict[str, Any], takes: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    for name, case in found.items():
        try:
            mine = isinstance(case, _Unreadable) or takes(case)
        except Exception as error:  # noqa: BLE001 - a case that cannot be assigned fails as a test
            yield name, _Unreadable(error)
        else:
            if mine:
                yield name, case


def _fail_unreadable(judge: _Judge) -> Any:
    if inspect.iscoroutinefunction(judge):

        @functools.wraps(judge)
        async def judge_awaiting(case: Any, **fixtures: Any) -> None:
            if isinstance(case, _Unreadable):
                raise case.error
            await judge(case=case, **fixtures)

        return judge_awaiting

    @functools.wraps(judge)
    def judge_at_once(case: Any, **fixtures: Any) -> None:
        if isinstance(case, _Unreadable):
            raise case.error
        judge(case=case, **fixtures)

    return judge_at_once
