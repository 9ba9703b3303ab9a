"""The shared file of known answers, cut into cases. Each test takes its own and leaves the rest by name.

A section of the file is one case under its own name; the parts of a section are cases too, named after
it. Whatever a case needs from elsewhere in the file (keys are referred to by name) is put beside it.
"""

from comity.identity.protocol.keys import SigningKey


class Case(dict):
    """The recorded members, with the section they stand in and the keys they name."""

    def __init__(self, section, recorded, keys, **more):
        super().__init__(recorded)
        self.section = section
        self.keys = keys
        self.more = more


def sections(content):
    known = {key["name"]: SigningKey.from_seed(bytes.fromhex(key["seed_hex"])) for key in content["keys"]}
    for name, section in content.items():
        if name == "about":
            continue
        if name == "dialects":
            yield name, Case(name, section, known)
            for dialect, recorded in section.items():
                yield from _dialect(dialect, recorded, known)
        elif isinstance(section, list):
            yield name, Case(name, {"cases": section}, known)
            for index, recorded in enumerate(section):
                label = recorded.get("id", recorded.get("name", index))
                yield f"{name}-{label}", Case(f"{name}[]", recorded, known)
        else:
            yield name, Case(name, section, known)


def _dialect(dialect, recorded, known):
    chain = recorded.get("chain", {})
    rest = recorded.keys() - {"envelopes", "chain"}
    yield f"dialects-{dialect}", Case("dialect", {"unknown": sorted(rest)}, known)
    for envelope in recorded.get("envelopes", []) + chain.get("envelopes", []):
        yield f"dialects-{dialect}-{envelope['id']}", Case("envelope", envelope, known, dialect=dialect)
    if chain:
        yield f"dialects-{dialect}-chain", Case("chain", chain, known, dialect=dialect)


def of(*names):
    return lambda case: case.section in names
