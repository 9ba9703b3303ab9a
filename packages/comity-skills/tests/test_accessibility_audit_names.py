"""Roles, accessible names, and languages as the audit computes them."""

import json
from importlib.resources import files

import pytest

from comity_skills.accessibility_audit.dom.tree import parse
from comity_skills.accessibility_audit.names.aria import read_aria
from comity_skills.accessibility_audit.names.language import read_languages
from comity_skills.accessibility_audit.names.name import Names
from comity_skills.accessibility_audit.names.roles import Roles
from comity_skills.accessibility_audit.style.cascade import Styles
from comity_skills.accessibility_audit.style.sheet import read_sheet
from comity_skills.accessibility_audit.style.shown import Shown

PLACE = files("comity_skills.accessibility_audit")
ARIA = read_aria(PLACE.joinpath("aria.json").read_bytes())


@pytest.fixture(scope="module")
def languages():
    return read_languages(
        PLACE.joinpath("languages.json").read_bytes(), PLACE.joinpath("words.json").read_bytes()
    )


def told(html):
    """The role and the name of the element with the id x."""
    document = parse(html)
    styles = Styles(document, read_sheet(document))
    shown = Shown(document, styles)
    roles = Roles(document, shown, ARIA)
    element = document.by_id["x"]
    return roles.of(element), Names(document, styles, shown, roles).of(element)


NAMES = {
    "<button id=x>Send <b>now</b></button>": "Send now",
    "<button id=x>Send<div>now</div></button>": "Send now",
    "<button id=x>Se<b>nd</b></button>": "Send",
    "<button id=x>Send<span hidden> it</span><span aria-hidden=true> away</span></button>": "Send",
    "<button id=x><script>1</script><style>p{}</style>Send</button>": "Send",
    "<button id=x title=Send></button>": "Send",
    "<button id=x title=Send>Go</button>": "Go",
    "<button id=x aria-label=Send title=b>Go</button>": "Send",
    "<button id=x aria-label=' '>Go</button>": "Go",
    "<button id=x aria-labelledby='a b'>Go</button><p id=a>One</p><p id=b hidden>Two <i>three</i></p>": "One Two three",
    "<button id=x aria-labelledby='x a' aria-label=Delete></button><p id=a>file</p>": "Delete file",
    "<button id=x aria-labelledby=none>Go</button>": "Go",
    "<button id=x aria-labelledby=a>Go</button><p id=a aria-labelledby=b>One</p><p id=b>Two</p>": "One",
    "<a id=x href=/><img src=a alt=Home> page</a>": "Home page",
    "<a id=x href=/><svg><title>Home</title></svg></a>": "Home",
    "<a id=x href=/><img src=a alt=Home role=none></a>": "",
    "<style>#x::before{content:'New '}</style><a id=x href=/>offer</a>": "New offer",
    "<style>#x:after{content:' now'}</style><a id=x href=/>offer</a>": "offer now",
    "<map name=m><area id=x href=/ alt=North></map>": "North",
    "<img id=x src=a alt=Dog>": "Dog",
    "<img id=x src=a alt='' title=Dog>": "",
    "<img id=x src=a title=Dog>": "Dog",
    "<label for=x>Name</label><input id=x>": "Name",
    "<label>Name <input id=x></label>": "Name",
    "<label for=x>First</label><label for=x>last</label><input id=x>": "First last",
    "<label for=x style='display:none'>Name</label><input id=x>": "Name",
    "<label>Snooze <input value=5 aria-label=n> minutes <input id=x type=checkbox></label>": "",
    "<label for=x>Snooze <input value=5> minutes</label><input id=x type=checkbox>": "Snooze 5 minutes",
    "<label for=x>In <select><option>one<option selected>two</select></label><input id=x>": "In two",
    "<input id=x title=Name placeholder=Ann>": "Name",
    "<input id=x placeholder=Ann>": "Ann",
    "<input id=x type=submit>": "Submit",
    "<input id=x type=submit value=Send>": "Send",
    "<input id=x type=button>": "",
    "<input id=x type=image alt=Send>": "Send",
    "<fieldset id=x><legend>Size</legend><input></fieldset>": "Size",
    "<table id=x><caption>Rates</caption></table>": "Rates",
    "<figure id=x><figcaption>A dog</figcaption></figure>": "A dog",
    "<iframe id=x title=Map></iframe>": "Map",
    "<div id=x>Text</div>": "",
    "<div id=x role=heading>Text</div>": "Text",
    "<div id=x role=group>Text</div>": "",
    "<h1 id=x>Ti<wbr>tle</h1>": "Title",
    "<details><summary id=x>More</summary></details>": "More",
    "<div id=x role=link aria-owns=o>See </div><b id=o>this</b>": "See this",
}

