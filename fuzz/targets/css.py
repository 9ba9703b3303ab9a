"""Style sheets: whatever CSS comes, each element ends up with a colour, a size and a display that can be counted
with. The input stands in a style element, in a style attribute, and for a single colour and length.
"""

import math
from html import escape

from comity_skills.accessibility_audit.dom.tree import parse
from comity_skills.accessibility_audit.style.backdrop import backdrops
from comity_skills.accessibility_audit.style.cascade import Styles
from comity_skills.accessibility_audit.style.colour import contrast, read_colour
from comity_skills.accessibility_audit.style.length import pixels
from comity_skills.accessibility_audit.style.sheet import read_declarations, read_sheet
from comity_skills.accessibility_audit.style.shown import Shown

LONGEST = 512

EXAMPLES = [
    b"p { color: #777; background: rgb(255 255 255 / 50%) }",
    b"p > b:not(.c), #a ~ i:nth-child(2n+1 of b)::before { content: 'x'; font: italic 12px/1.5 serif }",
    b"@media (min-width: 30em) and (orientation: portrait) { p { display: none !important } }",
    b"@supports (display: grid) { @layer a { p { & b { opacity: .5 } } } }",
    b":root { --x: var(--y, red); --y: var(--x) } p { color: var(--x); font-size: calc(1em + 2px) }",
    b"p[class~='a' i]:is(b, :where(.c)):lang(en):has(> i) { background: linear-gradient(red, oklch(50% 0.1 20)) }",
    b"color: hsl(120deg 50% 50%); visibility: hidden; clip: rect(0,0,0,0); position: absolute; left: -999em",
    b"1e309px",
    b"oklab(1e400 none 0 / 200%)",
    b"oklab(1e200 none 0 / 200%)",
    b"@import url(x); @charset 'y'; p{}}}{{{ /* <!-- --> */ \\0 \\110000 { a:b }",
]
_PAGE = (
    "<style>{}</style><div id=a class=c><p class='a c' lang=en style='{}'>text<b>bold</b><i>x</i></p></div>"
)


def check(data: bytes) -> None:
    css = data.decode("utf-8", "replace")
    document = parse(_PAGE.format(css.replace("</", "< /"), escape(css, quote=True)))
    styles = Styles(document, read_sheet(document))
    shown = Shown(document, styles)
    for element in document.elements:
        style = styles.of(element)
        assert math.isfinite(style.size or 0.0), style
        styles.display(element)
        shown.displayed(element)
        for name in ("font-size", "left", "height", "line-height"):
            found = styles.pixels(element, name)
            assert found is None or not math.isnan(found), (name, found)
    for backdrop in backdrops(document, styles):
        for one, other in backdrop.pairs(read_colour("red")):  # type: ignore[arg-type]
            assert 1.0 <= contrast(one, other) <= 21.01
    _check_alone(css)


def _check_alone(css: str) -> None:
    read_declarations(css)
    colour = read_colour(css)
    assert colour is None or all(0.0 <= part <= 1.0 for part in colour), colour
    size = pixels(css, 16.0)
    assert size is None or not math.isnan(size), size
