"""The exchanges that were recorded between the CLI of the reference and its registry, replayed against a node."""

import asyncio
import json
import subprocess
import sys

import httpx
import pytest

from comity.testing import running_node
from comity.testing.vectors import vector_file
from tests.places import file_of


def holds(recorded, told):
    """Every recorded member is there and equal. Lists have the same length; members of ours may come on top."""
    if isinstance(recorded, dict):
        return isinstance(told, dict) and all(
            name in told and (name == "score" or holds(value, told[name])) for name, value in recorded.items()
        )
    if isinstance(recorded, list):
        return isinstance(told, list) and len(recorded) == len(told) and all(map(holds, recorded, told))
    return type(recorded) is type(told) and recorded == told


@pytest.mark.vector
async def test_vector_envelope_a_node_answers_as_the_registry_was_recorded():
    exchanges = vector_file("envelope", "registry_http")["exchanges"]
    assert len(exchanges) > 20
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as stranger:
        for exchange in exchanges:
            asked, recorded = exchange["request"], exchange["answer"]
            answer = await stranger.request(asked["method"], asked["path"], json=asked["body"])
            match exchange["judge"]:
                case "exact":
                    assert answer.status_code == recorded["status"], asked
                    assert holds(recorded["body"], answer.json()), (asked, answer.json())
                case "status":
                    assert answer.status_code == recorded["status"], asked
                case "4xx":
                    assert 400 <= answer.status_code < 500, asked
                case other:
                    raise AssertionError(f"unknown judge {other}")


async def test_a_recorded_publication_that_is_sent_again_gets_its_first_answer_and_a_changed_one_is_refused():
    """As the sheet lists them: 400 bad hex or card, 401 bad event signature, 409 sequence or key conflict."""
    exchanges = vector_file("envelope", "registry_http")["exchanges"]
    first, second, _bob = (e for e in exchanges if e["request"]["path"] == "/v1/halo")
    body = first["request"]["body"]
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as stranger:
        for _ in range(2):
            answer = await stranger.post("/v1/halo", json=body)
            assert (answer.status_code, answer.json()) == (200, first["answer"]["body"])
        for changed, status in (
            ({"capability_card_blob_hex": "zz"}, 400),
            ({"capability_card_blob_hex": second["request"]["body"]["capability_card_blob_hex"]}, 401),
            ({"visibility": "NONE"}, 401),
            ({"event_actor_seq": 3}, 401),
            ({"owner_org": "somebody"}, 409),
            ({"extra": 1}, 400),
        ):
            refusal = await stranger.post("/v1/halo", json=body | changed)
            assert refusal.status_code == status, changed
            assert isinstance(refusal.json()["detail"], str)
        answer = await stranger.post("/v1/halo", json=second["request"]["body"])
        assert answer.json() == second["answer"]["body"]


async def test_a_client_that_was_written_from_the_contract_alone_publishes_searches_hides_and_recounts():
    program = file_of("tests.http.directory_stranger")
    async with running_node() as node:
        running = await asyncio.create_subprocess_exec(
            sys.executable, str(program), node.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        told, failed = await asyncio.wait_for(running.communicate(), 30)
    assert running.returncode == 0, failed.decode()
    assert json.loads(told) == {
        "first": True,
        "again": True,
        "hidden": True,
        "hidden_status": 403,
        "shown": True,
        "parents": True,
        "children": True,
        "numbers": [1, 2, 3, 4, 5],
        "chain": 5,
    }
