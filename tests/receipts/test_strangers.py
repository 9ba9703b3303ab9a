"""A program of about a hundred lines that knows nothing of Comity comes to the same verdict on every receipt."""

import importlib.util
import subprocess
import sys
from collections import Counter

import pytest

from comity.receipts.protocol.verify import verify_receipt
from comity.testing.links import Randomness
from tests.places import ROOT
from tests.receipts import samples

CODES = {"good": 0, "bad": 1, "not verifiable": 3}


@pytest.fixture(scope="module")
def stranger():
    spec = importlib.util.spec_from_file_location("stranger", ROOT / "docs" / "receipt_stranger.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def both(stranger, data):
    ours = verify_receipt(data)
    code, said = stranger.verify(data)
    assert code == CODES[ours.verdict], (ours.verdict, ours.reason, said, data[:3000])
    return ours.verdict


def test_it_imports_nothing_of_comity(stranger):
    text = (ROOT / "docs" / "receipt_stranger.py").read_text()
    assert "import comity" not in text
    assert "from comity" not in text


def test_on_two_hundred_good_receipts_of_all_kinds(stranger):
    random = Randomness("good receipts")
    receipts = [samples.good(random) for _ in range(200)]
    assert Counter(both(stranger, data) for data in receipts) == {"good": 200}
    assert {verify_receipt(data).kind for data in receipts} == set(samples.KINDS)


def test_on_two_hundred_altered_ones(stranger):
    random = Randomness("altered receipts")
    seen = Counter(both(stranger, samples.altered(random)) for _ in range(200))
    assert seen == {"bad": 200}


def test_on_those_that_nobody_can_verify(stranger):
    random = Randomness("open receipts")
    assert {both(stranger, samples.unverifiable(random)) for _ in range(20)} == {"not verifiable"}


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["call.json"], 0),
        (["call-unbound.json", "call.json"], 3),
        (["call.json", "bad-text.json", "call-unbound.json"], 1),
        (["call-unbound.json", "bad-text.json"], 1),
    ],
)
def test_of_several_receipts_both_give_the_exit_code_of_the_worst(names, code, comity):
    files = [str(ROOT / "tests" / "receipts" / "vectors" / name) for name in names]
    program = [sys.executable, str(ROOT / "docs" / "receipt_stranger.py"), *files]
    assert subprocess.run(program, capture_output=True, check=False).returncode == code
    assert comity("verify", *files).code == code
