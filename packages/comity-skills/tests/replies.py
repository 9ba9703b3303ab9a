"""What `supportive_reply` says to a message, and what that reply is called."""

import json
from functools import cache

from comity_skills.supportive_reply import SKILL
from comity_skills.supportive_reply.data import SPOKEN
from comity_skills_data import shipped
from tests.prepared import handler_of


@cache
def data():
    return shipped()


@cache
def handler():
    return handler_of(SKILL)


@cache
def names():
    """What each reply is called."""
    spoken = [json.loads(data()[name]) for name in SPOKEN.values()]
    forms = [one["replies"] for one in (*spoken, *(one["latin"] for one in spoken if "latin" in one))]
    return {said: name for replies in forms for name, said in replies.items()}


def answered(message, **given):
    return handler()({"message": message, "risk_level": "low", **given}, "enhanced")


def called(message, **given):
    return names().get(answered(message, **given).output["reply"])


def topic(message):
    told = [line for line in answered(message).assumptions if line.startswith("Topic: ")]
    return told[0].removeprefix("Topic: ") if told else None
