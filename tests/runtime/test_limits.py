"""What others may ask and store: told to Prometheus and shown on the page."""

import httpx

from comity.requests.budget import Figures
from comity.runtime.node_runtime import figures_of
from comity.runtime.settings import RateSettings, Settings, StorageSettings, VcpSettings
from comity.store.interface import Hold
from comity.testing import VirtualClock, bearer, running_node


async def test_budgets_that_ran_out_and_bytes_stored_for_others_are_told():
    clock = VirtualClock()
    rate = RateSettings(requests=1, limit_loopback=True)
    storage = StorageSettings(cards_bytes=3 << 20)
    async with (
        running_node(clock=clock, rate=rate, storage=storage) as node,
        httpx.AsyncClient(base_url=node.url) as client,
    ):
        await node.store.commit(Hold(quota="cards", item="x", holder="a", bytes=1 << 20))
        for _ in range(3):
            await client.get("/healthz")
        for _ in range(200):  # the quota is looked at again by a chore
            await clock.advance(1)
            result = (await client.get("/metrics", headers=bearer(node))).text
            if 'comity_stored_bytes{quota="cards"} 1.048576e+06' in result:
                break
        assert 'comity_stored_bytes{quota="cards"} 1.048576e+06' in result
        assert 'comity_stored_limit_bytes{quota="cards"} 3.145728e+06' in result
        assert 'comity_budget_refused_total{kind="address"} 2.0' in result
        assert 'comity_budget_refused_total{kind="identity"} 0.0' in result
        status = (await client.get("/v1/status", headers=bearer(node))).json()
    assert status["panels"]["limits"] == {
        "title": "Stored for others",
        "rows": [["replies", "0 of 1 GiB"], ["cards", "1 MiB of 3 MiB"]],
    }


def test_the_figures_come_from_the_settings(tmp_path):
    settings = Settings(
        data=tmp_path,
        rate=RateSettings(requests=1, bytes=2048, per_seconds=3, new_pairs=4, limit_loopback=True),
        vcp=VcpSettings(handshakes=5, loopback_handshakes=6),
    )
    assert figures_of(settings) == Figures(
        requests=1,
        bytes=2048,
        per_seconds=3,
        new_pairs=4,
        handshakes=5,
        loopback_handshakes=6,
        limit_loopback=True,
    )
    assert figures_of(Settings(data=tmp_path)) == Figures()
