"""The page about peers names the events and limits that the code has."""

import re

from comity.rooms.protocol import admission, events, incoming_file, messages
from comity.rooms.protocol import files as file_shape
from comity.rooms.protocol import files as file_window
from comity.rooms.protocol import shared_data as state
from comity.rooms.protocol.channel import MESSAGE_LIMIT
from comity.rooms.protocol.session_peers import MOST_PEERS
from comity.rooms.protocol.transfers import MOST_FINISHED, FileLimits
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
        f"| {admission.MOST_HELD} messages, {admission.MOST_HELD_BYTES // mebibyte} MiB, {admission.HELLO_SECONDS:g} seconds |",
        f"| peers of a session | {MOST_PEERS} |",
        f"| {admission.MOST_FAULTS} of each in a minute",
        f"| {events.MOST_EVENTS:,}, and {events.MOST_BYTES // mebibyte} MiB; {events.MOST_READERS} clients |",
        f"| {file_window.FIRST_WINDOW // mebibyte} MiB at first, up to {file_window.LAST_WINDOW // mebibyte} MiB |",
        f"| {files.most_incomplete_per_peer} of one peer, {files.most_incomplete} and 1 GiB in total; dropped after an hour",
        f"| {MOST_FINISHED} in each direction |",
        (
            f"| {state.MOST_VALUE_BYTES // 1024} KiB for a value, {state.LONGEST_KEY} characters for a key, "
            f"{state.MOST_STATE_BYTES // mebibyte} MiB in total |"
        ),
        f"| {messages.MOST_WAITING}, {messages.MOST_WAITING_BYTES // mebibyte} MiB, {messages.LONGEST_WAIT / 3600:g} hours |",
        f"| {messages.MOST_UNREAD:,}, {messages.MOST_UNREAD_BYTES // mebibyte} MiB |",
    ):
        assert words in PAGE, words
    assert admission.MOST_FAULTS == admission.MOST_HELLOS == admission.MOST_SNAPSHOTS
    assert files.most_incomplete_bytes == 1 << 30
    assert files.incomplete_seconds == 3600
    assert incoming_file.MOST_WRONG_HASHES == 3
    assert file_shape.LEAST_CHUNK == 1024
