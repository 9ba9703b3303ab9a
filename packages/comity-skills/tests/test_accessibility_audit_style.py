"""The tree, the selectors, the cascade and the colours of the audit."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from comity_skills.accessibility_audit.dom import bounds, tree
from comity_skills.accessibility_audit.dom.tree import looks_like_html, parse, path
from comity_skills.accessibility_audit.style import cascade, sheet
from comity_skills.accessibility_audit.style.backdrop import backdrops
from comity_skills.accessibility_audit.style.cascade import Styles
from comity_skills.accessibility_audit.style.colour import (
    BLACK,
    WHITE,
    Colour,
    contrast,
    faded,
    over,
    read_colour,
)
from comity_skills.accessibility_audit.style.length import font_size, pixels
from comity_skills.accessibility_audit.style.sheet import read_sheet
from comity_skills.accessibility_audit.style.shown import Shown

TAGS = ("div", "p", "b", "ul", "li", "span")


def styled(html):
    document = parse(html)
    return document, Styles(document, read_sheet(document))


def first(document, tag):
    return document.tagged(tag)[0]


@st.composite
def pages(draw, depth=3):
    def element(level):
        tag = draw(st.sampled_from(("div", "span", "b", "i")))
        marks = ""
        if draw(st.booleans()):
            marks += f' class="{draw(st.sampled_from(("x", "y", "x y", "z")))}"'
        if draw(st.booleans()):
            marks += f' id="{draw(st.sampled_from(("one", "two")))}"'
        if draw(st.booleans()):
            marks += f' lang="{draw(st.sampled_from(("en", "en-US", "EN", "fr")))}"'
        inner = "".join(element(level - 1) for _ in range(draw(st.integers(0, 3)))) if level else "t"
        return f"<{tag}{marks}>{inner}</{tag}>"

    return "<div>" + "".join(element(depth) for _ in range(draw(st.integers(1, 3)))) + "</div>"


SIMPLE = st.sampled_from(
    [
        "div",
        "span",
        "b",
        "*",
        ".x",
        ".y",
        "#one",
        "[lang]",
        "[lang|=en]",
        "[lang^=e]",
        "[lang$=US]",
        "[class~=y]",
        ":first-child",
        ":last-child",
        ":only-child",
        ":nth-child(2n+1)",
        ":nth-last-child(2)",
        ":empty",
        ":nth-of-type(2)",
        ":first-of-type",
        ":last-of-type",
    ]
)


@st.composite
def selector_texts(draw):
    steps = []
    for place in range(draw(st.integers(1, 4))):
        parts = draw(st.lists(SIMPLE, min_size=1, max_size=3))
        names = [part for part in parts if part[0].isalpha() or part == "*"][:1]
        rest = [part for part in parts if not part[0].isalpha() and part != "*"]
        steps.append(
            (draw(st.sampled_from((" ", " > ", " + ", " ~ "))) if place else "") + "".join(names + rest)
        )
    return "".join(steps)


@settings(max_examples=150)
@given(pages(), selector_texts())
def test_selectors_reach_what_another_engine_reaches(html, text):
    document, styles = styled(f"<style>{text} {{ order: 7 }}</style>{html}")
    ours = [one.index for one in document.elements if styles.get(one, "order") == "7"]
    engine = LexborHTMLParser(f"<style>{text} {{ order: 7 }}</style>{html}")
    places = {node.mem_id: at for at, node in enumerate(engine.root.traverse())}
    theirs = sorted(places[node.mem_id] for node in engine.css(text))
    assert ours == theirs, text


def test_lists_in_a_selector_hold_for_every_ancestor():
    html = "<div class=x><p id=a><b id=b>1</b></p></div><p id=c class=y><b id=d>2</b><i id=e>3</i></p>"
    cases = {
        ":not(.x) b": "bd",
        ".x :not(p)": "b",
        ":is(i, .y)": "ce",
        ":where(.y, .x) > :not(i)": "ad",
        "p:not(.x, .y) b": "b",
        ":is(.x, .y) :is(b, i):not(#d)": "be",
        "[id=A i], #e": "ae",
        "P > B": "bd",
        ":lang(en)": "",
    }
    for text, wanted in cases.items():
        document, styles = styled(f"<style>{text}{{order:7}}</style>{html}")
        reached = [one.get("id") for one in document.with_attribute("id") if styles.get(one, "order") == "7"]
        assert "".join(reached) == wanted, text


def test_states_and_pseudo_elements_match_nothing_now():
    for text in ("p:hover", "p:focus", "p::before", "p:before", "p:visited", "p:not(:hover):active"):
        document, styles = styled(f"<style>{text}{{color:red}}</style><p>x")
        assert styles.of(first(document, "p")).color == BLACK, text


def test_a_selector_that_is_not_understood_drops_its_rule_alone():
    for text in (
        "p:mystery",
        "p > > b",
        "p..a",
        ">p",
        "p,",
        "p:nth-child(x)",
        "[=x]p",
        "p::before b",
        "::",
        "p:",
        "a|",
    ):
        document, styles = styled(f"<style>{text}{{color:red}} p{{opacity:.5}}</style><p>x")
        element = first(document, "p")
        assert (styles.of(element).color, styles.get(element, "opacity")) == (BLACK, ".5"), text


def test_the_cascade_goes_by_importance_origin_specificity_and_order():
    cases = {
        "p{color:red} p{color:blue}": "blue",
        "#a{color:red} p.b{color:blue}": "red",
        "p{color:red!important} #a{color:blue}": "red",
        "p{color:red!important;color:blue}": "red",
        "@layer x{#a{color:red}} p{color:blue}": "blue",
        "@media print{p{color:red}} p.b{color:blue}": "blue",
        "@media (max-width:600px){#a{color:red}} p{color:blue}": "blue",
        "@media screen and (min-width:30em){#a{color:red}} p{color:blue}": "red",
        "@media (min-width:2000px){#a{color:red}} p{color:blue}": "blue",
        "@media not print{#a{color:red}} p{color:blue}": "red",
        "@media (prefers-color-scheme:dark){#a{color:red}} p{color:blue}": "blue",
        "@supports (display:grid){#a{color:red}} p{color:blue}": "red",
        ":root{--c:blue} p{color:var(--c)}": "blue",
        "p{color:var(--none, red)}": "red",
        ":where(#a){color:red} p{color:blue}": "blue",
        ":is(#a){color:red} p.b{color:blue}": "red",
        "div{color:blue} p{color:inherit}": "blue",
        "div{color:red} p{color:currentcolor}": "red",
        ":root{--b:red;--a:var(--b)} div{--b:blue} p{color:var(--a)}": "red",
        "div{color:red; & p{color:blue}}": "blue",
        "div{p{color:blue}} p{color:red}": "blue",
        "section,div{> p, b{color:blue}}": "blue",
        ".b{div &{color:blue}}": "blue",
        "body{div{p{color:blue}}}": "blue",
        "p{color:red; @media screen{color:blue} @media print{color:red}}": "blue",
        "div{&:hover p{color:red}} p{color:blue}": "blue",
        "p{color:blue} @media (width >= 600px){p{color:red}}": "red",
        "p{color:blue} @media (400px < width <= 900px){p{color:red}}": "blue",
        "p{color:blue} @media (400px <= width){p{color:red}}": "red",
    }
    for css, wanted in cases.items():
        document, styles = styled(f"<style>{css}</style><div><p id=a class=b>x</p></div>")
        assert styles.of(first(document, "p")).color == read_colour(wanted), css
    document, styles = styled("<style>#a{color:red}</style><p id=a style='color:blue'>x")
    assert styles.of(first(document, "p")).color == read_colour("blue")


def test_an_unknown_value_is_unknown_and_not_guessed():
    for value in ("var(--none)", "ButtonText", "color-mix(in srgb, red, blue)", "lab(50% 20 20)", "nonsense"):
        document, styles = styled(f"<p style='color:{value}'>x")
        assert styles.of(first(document, "p")).color is None, value


def test_long_chains_of_variables_and_rules_inside_rules_end():
    chain = ":root{" + "".join(f"--a{at}:var(--a{at + 1}) var(--a{at + 1});" for at in range(2_000)) + "}"
    nested = ".a,.b{" * 30 + "color:red" + "}" * 30
    for css in (chain + "p{color:var(--a0)}", nested, ".a{" + "&" * 3_000 + "{color:red}}"):
        document, styles = styled(f"<style>{css}</style><p class=c>x")
        assert styles.of(first(document, "p")).color in {None, read_colour("black")}


def test_colours_of_oklab_are_those_of_the_screen():
    for written, wanted in {
        "oklch(0.627955 0.257683 29.234)": "red",
        "oklab(0.86644 -0.233887 0.179498)": "lime",
        "oklch(1 0 0)": "white",
        "oklch(0.45201 0.313214 264.052 / 50%)": "rgb(0 0 255 / 50%)",
    }.items():
        assert read_colour(written) == pytest.approx(read_colour(wanted), abs=2e-3), written


def test_variables_that_feed_each_other_end():
    chain = "".join(f"--a{at}:var(--a{at + 1}) var(--a{at + 1});" for at in range(40))
    document, styles = styled(
        f"<style>:root{{{chain} --b:var(--b)}}</style><p style='color:var(--a0)'><b style='color:var(--b)'>x"
    )
    assert styles.of(first(document, "p")).color is None
    assert styles.of(first(document, "b")).color is None
    document, styles = styled(f"<p style='--c:red;color:var(--c, {'x' * 3_000})'>x")
    assert styles.of(first(document, "p")).color is None


def test_font_sizes_and_weights_are_computed():
    html = "<style>html{font-size:20px}</style><div style='font-size:2em'><p style='font-size:50%'><b style='font-size:1.5rem'>x"
    document, styles = styled(html)
    found = [styles.of(first(document, tag)) for tag in ("div", "p", "b")]
    assert [style.size for style in found] == [40, 20, 30]
    assert [style.weight for style in found] == [400, 400, 700]
    document, styles = styled("<h1 style='font:italic 300 12pt/1.2 serif'>x</h1><h2>y</h2>")
    assert (styles.of(first(document, "h1")).size, styles.of(first(document, "h1")).weight) == (16, 300)
    assert styles.of(first(document, "h2")).size == 24
    assert (font_size("larger", 10, 16), pixels("1in", 16), pixels("calc(1px)", 16)) == (12, 96, None)


def test_contrast_is_that_of_wcag():
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(WHITE, WHITE) == 1
    assert contrast(read_colour("#767676"), WHITE) == pytest.approx(4.54, abs=0.01)
    assert contrast(read_colour("hsl(0 100% 50%)"), WHITE) == pytest.approx(4.0, abs=0.01)
    assert read_colour("rgb(0 0 0 / 50%)").alpha == pytest.approx(0.5)


UNIT = st.integers(0, 20).map(lambda part: part / 20)
COLOURS = st.builds(Colour, UNIT, UNIT, UNIT, UNIT)


@given(COLOURS, st.lists(st.tuples(COLOURS, UNIT), min_size=1, max_size=5))
def test_the_linear_step_equals_laying_the_layers_one_on_another(color, layers):
    def css(one):
        return f"rgb({one.red * 255} {one.green * 255} {one.blue * 255} / {one.alpha})"

    html = "".join(f"<div style='background:{css(one)};opacity:{opacity}'>" for one, opacity in layers)
    document, styles = styled(html + "x")
    inner = document.elements[-1]
    (pair,) = backdrops(document, styles)[inner.index].pairs(color)
    text, behind = color, color._replace(alpha=0)
    for layer, opacity in reversed(layers):
        text, behind = (faded(over(one, layer), opacity) for one in (text, behind))
    for got, wanted in zip(pair, (over(text, WHITE), over(behind, WHITE)), strict=True):
        assert all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(got[:3], wanted[:3], strict=True))


def test_what_is_shown_and_what_is_seen():
    cases = {
        "": (True, True, True),
        "hidden": (False, False, False),
        "hidden style='display:block'": (True, True, True),
        "style='display:none'": (False, False, False),
        "style='visibility:hidden'": (False, False, False),
        "style='opacity:0'": (True, False, True),
        "style='position:absolute;left:-9999px'": (True, False, True),
        "style='position:absolute;clip:rect(0,0,0,0)'": (True, False, True),
        "style='clip-path:inset(50%)'": (True, False, True),
        "style='height:1px;overflow:hidden'": (True, False, True),
        "style='text-indent:-999em'": (True, False, True),
        "aria-hidden=true": (True, True, False),
        "inert": (True, True, False),
    }
    for marks, wanted in cases.items():
        document, styles = styled(f"<div {marks}><p>x</p></div>")
        shown, inner = Shown(document, styles), first(document, "p")
        assert (shown.rendered(inner), shown.seen(inner), shown.told(inner)) == wanted, marks
    document, styles = styled("<details><summary>a</summary><p>b</p></details><dialog><b>c</b></dialog>")
    shown = Shown(document, styles)
    assert [shown.rendered(first(document, tag)) for tag in ("summary", "p", "b")] == [True, False, False]


def test_what_the_tab_key_reaches():
    reached = (
        "<a href=/>",
        "<button>",
        "<input>",
        "<p tabindex=0>",
        "<p contenteditable>",
        "<video controls>",
        "<iframe>",
    )
    passed_by = (
        *(
            "<a>",
            "<button disabled>",
            "<input type=hidden>",
            "<p tabindex=-1>",
            "<p>",
            "<video>",
            "<button hidden>",
        ),
        *("<a href=/ tabindex=-1>", "<p contenteditable=false>", "<div inert><button>", "<p tabindex=x>"),
        "<fieldset disabled><button>",
    )
    for html, wanted in (*((one, True) for one in reached), *((one, False) for one in passed_by)):
        document, styles = styled(html)
        assert Shown(document, styles).tabbable(document.elements[-1]) is wanted, html
    document, styles = styled("<fieldset disabled><legend><button>x</button></legend></fieldset>")
    assert Shown(document, styles).tabbable(first(document, "button"))


def test_a_path_leads_back_to_its_node():
    html = "<main><ul><li>a<li><b>x</b></ul><ul id=second><li>b<li><b>y</b></ul><p>z</main>"
    document = parse(html)
    engine = LexborHTMLParser(html)
    for element in document.elements:
        found = engine.css(path(element))
        assert len(found) == 1, path(element)
        assert found[0].text(deep=True) == element.text()


def test_what_looks_like_html():
    for text in ("<p>x", "a <b>", "<!doctype html>", "</p>", "1 < 2 <i>"):
        assert looks_like_html(text), text
    for text in ("", "plain words", "1 < 2 > 0", "a<", "<3 you", "<p without end"):
        assert not looks_like_html(text), text


@settings(max_examples=60)
@given(st.text(alphabet="<>/='\" abdipvs!-&;{}:.#", max_size=200))
def test_any_text_is_parsed_and_styled(text):
    document, styles = styled(f"{text}<style>{text}</style><p style='{text}'>x")
    assert document.elements[0].tag == "html"
    for element in document.elements:
        assert element.index < element.end <= len(document.elements)
        assert styles.of(element) is not None


MONSTERS = {
    "nesting": ("<div>" * 5_000, "nested more than 600 deep"),
    "nesting with ends that are not heard": ("<span><div></span>" * 5_000, "nested more than 600 deep"),
    "formatting reopened in every block": (
        "".join(f"<b id=b{at}>" for at in range(400)) + "<p>x" * 20_000,
        "too many nodes",
    ),
    "attributes": ("<p " + " ".join(f"a{at}=1" for at in range(5_000)) + ">x", "more than 1000 attributes"),
    "elements": ("<p>x</p>" * 25_000, "first 20000 elements"),
}


@pytest.mark.parametrize("kind", MONSTERS)
def test_a_monster_is_cut_and_says_so(kind):
    document = parse("<h1>First</h1>" + MONSTERS[kind][0])
    assert MONSTERS[kind][1] in document.notes[0], kind
    assert len(document.elements) <= tree.ELEMENTS
    assert max(element.depth for element in document.elements) <= 2 * bounds.NESTING
    assert document.tagged("h1"), "what came before the cut is kept"


def test_an_honest_page_is_not_cut():
    row = "<tr><td><p>One<p>Two<td><ul><li>a<li>b</ul><td><b>x</b> <a href=/><i>y</i></a><svg><path d=m /><g><path d=n></path></g></svg>"
    html = "<!-- <div> --><script>if (a<b) x='<div>'</script><table>" + row * 700 + "</table>"
    assert parse(html).notes == []


def test_too_many_rules_are_cut_and_said():
    document, styles = styled("<style>" + "p{color:red}" * (sheet.RULES + 5) + "</style><p>x")
    assert styles.notes == [f"Only the first {sheet.RULES} style rules were read."]
    busy = "<style>" + "*{color:red}" * 2_000 + "</style>" + "<p>x</p>" * 500
    document, styles = styled(busy)
    assert "style rules were matched" in styles.notes[0]
    assert styles.of(first(document, "p")).color == read_colour("red")
    assert cascade.WORK < 2_000 * 2 * 500


def test_a_selector_that_backtracks_elsewhere_costs_little_here():
    spent = []
    document = parse("<div class=a>" * 500)
    parsed = sheet.selectors(sheet.tinycss2.parse_component_value_list(".a .b .a .a .a"))
    sheet_match = cascade.match(document, parsed[0], spent.append)
    assert (sheet_match, sum(spent) < 2_000) == ([], True)


@pytest.mark.parametrize("space", ["oklab", "oklch"])
@pytest.mark.parametrize(
    "parts", ["1e200 none 0", "0.5 1e300 1e300", "0 -1e200 1e308", "1e999 0 0", "0.5 0.1 1e999"]
)
def test_a_colour_beyond_every_screen_is_still_a_colour(space, parts):
    colour = read_colour(f"{space}({parts} / 200%)")
    assert colour is None or all(0 <= part <= 1 for part in colour)