ROLES = {
    "<a id=x href=/>": "link",
    "<a id=x>": "generic",
    "<img id=x alt=''>": "presentation",
    "<img id=x alt='' tabindex=0>": "img",
    "<img id=x>": "img",
    "<button id=x role=none>": "button",
    "<h1 id=x role=none>": "none",
    "<h1 id=x role=none aria-describedby=a>": "heading",
    "<div id=x role='nope button'>": "button",
    "<div id=x role=BUTTON>": "button",
    "<div id=x role=widget>": "generic",
    "<ul role=none><li id=x>": "generic",
    "<ul><li id=x>": "listitem",
    "<li id=x>": "generic",
    "<table role=none><tr><td id=x>": "generic",
    "<table role=grid><tr><td id=x>": "gridcell",
    "<table><tr><th id=x scope=row>": "rowheader",
    "<table><tr><th id=x>a<td>b": "rowheader",
    "<table><thead><tr><th id=x>a<td>b": "columnheader",
    "<input id=x list=l>": "combobox",
    "<input id=x type=SEARCH>": "searchbox",
    "<input id=x type=password>": "",
    "<select id=x multiple>": "listbox",
    "<select id=x size=1>": "combobox",
    "<header id=x>": "banner",
    "<article><header id=x>": "generic",
    "<section id=x>": "generic",
    "<section id=x aria-label=a>": "region",
    "<svg><a id=x href=/>": "link",
}


def test_names_are_computed():
    wrong = {html: told(html)[1] for html, wanted in NAMES.items() if told(html)[1] != wanted}
    assert not wrong, wrong


def test_roles_are_computed():
    wrong = {html: told(html)[0] for html, wanted in ROLES.items() if told(html)[0] != wanted}
    assert not wrong, wrong


def test_a_name_that_points_at_itself_ends():
    assert (
        told("<a id=x href=/ aria-labelledby=a></a><p id=a aria-owns=a>One <b aria-owns=a></b></p>")[1]
        == "One"
    )
    assert told("<div id=a><button id=x aria-labelledby=a>Go</button> on</div>")[1] == "Go on"


def test_the_facts_of_aria_hold_together():
    content = json.loads(PLACE.joinpath("aria.json").read_bytes())
    assert len(ARIA.roles) > 80
    for name, role in ARIA.roles.items():
        assert "roletype" in role.kinds, name
        known = ARIA.attributes.keys() | ARIA.everywhere
        assert role.attributes <= known, name
        assert set(role.required) <= role.attributes, name
        assert role.context <= ARIA.roles.keys(), name
        assert role.owned <= ARIA.roles.keys(), name
        assert not (role.unnamed and role.named_by_content), name
    assert not set(content["global"]) - ARIA.attributes.keys()
    assert ARIA.is_a("checkbox", "widget")
    assert not ARIA.is_a("img", "widget")
    assert "widget" not in ARIA.roles


def test_language_tags_are_judged_by_their_first_part(languages):
    for tag in ("en", "EN-us", "de_CH", "gsw", "zh-Hant-TW", " fr ", "cmn"):
        assert languages.known(tag), tag
    for tag in ("", "eng", "english", "e", "xx", "i-klingon", "x-own", "12", "en1"):
        assert not languages.known(tag), tag


def test_the_language_of_a_text_is_told_only_when_clear(languages):
    clear = {
        "en": "The committee has decided that all of the members will be asked about this.",
        "de": "Der Ausschuss hat beschlossen, dass alle Mitglieder dazu befragt werden, und das ist gut.",
        "fr": "Le comité a décidé que tous les membres seront consultés sur cette question.",
        "es": "El comité ha decidido que los miembros serán consultados sobre esta cuestión por la tarde.",
        "nl": "Het bestuur heeft besloten dat de leden over deze vraag worden gehoord.",
        "pl": "Komitet zdecydował, że się o to nie pyta, ale to jest dla nas ważne.",
        "ja": "委員会はそれを決めました。",
        "zh": "委员会决定征求所有成员的意见",
        "ru": "Комитет решил спросить всех",
        "ar": "قررت اللجنة أن تسأل جميع الأعضاء",
        "ko": "위원회는 모두에게 묻기로 했다",
    }
    for language, text in clear.items():
        assert language in languages.speaks(text), language
        assert ("en" in languages.speaks(text)) is (language == "en"), language
    assert "nl" not in languages.speaks("It is the door to the garden. " + "Door. " * 500)
    for text in ("", "12345", "Okapi", "Paris Berlin Roma", "Kyoto Łódź Zürich"):
        assert not languages.speaks(text), text
