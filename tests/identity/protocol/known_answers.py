"""The recorded signed objects, cut into cases; the tests of identity and of revocation take their own."""


class Case(dict):
    """The members of one object; `keys` are those it is judged with."""

    def __init__(self, section, recorded, content):
        super().__init__(recorded)
        self.section = section
        self.public_base64 = content["ed25519_public_key_base64"]
        self.secret = content["hmac_key_utf8"].encode()


def signed_objects(content):
    for section in ("form_a", "form_b"):
        yield section, Case(section, content[section], content)
    for index, token in enumerate(content["structural_examples_from_the_seeds"]):
        yield f"structural-{index}", Case("structural", {"token": token}, content)
    for section in ("stapled_proof", "crl"):
        recorded = {"object": content[section], "payload": content[f"{section}_payload"]}
        yield section, Case(section, recorded, content)
    understood = {"suite", "ed25519_public_key_base64", "hmac_key_utf8", "form_a", "form_b"}
    understood |= {"structural_examples_from_the_seeds", "stapled_proof", "stapled_proof_payload"}
    understood |= {"crl", "crl_payload"}
    yield "sections", Case("sections", {"unknown": sorted(content.keys() - understood)}, content)


def of(*sections):
    return lambda case: case.section in sections
