"""The vectors that others may test their programs with: each has the verdict that `verdicts.json` names.

`python -m tests.receipts.test_vectors` writes them anew.
"""

import json
import sys

import jsonschema
import pytest

from comity.receipts.protocol.format import hash_of, write_receipt
from comity.receipts.protocol.making import without_text
from comity.receipts.protocol.verify import verify_receipt
from comity.testing.links import Randomness
from tests.places import ROOT
from tests.receipts import samples

FOLDER = ROOT / "tests" / "receipts" / "vectors"
SCHEMA = json.loads((ROOT / "schemas" / "receipt.schema.json").read_text())


def made():
    """The vectors by name, and what each is."""
    random = Randomness("vectors")
    call = samples.call_of('good morning, "北京" \U0001f600', "and to you")
    vote, agreement = samples.vote(random), samples.agreement(random)
    record = samples.audit_range(random, count=5, first=1)
    forged = samples.call(random, signer=samples.EVE)
    good = write_receipt(call)
    return {
        "call.json": good,
        "message.json": write_receipt(samples.messages(random)),
        "vote.json": write_receipt(vote),
        "agreement.json": write_receipt(agreement),
        "range.json": write_receipt(record),
        "call-selfeval.json": write_receipt(samples.call(Randomness("selfeval 4"))),
        "call-unbound.json": write_receipt(samples.call(random, bound=False)),
        "call-without-text.json": write_receipt(without_text(call)),
        "vote-without-text.json": write_receipt(without_text(vote)),
        "range-proven.json": write_receipt(samples.proven_range(Randomness("proof"), total=21)),
        "bad-proof.json": write_receipt(samples.proven_range(Randomness("proof"), total=21, wrong=True)),
        "bad-text.json": good.replace(b"and to you", b"and to him"),
        "bad-signer.json": write_receipt(forged),
        "bad-order.json": write_receipt(samples.messages(random, gap=True)),
        "bad-spaces.json": good.replace(b",", b", ", 1),
        "bad-version.json": good.replace(b'"comity_receipt":1', b'"comity_receipt":2'),
        "bad-member.json": good.replace(b'{"comity_receipt":1', b'{"a":1,"comity_receipt":1'),
        "bad-no-agreement.json": write_receipt(vote).replace(b'"kind":"vote"', b'"kind":"agreement"'),
        "bad-cut.json": good[: len(good) // 2],
    }


def verdicts():
    return json.loads((FOLDER / "verdicts.json").read_text())


@pytest.mark.parametrize("name", sorted(verdicts()))
def test_a_vector_has_its_verdict_and_its_hash(name):
    data = (FOLDER / name).read_bytes()
    found = verify_receipt(data)
    assert {"verdict": found.verdict, "sha256": hash_of(data)} == verdicts()[name]


@pytest.mark.parametrize("name", sorted(name for name in verdicts() if not name.startswith("bad-")))
def test_a_vector_fits_the_schema(name):
    jsonschema.validate(json.loads((FOLDER / name).read_bytes()), SCHEMA)


def test_the_vectors_are_those_that_are_made():
    assert {name: data + b"\n" for name, data in made().items()} == {
        file.name: file.read_bytes() for file in FOLDER.iterdir() if file.name != "verdicts.json"
    }


def test_what_has_other_members_does_not_fit_the_schema():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads((FOLDER / "bad-member.json").read_bytes()), SCHEMA)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    told = {}
    for name, data in made().items():
        (FOLDER / name).write_bytes(data + b"\n")
        told[name] = {"verdict": verify_receipt(data).verdict, "sha256": hash_of(data)}
    (FOLDER / "verdicts.json").write_text(json.dumps(told, indent=1) + "\n")
    sys.stdout.write(f"{len(told)} vectors\n")
