"""A model behind an OpenAI-compatible HTTP endpoint: `openai:URL#model`.

The URL is the owner's word, so its host may be private or on this machine. The key comes from the
environment, is sent to that host only, never in the clear over a network, and appears in no message.
"""

from collections.abc import Mapping
from typing import Any, Final

from comity.agents.substrate import SubstrateError, SubstrateRequest, SubstrateResponse, substrate_failure
from comity.envelopes.client.refusals import CallRefusedError
from comity.http.client import TIMEOUT, GuardedHttp, HttpResponse
from comity.http.urls import read_url
from comity.system import is_loopback
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConfigError, MalformedError, TargetRefusedError

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
        told = error.get("message") if isinstance(error, Mapping) else error
        detail = told[:_DETAIL_LIMIT] if isinstance(told, str) else ""
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
