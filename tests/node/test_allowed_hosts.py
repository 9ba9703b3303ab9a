"""Hosts that may be called although their addresses are private."""

import pytest

from comity.node.node import Node
from comity.runtime.settings import DispatchSettings, Settings


@pytest.mark.parametrize("host", ["[::1]", "::1", "127.0.0.1", "10.1.0.0/16", "node.example"])
async def test_a_node_starts_with_a_host_as_it_is_written_in_a_url_or_without_brackets(tmp_path, host):
    node = Node(Settings(data=tmp_path, port=0, dispatch=DispatchSettings(allowed_hosts=(host,))))
    try:
        await node.start()
        assert node.url
    finally:
        await node.stop()
