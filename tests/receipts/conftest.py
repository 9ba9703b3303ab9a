"""Rooms and votes to make receipts of."""

from tests.rooms.commands.test_room import joined, line, other
from tests.votes.commands.test_vote import people, scene, vote

__all__ = ["joined", "line", "other", "people", "scene", "vote"]
