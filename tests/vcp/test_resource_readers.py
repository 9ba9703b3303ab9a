import pytest

from comity.vcp.protocol.registry import STANDARD_EXTENSIONS
from comity.vcp.resource_addresses import EXTENSION_ADDRESSES, ResourceReader, ResourceReaders
from comity.wire.errors import ConfigError
from tests.vcp.runtime import PERSONAL, RELATIONAL


async def read(id_, owner):
    return {"id": id_}


async def ids(owner):
    return ["one"]


READER = ResourceReader(read, ids)


def test_every_extension_has_one_address():
    extensions = [address.extension for address in EXTENSION_ADDRESSES.values()]
    assert sorted(extensions) == sorted(STANDARD_EXTENSIONS)


def test_a_reader_is_there_while_its_extension_is_active():
    readers = ResourceReaders()
    assert readers.get("personal-state", (PERSONAL,)) is None
    readers.add("personal-state", READER)
    assert readers.get("personal-state", (PERSONAL,)) is READER
    assert readers.get("personal-state", (RELATIONAL,)) is None
    assert [address.host for address, _ in readers.active((PERSONAL, RELATIONAL))] == ["personal-state"]
    assert list(readers.active(())) == []


def test_one_reader_is_added_for_each_known_address():
    readers = ResourceReaders()
    readers.add("torch", READER)
    for host in ("torch", "bundle", "capabilities", "deliberation", "elsewhere"):
        with pytest.raises(ConfigError, match=host):
            readers.add(host, READER)
