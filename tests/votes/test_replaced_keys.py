"""Votes of a key that was replaced: they can be read and verified, and take no more acts."""

import asyncio
import json

from comity.identity.key_files import create_identity
from comity.testing import running_node


async def test_a_vote_of_the_old_key_stays_readable_and_verifiable(comity, data, tmp_path):
    async def run(*words):
        return await asyncio.to_thread(comity, *words)

    other = create_identity(tmp_path / "other").vacant_id.hex()
    async with running_node(data):
        asked = json.loads((await run("vote", "ask", "Lunch?", "--with", other, "--json")).out)
        assert (await run("vote", "yes", asked["delib_id"])).code == 0
    assert (await run("id", "replace", "--yes")).code == 0
    async with running_node(data):
        (listed,) = json.loads((await run("vote", "list", "--json")).out)["deliberations"]
        assert (listed["delib_id"], listed["role"]) == (asked["delib_id"], "author")
        assert asked["delib_id"] in (await run("vote", "list")).out
        shown = await run("vote", "result", asked["delib_id"])
        assert shown.code == 0, shown.err
        assert "nothing new" not in shown.err
        record = tmp_path / "record.json"
        record.write_text((await run("vote", "record", asked["delib_id"])).out)
        verified = await run("vote", "verify", record)
        assert verified.code == 0, verified.out + verified.err
        refused = await run("vote", "no", asked["delib_id"])
        assert refused.code == 1
        assert "was replaced" in refused.err
