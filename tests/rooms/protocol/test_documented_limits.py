"""The page about peers names the events and limits that the code has."""

import re

from comity.rooms.protocol import admission, events, incoming_file, messages
from comity.rooms.protocol import files as file_shape
from comity.rooms.protocol import files as file_window
from comity.rooms.protocol import shared_data as state
from comity.rooms.protocol.channel import MESSAGE_LIMIT
from comity.rooms.protocol.session_peers import MAX_PEERS
from comity.rooms.protocol.transfers import MAX_FINISHED, FileLimits
from tests.docs.markdown import DOCS

PAGE = (DOCS / "reference" / "peers.md").read_text("utf-8")


def test_every_event_of_ours_is_documented_with_its_members():
    ours = list(events.EVENT_MEMBERS)[-9:]
    for name in ours:
        row = re.search(rf"^\| `{name}` \| ([^|]+) \|", PAGE, re.MULTILINE)
        assert row, name
        assert [member.strip() for member in row[1].split(",")] == list(events.EVENT_MEMBERS[name])


def test_the_limits_are_those_of_the_code():
    files = FileLimits()
    mebibyte = 1024 * 1024
    for words in (
        f"| {MESSAGE_LIMIT:,} bytes, or less",
        f"| {admission.MAX_HELD} messages, {admission.MAX_HELD_BYTES // mebibyte} MiB, {admission.HELLO_SECONDS:g} seconds |",
        f"| peers of a session | {MAX_PEERS} |",
        f"| {admission.MAX_FAULTS} of each in a minute",
        f"| {events.MAX_EVENTS:,}, and {events.MAX_BYTES // mebibyte} MiB; {events.MAX_READERS} clients |",
        f"| {file_window.FIRST_WINDOW // mebibyte} MiB at first, up to {file_window.LAST_WINDOW // mebibyte} MiB |",
        f"| {files.max_incomplete_per_peer} of one peer, {files.max_incomplete} and 1 GiB in total; dropped after an hour",
        f"| {MAX_FINISHED} in each direction |",
        (
            f"| {state.MAX_VALUE_BYTES // 1024} KiB for a value, {state.MAX_KEY_LENGTH} characters for a key, "
            f"{state.MAX_STATE_BYTES // mebibyte} MiB in total; one peer may bring {state.MAX_SHARE_BYTES // mebibyte} MiB, "
            "and half of the keys |"
        ),
        f"| {messages.MAX_WAITING}, {messages.MAX_WAITING_BYTES // mebibyte} MiB, {messages.MAX_WAIT / 3600:g} hours |",
        f"| {messages.MAX_UNREAD:,}, {messages.MAX_UNREAD_BYTES // mebibyte} MiB; half of both from one node |",
    ):
        assert words in PAGE, words
    assert admission.MAX_FAULTS == admission.MAX_HELLOS == admission.MAX_SNAPSHOTS
    assert messages.MAX_SHARE == state.KEYS_SHARE == 2
    assert files.max_incomplete_bytes == 1 << 30
    assert files.incomplete_seconds == 3600
    assert incoming_file.MAX_WRONG_HASHES == 3
    assert file_shape.MIN_CHUNK == 1024
