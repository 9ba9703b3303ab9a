"""A stock a2a-sdk server that says what it was told: nothing signed, nothing kept on disk."""

from uuid import uuid4

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, Message, Part, Role
from starlette.applications import Starlette

from bench.baselines.serve import serve


class Echo(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message = Message(
            message_id=str(uuid4()),
            role=Role.ROLE_AGENT,
            parts=[Part(text=f"echo: {context.get_user_input()}")],
        )
        await event_queue.enqueue_event(message)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise RuntimeError("an echo is over before it can be cancelled")


def application() -> Starlette:
    card = AgentCard(
        name="echo",
        description="says what it was told",
        version="1",
        capabilities=AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )
    handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card)
    return Starlette(routes=create_jsonrpc_routes(handler, "/"))


if __name__ == "__main__":
    serve(application())
