"""The reference's design for signed envelopes, rebuilt: FastAPI, pydantic models, an ORM, a row per envelope.

One transaction records the request, another the reply, each over SQLAlchemy's asynchronous ORM and
aiosqlite in WAL mode, under one lock in the process. It verifies, chains and signs as the contract says.

Usage: reference_design.py FOLDER
"""

import asyncio
import json
import sys
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, HTTPException
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey
from pydantic import BaseModel, Field
from sqlalchemy import LargeBinary, create_engine, event, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bench.baselines.serve import serve

SEED = b"the reference's design".ljust(32)
ZEROS = bytes(32)
URN = "urn:vacant:v1"


class Part(BaseModel):
    type: str = "text"
    text: str = ""


class Metadata(BaseModel):
    from_vacant_id: str
    to_vacant_id: str
    sequence_no: int = Field(ge=1)
    timestamp: datetime
    prev_envelope_hash: str
    idempotency_key: str = ""
    caller_signature: str


class Message(BaseModel):
    role: str = "ROLE_USER"
    parts: list[Part] = []
    contextId: str | None = None  # noqa: N815 - the wire's spelling
    messageId: str | None = None  # noqa: N815 - the wire's spelling
    metadata: dict[str, Metadata]


class Base(DeclarativeBase):
    pass


class Accepted(Base):
    __tablename__ = "replay_protect"
    from_vid_hex: Mapped[str] = mapped_column(primary_key=True)
    to_vid_hex: Mapped[str] = mapped_column(primary_key=True)
    sequence_no: Mapped[int] = mapped_column(primary_key=True)
    chain_tip: Mapped[bytes] = mapped_column(LargeBinary)


def signing_payload(message: Message) -> bytes:
    block = message.metadata[URN]
    form = {
        "from": block.from_vacant_id,
        "to": block.to_vacant_id,
        "seq": block.sequence_no,
        "ts": block.timestamp.astimezone(UTC).isoformat(),
        "prev": block.prev_envelope_hash,
        "idem": block.idempotency_key,
        "payload": {
            "role": message.role,
            "parts": [part.model_dump() for part in message.parts],
            "contextId": message.contextId,
            "messageId": message.messageId,
        },
    }
    return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Vacant:
    def __init__(self, database: Path) -> None:
        self.key = SigningKey(SEED)
        self.id = self.key.verify_key.encode().hex()
        self.engine = create_async_engine(f"sqlite+aiosqlite:///{database}")
        event.listen(self.engine.sync_engine, "connect", _wal)
        self.sessions = async_sessionmaker(self.engine, expire_on_commit=False)
        self.lock = asyncio.Lock()
        Base.metadata.create_all(create_engine(f"sqlite:///{database}"))

    async def state(self, session: AsyncSession, sender: str, receiver: str) -> tuple[int, bytes]:
        newest = (
            select(Accepted)
            .where(Accepted.from_vid_hex == sender, Accepted.to_vid_hex == receiver)
            .order_by(Accepted.sequence_no.desc())
            .limit(1)
        )
        row = (await session.execute(newest)).scalar_one_or_none()
        return (row.sequence_no, row.chain_tip) if row else (0, ZEROS)

    async def advance(self, block: Metadata, tip: bytes) -> None:
        async with self.lock, self.sessions() as session:
            last, known = await self.state(session, block.from_vacant_id, block.to_vacant_id)
            if block.sequence_no != last + 1 or bytes.fromhex(block.prev_envelope_hash) != known:
                raise HTTPException(409, "out of order")
            session.add(
                Accepted(
                    from_vid_hex=block.from_vacant_id,
                    to_vid_hex=block.to_vacant_id,
                    sequence_no=block.sequence_no,
                    chain_tip=tip,
                )
            )
            await session.commit()

    async def reply(self, request: Message) -> Message:
        caller = request.metadata[URN].from_vacant_id
        async with self.sessions() as session:
            last, tip = await self.state(session, self.id, caller)
        block = Metadata(
            from_vacant_id=self.id,
            to_vacant_id=caller,
            sequence_no=last + 1,
            timestamp=datetime.now(UTC),
            prev_envelope_hash=tip.hex(),
            idempotency_key=str(uuid4()),
            caller_signature="",
        )
        text = " ".join(part.text for part in request.parts)
        answer = Message(role="ROLE_AGENT", parts=[Part(text=f"echo: {text}")], metadata={URN: block})
        payload = signing_payload(answer)
        block.caller_signature = self.key.sign(payload).signature.hex()
        await self.advance(block, blake2b(payload, digest_size=32).digest())
        return answer


def _wal(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL")


def application(folder: Path) -> FastAPI:
    app = FastAPI()
    vacant = Vacant(folder / "reference.db")

    @app.post("/a2a/message/send")
    async def send(body: dict[str, Any]) -> dict[str, Any]:
        if body.get("jsonrpc") != "2.0" or body.get("method") != "message/send":
            raise HTTPException(400, "not message/send")
        message = Message.model_validate(body["params"]["message"])
        block = message.metadata[URN]
        if block.to_vacant_id != vacant.id:
            raise HTTPException(421, "misdirected")
        payload = signing_payload(message)
        try:
            VerifyKey(bytes.fromhex(block.from_vacant_id)).verify(
                payload, bytes.fromhex(block.caller_signature)
            )
        except BadSignatureError:
            raise HTTPException(401, "bad signature") from None
        await vacant.advance(block, blake2b(payload, digest_size=32).digest())
        answer = await vacant.reply(message)
        return {"jsonrpc": "2.0", "id": body.get("id"), "result": {"message": answer.model_dump(mode="json")}}

    return app


if __name__ == "__main__":
    serve(application(Path(sys.argv[1])))
