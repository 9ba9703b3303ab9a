"""Pages: whatever HTML comes, the audit examines it to the end, and the tree it is read into hangs together."""

import json
from importlib.resources import files

from comity_skills.accessibility_audit.audit import examine
from comity_skills.accessibility_audit.dom.tree import looks_like_html, parse, path
from comity_skills.accessibility_audit.names.aria import read_aria
from comity_skills.accessibility_audit.names.language import read_languages
from comity_skills.accessibility_audit.recorded_scores import recorded_scores

LONGEST = 1024

EXAMPLES = [
    b"<!doctype html><html lang=en><head><title>t</title></head><body><main><h1>h</h1><p>text</main></body>",
    b"<form><label for=a>name</label><input id=a type=text><input type=image><button></button></form>",
    b"<table><caption>c</caption><tr><th scope=col>a<td headers='b c'>d</table><img src=x><a href=#></a>",
    b"<div role=button aria-labelledby='x y' id=x tabindex=-1><span id=y hidden>z</span></div>",
    b"<svg><title>t</title><foreignObject><p>x</foreignObject></svg><math><mi>x</math>",
    b"<details><summary>s</summary>x</details><dialog open>d</dialog><iframe title></iframe><video autoplay>",
    b"<template><p></template><p style='color:#777;background:white'>grey</p><b><i></b></i><!-- <![CDATA[",
    b"<html lang=xx-invalid><meta http-equiv=refresh content='5;url=/'><meta name=viewport content='user-scalable=no'>",
    b"<p>&#0;&notanentity;&#x110000;</p></br><//><a b=c b=d ='><textarea><title></textarea>",
]

_PLACE = files("comity_skills.accessibility_audit")
_ARIA = read_aria(_PLACE.joinpath("aria.json").read_bytes())
_LANGUAGES = read_languages(
    _PLACE.joinpath("languages.json").read_bytes(), _PLACE.joinpath("words.json").read_bytes()
)


def check(data: bytes) -> None:
    html = data.decode("utf-8", "replace")
    looks_like_html(html)
    document = parse(html)
    for index, element in enumerate(document.elements):
        assert element.index == index
        assert index < element.end <= len(document.elements)
        assert element.parent is None or element.parent.index < index
        assert path(element)
    examined = examine(html, _ARIA, _LANGUAGES)
    for checked in examined.checks:
        assert checked.findings
    json.dumps([*examined.notes])
    recorded_scores(html)
