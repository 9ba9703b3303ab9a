"""What a vacant thinks with: a substrate answers a prompt with text (envelope 5).

What it says is untrusted text, whoever runs it.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from msgspec import Struct, field, to_builtins

from comity.agents.behaviour import close_behaviour, saying, text_of
from comity.envelopes.client.calls import CallRefusedError
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.errors import CoreError
from comity.envelopes.protocol.message import A2AMessage
from comity.http.addresses import read_url
from comity.http.client import TIMEOUT, GuardedHttp, HttpResponse
from comity.system import is_loopback
from comity.vcp.protocol.context import CallerContext, context_block
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    ConfigError,
    MalformedError,
    NoAnswerError,
    TargetRefusedError,
    UnreachableError,
)


class SubstrateError(CoreError):
    code = "substrate"


class SubstrateUnavailableError(SubstrateError):
    """It cannot be reached, or is in trouble itself."""

    code = "substrate_unavailable"


class SubstrateRateLimitError(SubstrateError):
    code = "substrate_rate_limit"


class SubstrateRequest(Struct, frozen=True, kw_only=True):
    system_prompt: str
    user_prompt: str
    tools: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class SubstrateResponse(Struct, frozen=True, kw_only=True):
    text: str
    model_id: str
    usage: dict[str, int] = field(default_factory=dict)
    proof: dict[str, Any] = field(default_factory=dict)


class SubstrateBackend(Protocol):
    @property
    def name(self) -> str: ...

    async def infer(self, request: SubstrateRequest, /) -> SubstrateResponse: ...


class SubstrateAgent:
    """A behaviour that answers with what its substrate says to the text of the envelope. With `takes_context` the
    substrate gets the context of a caller with a VCP session: before the system prompt, and in the metadata.
    """

    def __init__(
        self, backend: SubstrateBackend, system_prompt: str = "", *, takes_context: bool = False
    ) -> None:
        self.takes_context = takes_context
        self._backend = backend
        self._system_prompt = system_prompt

    async def __call__(self, envelope: VacantEnvelope, context: CallerContext | None = None) -> A2AMessage:
        prompt, metadata = self._system_prompt, {}
        if self.takes_context and context is not None:
            prompt = f"{context_block(context)}\n\n{prompt}".rstrip()
            metadata = to_builtins(context)
        request = SubstrateRequest(system_prompt=prompt, user_prompt=text_of(envelope), metadata=metadata)
        return saying((await self._backend.infer(request)).text)

    async def aclose(self) -> None:
        await close_behaviour(self._backend)


def substrate_failure(name: str, failure: ComityError) -> SubstrateError:
    """Return the error for a failure on the way to a substrate."""
    if isinstance(failure, UnreachableError | NoAnswerError):
        return SubstrateUnavailableError(f"{name} is not there: {failure.message}")
    if isinstance(failure, CallRefusedError):
        if failure.status == 429:
            return SubstrateRateLimitError(f"{name} limits our calls; try again later")
        if failure.status >= 500:
            return SubstrateUnavailableError(f"{name} is in trouble (status {failure.status})")
    return SubstrateError(f"{name} gave no answer: {failure.message}")


# A model behind an OpenAI-compatible HTTP endpoint: `openai:URL#model`.

KEY_VARIABLE: Final = "OPENAI_API_KEY"

_PATH: Final = "/chat/completions"
_DETAIL_LIMIT: Final = 300


class OpenAIEndpoint:
    def __init__(self, url: str, model: str, *, api_key: str = "", timeout: float = TIMEOUT) -> None:
        """`url` ends where /chat/completions begins; it may also be given with it."""
        try:
            target = read_url(url)
        except TargetRefusedError as refusal:
            raise ConfigError(f"the URL of the model cannot be used: {refusal.message}") from None
        if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
            raise ConfigError("the key of the model holds characters that no key has; copy it again")
        if api_key and target.scheme == "http" and not is_loopback(target.host):
            raise ConfigError(
                f"a key is not sent to {target.authority} in the clear; use https://, or unset the key"
            )
        self._url = url if url.endswith(_PATH) else url.rstrip("/") + _PATH
        self._where = target.authority
        self._model = model
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = GuardedHttp(allow=[target.host], timeout=timeout)

    @property
    def name(self) -> str:
        return f"openai:{self._where}:{self._model}"

    async def infer(self, request: SubstrateRequest) -> SubstrateResponse:
        said = [("system", request.system_prompt)] if request.system_prompt else []
        said.append(("user", request.user_prompt))
        body = {"model": self._model, "messages": [{"role": role, "content": text} for role, text in said]}
        try:
            answer = await self._http.request("POST", self._url, body, self._headers)
        except ComityError as failure:
            raise substrate_failure(self.name, failure) from None
        if answer.status != 200:
            raise self._refusal(answer)
        return self._read(answer)

    async def aclose(self) -> None:
        await self._http.aclose()

    def _read(self, answer: HttpResponse) -> SubstrateResponse:
        body = _object(answer)
        try:
            text = body["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError):
            text = None
        if not isinstance(text, str):
            raise SubstrateError(f"{self.name} answered without a text")
        usage = body.get("usage")
        counts = usage.items() if isinstance(usage, dict) else ()
        model = body.get("model")
        return SubstrateResponse(
            text=text,
            model_id=model if isinstance(model, str) else self._model,
            usage={name: count for name, count in counts if type(count) is int},
            proof={"server_url": self._url},
        )

    def _refusal(self, answer: HttpResponse) -> SubstrateError:
        if answer.status in {401, 403}:
            return SubstrateError(f"{self.name} refused our key (status {answer.status}); check it")
        error = _object(answer).get("error")
        message = error.get("message") if isinstance(error, Mapping) else error
        detail = message[:_DETAIL_LIMIT] if isinstance(message, str) else ""
        return substrate_failure(self.name, CallRefusedError(answer.status, detail))


def load_openai(
    spec: str, *, environ: Mapping[str, str], key_variable: str = KEY_VARIABLE, timeout: float = TIMEOUT
) -> OpenAIEndpoint:
    url, _, model = spec.removeprefix("openai:").partition("#")
    if not url or not model:
        raise ConfigError(f"{spec!r} names no model; write it as openai:https://host/v1#model")
    return OpenAIEndpoint(url, model, api_key=environ.get(key_variable, "").strip(), timeout=timeout)


def _object(answer: HttpResponse) -> dict[str, Any]:
    try:
        body = strict_json.loads(answer.body)
    except MalformedError:
        return {}
    return body if isinstance(body, dict) else {}
