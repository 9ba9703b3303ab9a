"""Serving a baseline as our own node is served: the same server, one line that says where."""

import json
import socket
from typing import Any

import uvicorn


def serve(app: Any, ws: str = "none") -> None:
    # The protocol is named so that uvicorn turns Nagle's delay off, as it does on sockets it makes itself.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws=ws,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    print(json.dumps({"ready": True, "url": f"http://127.0.0.1:{listening.getsockname()[1]}"}), flush=True)
    uvicorn.Server(config).run(sockets=[listening])
