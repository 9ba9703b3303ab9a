"""An agent that writes down that it ran before it answers. No two runs give the same answer."""

import os
import secrets

_runs = os.open(os.environ["TORTURE_RUNS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


async def answer(text: str) -> str:
    os.write(_runs, text.encode() + b"\n")
    return f"{text}, run {secrets.token_hex(8)}"
