"""Each rule on small pages of our own: what passes, what fails, what cannot be told, and what it leaves alone."""

from importlib.resources import files

import pytest

from comity_skills.accessibility_audit.audit import examine
from comity_skills.accessibility_audit.names.aria import read_aria
from comity_skills.accessibility_audit.names.language import read_languages
from comity_skills.accessibility_audit.rules import RULES

PLACE = files("comity_skills.accessibility_audit")
GRID = "<table><tr>{}</tr><tr>{}</tr></table>"
LONG = "Enough words to need a second line on any small screen. " * 3

# Rule, then pages by verdict. "silent" pages are ones to which the rule does not apply.
CASES = {
    "97a4e1": {
        "passed": ["<button>Send</button>", "<input type=submit>", "<div role=button aria-label=Send></div>"],
        "failed": ["<button></button>", "<input type=button>", "<button role=none tabindex=0></button>"],
        "silent": [
            "<button hidden></button>",
            "<input type=image>",
            "<div aria-hidden=true><button></button></div>",
        ],
    },
    "c487ae": {
        "passed": [
            "<a href=/>Home</a>",
            "<a href=/><img src=a.png alt=Home></a>",
            "<a href=/ title=Home></a>",
            "<a href=#r role=doc-biblioref>1</a>",
        ],
        "failed": [
            "<a href=/></a>",
            "<a href=/><img src=a.png alt=''></a>",
            "<svg><a href=/><path/></a></svg>",
        ],
        "silent": [
            "<a>Not a link</a>",
            "<a href=/ role=button></a>",
            "<a href=/ style='visibility:hidden'></a>",
        ],
    },
    "e086e5": {
        "passed": ["<label>Name <input></label>", "<input aria-label=Name>", "<select title=Size></select>"],
        "failed": [
            "<input>",
            "<label for=b>Name</label><input id=a>",
            "<div role=checkbox aria-checked=true></div>",
        ],
        "silent": ["<input type=hidden>", "<input type=submit>", "<input style='display:none'>"],
    },
    "m6b1q3": {
        "passed": ["<div role=menu><div role=menuitem>New</div></div>"],
        "failed": ["<div role=menu><div role=menuitem><img src=a.png alt=''></div></div>"],
        "silent": ["<menu><li>New</li></menu>"],
    },
    "cae760": {
        "passed": ["<iframe title=Map src=m></iframe>"],
        "failed": ["<iframe src=m></iframe>", "<iframe title=' ' src=m></iframe>"],
        "silent": ["<iframe src=m tabindex=-1></iframe>", "<iframe src=m hidden></iframe>"],
    },
    "2t702h": {
        "passed": ["<details><summary>More</summary>Text</details>"],
        "failed": ["<details><summary></summary>Text</details>"],
        "silent": ["<summary></summary>"],
    },
    "range-name": {
        "passed": ["<progress aria-label=Upload></progress>", "<label>Upload <progress></progress></label>"],
        "failed": ["<progress></progress>", "<div role=meter aria-valuenow=1></div>"],
        "silent": ["<div></div>"],
    },
    "ffd0e9": {
        "passed": ["<h1>Title</h1>", "<div role=heading aria-level=2>Part</div>"],
        "failed": ["<h2></h2>", "<h1><img src=a.png alt='Logo' role=presentation></h1>"],
        "silent": ["<h2 hidden></h2>", "<p></p>"],
    },
    "23a2a8": {
        "passed": ["<img src=a.png alt='A dog'>", "<div role=img aria-label='A dog'></div>"],
        "failed": ["<img src=a.png>", "<img src=a.png alt=' '>", "<div role=img></div>"],
        "silent": ["<img src=a.png alt=''>", "<img src=a.png role=none>", "<!-- <img src=a.png> -->"],
    },
    "7d6734": {
        "passed": ["<svg role=img><title>Sun</title></svg>", "<svg role=img aria-label=Sun></svg>"],
        "failed": ["<svg role=img><circle r=1 /></svg>", "<svg><circle role=graphics-symbol r=1 /></svg>"],
        "silent": ["<svg><circle r=1 /></svg>"],
    },
    "59796f": {
        "passed": ["<input type=image src=a.png alt=Search>"],
        "failed": ["<input type=image src=a.png>", "<input type=image src=a.png alt=''>"],
        "silent": ["<input type=submit>"],
    },
    "8fc3b6": {
        "passed": ["<object data=a.png title='A dog'></object>"],
        "failed": ["<object data=a.png></object>", "<object data=a.mp3 type=audio/mpeg>Sound</object>"],
        "cannot_tell": ["<object data=/thing></object>"],
        "silent": [
            "<object data=a.html></object>",
            "<object data=/thing type=text/html></object>",
            "<object title=x></object>",
        ],
    },
    "e88epe": {
        "failed": [
            "<img src=acme_logo.svg alt=''>",
            "<img src=salesChart2024.png alt=''>",
            "<img src=logo.png alt=''>",
            "<img src=sales-chart.svg aria-hidden=true alt=Sales>",
        ],
        "cannot_tell": [
            "<img src=photograph.jpg alt=''>",
            "<img src=paragraph-bg.png alt=''>",
            "<img src=catalogo.png alt=''>",
            "<p><img src=logo.png alt=''> Acme</p>",
            "<img src=wave.png alt=''>",
        ],
        "silent": ["<img src=logo.png alt=Acme>", "<a href=/><img src=logo.png alt=''>Acme</a>"],
    },
    "qt1vmo": {
        "passed": ["<div role=img aria-label='A dog'></div>"],
        "failed": [
            "<img src=a.png alt='IMG_2041.jpg'>",
            "<img src=a.png alt='my holiday photo.jpg'>",
            "<img src=a.png alt=DSC_0042>",
            "<img src=a.png alt=image>",
            "<img src=/shared/w3c-logo.png alt='ERCIM logo'>",
        ],
        "cannot_tell": [
            "<img src=a.png alt='A dog'>",
            "<img src=w3c-logo.png alt='W3C logo'>",
            "<img src=w3c-logo.png alt='World Wide Web Consortium logo'>",
            "<img src=logo.png alt='Acme logo'>",
        ],
        "silent": ["<img src=a.png>"],
    },
    "5f99a7": {
        "passed": ["<p aria-label=x>", "<p aria-hidden=true>"],
        "failed": ["<p aria-labeledby=x>", "<p aria-pressd=true>"],
        "silent": ["<p data-aria=x>"],
    },
    "6a7281": {
        "passed": [
            "<p aria-hidden=true>",
            "<p aria-live=polite>",
            "<div role=slider aria-valuenow=1.5>",
            "<p id=a aria-describedby=a>",
        ],
        "failed": [
            "<button aria-expanded=maybe>",
            "<p aria-live=loud>",
            "<p aria-rowindex=1.5>",
            "<p id=a aria-activedescendant='a b'>",
        ],
        "cannot_tell": [
            "<p aria-labelledby=no>",
            "<button aria-controls=menu aria-expanded=false>",
            "<p aria-owns=no>",
        ],
        "silent": ["<p aria-expanded=''>", "<p aria-nonsense=x>"],
    },
    "5c01ea": {
        "passed": [
            "<button aria-pressed=true>B</button>",
            "<p aria-live=polite>x</p>",
            "<table><tr><th aria-sort=none>x",
        ],
        "failed": [
            "<button aria-sort=none>B</button>",
            "<div aria-label=x>y</div>",
            "<abbr aria-label=x>y</abbr>",
            "<mark aria-labelledby=a>y</mark><i id=a>z</i>",
            "<audio controls aria-level=2>",
        ],
        "silent": ["<button aria-sort=none hidden>B</button>", "<p>x</p>"],
    },
    "674b10": {
        "passed": ["<div role=search>x</div>", "<div role='fancy note'>x</div>"],
        "failed": ["<div role=buton>x</div>", "<div role=widget>x</div>"],
        "silent": ["<div role=''>x</div>", "<div role=buton hidden>x</div>"],
    },
    "4e8ab6": {
        "passed": [
            "<div role=checkbox aria-checked=false></div>",
            "<div role=separator></div>",
            "<input type=checkbox role=switch>",
        ],
        "failed": [
            "<div role=checkbox></div>",
            "<div role=separator tabindex=0></div>",
            "<div role=combobox></div>",
            "<input role=combobox aria-expanded=true>",
        ],
        "silent": [
            "<input type=checkbox>",
            "<div role=slider hidden></div>",
            "<input type=checkbox role=checkbox>",
        ],
    },
    "in6db8": {
        "passed": ["<p id=a></p><div role=scrollbar aria-valuenow=1 aria-controls=a></div>"],
        "failed": ["<div role=scrollbar aria-valuenow=1 aria-controls=a></div>"],
        "silent": [
            "<input role=combobox aria-expanded=false aria-controls=a>",
            "<button aria-controls=a>x</button>",
        ],
    },
    "ff89c9": {
        "passed": [
            "<ul><div role=listitem>x</div></ul>",
            "<div role=menu><div role=group><div role=menuitem>x",
        ],
        "failed": ["<div role=listitem>x</div>", "<div role=list><div role=tabpanel><p role=listitem>x"],
        "silent": ["<ul><li>x</li></ul>", "<div role=listitem hidden>x</div>"],
    },
    "bc4a75": {
        "passed": [
            "<div role=list><p role=listitem>x",
            "<div role=tablist aria-owns=t></div><p id=t role=tab>x</p>",
        ],
        "failed": [
            "<div role=list><p>x</p></div>",
            "<div role=menu><p role=menuitem>x</p><a href=/>y</a></div>",
        ],
        "silent": [
            "<ul><p>x</p></ul>",
            "<div role=list aria-busy=true></div>",
            "<div role=list hidden></div>",
        ],
    },
    "307n5z": {
        "passed": ["<button>Send <b>now</b></button>"],
        "failed": ["<button>Send <a href=/>now</a></button>", "<div role=img aria-label=x><input></div>"],
        "silent": ["<a href=/>x</a>"],
    },
    "6cfa84": {
        "passed": [
            "<p aria-hidden=true>x</p>",
            "<p aria-hidden=true><button tabindex=-1>x</button></p>",
            "<p aria-hidden=true><input disabled></p>",
        ],
        "failed": ["<p aria-hidden=true><a href=/>x</a></p>", "<button aria-hidden=true>x</button>"],
        "cannot_tell": [
            "<p aria-hidden=true><a href=/ style='position:absolute;top:-999em'>x</a></p><script>1</script>"
        ],
        "silent": ["<p aria-hidden=false><button>x</button></p>"],
    },
    "list-children": {
        "passed": ["<ul><li>x</li></ul>", "<dl><dt>a</dt><dd>b</dd></dl>"],
        "failed": ["<ul><div>x</div></ul>", "<dl><p>x</p></dl>"],
        "silent": ["<ul role=none><div>x</div></ul>"],
    },
    "list-items": {
        "passed": ["<ol><li>x</li></ol>", "<dl><div><dt>a</dt><dd>b</dd></div></dl>"],
        "failed": ["<div><li>x</li></div>", "<dd>x</dd>"],
        "silent": ["<li role=note>x</li>"],
    },
    "hidden-page": {
        "passed": ["<body aria-hidden=false>x"],
        "failed": ["<body aria-hidden=true>x"],
        "silent": ["<body>x"],
    },
    "a25f45": {
        "passed": [GRID.format("<th id=h>Rate</th>", "<td headers=h>7 %</td>")],
        "failed": [
            GRID.format("<th>Rate</th>", "<td headers=none>7 %</td>"),
            GRID.format("<th id=c headers=c>Rate</th>", "<td>7 %</td>"),
            "<p id=h>x</p>" + GRID.format("<th>Rate</th>", "<td headers=h>7 %</td>"),
        ],
        "silent": [GRID.format("<th>Rate</th>", "<td>7 %</td>"), "<table role=none><tr><td headers=x>y"],
    },
    "d0f69e": {
        "passed": [
            GRID.format("<th>Name</th><th>Age</th>", "<th scope=row>Ann</th><td>7</td>"),
            "<div role=table><div role=row><p role=columnheader>A</p></div><div role=row><p role=cell>1</p></div></div>",
        ],
        "failed": [
            GRID.format("<th>Name</th><th>Age</th>", "<td>Ann</td>"),
            "<table><tr><th>Alone</th></tr></table>",
        ],
        "silent": ["<table role=none><tr><th>x</th></tr></table>", GRID.format("<td>a</td>", "<td>b</td>")],
        "cannot_tell": [
            "<table><thead><tr><th>Name</th></tr></thead><tbody></tbody></table><script>fill()</script>",
        ],
    },
    "table-headers": {
        "cannot_tell": [GRID.format("<td>a</td>", "<td>b</td>")],
        "silent": [GRID.format("<th>a</th>", "<td>b</td>"), "<table role=none><tr><td>a"],
    },
    "73f2c2": {
        "passed": [
            f"<input autocomplete='{value}'>"
            for value in ("email", "section-a shipping work tel", "name webauthn")
        ],
        "failed": [
            f"<input autocomplete='{value}'>" for value in ("fullname", "work name", "tel home", "name name")
        ],
        "silent": [
            "<input autocomplete=off>",
            "<input autocomplete=nope disabled>",
            "<input type=submit autocomplete=nope>",
        ],
    },
    "2ee8b8": {
        "passed": [
            "<button aria-label='Next page, 2 of 9'>Next page</button>",
            "<button aria-label=Close>X</button>",
        ],
        "failed": [
            "<button aria-label=Forward>Next page</button>",
            "<a href=/ aria-label='page next'>Next page</a>",
        ],
        "silent": [
            "<button>Next</button>",
            "<nav aria-label=Main>Pages</nav>",
            "<button aria-label=Find><img src=a.png alt=''></button>",
        ],
    },
    "cc0f0a": {
        "failed": [
            "<label>Field <input></label>",
            "<form><label>Name <input></label><label>Name <input></label></form>",
        ],
        "cannot_tell": [
            "<label>Name <input></label>",
            "<h2>Bill to</h2><label>Name <input></label><h2>Send to</h2><label>Name <input></label>",
        ],
        "silent": ["<input aria-label=Field>"],
    },
    "36b590": {
        "failed": ["<p class=error aria-hidden=true>Invalid age</p>"],
        "cannot_tell": ["<p class=error>Invalid age: enter a number</p>"],
        "silent": ["<p class=error></p>", "<p>Invalid age</p>"],
    },
    "aizyf1": {
        "passed": [
            "<a href=/>Start</a>",
            "<a href=/>Opening hours</a>",
            "<a href=/>Voir tout l'agenda</a>",
            "<a href=/>Leggi</a>",
        ],
        "failed": [
            *(
                "<a href=/>Read more</a>",
                "<a href=/>PDF</a>",
                "<a href=/>this offer</a>",
                "<a href=/>cliquez ici</a>",
            ),
            *(
                "<a href=/>Hier klicken</a>",
                "<a href=/>Haga clic aquí</a>",
                "<a href=/>Clicca qui</a>",
                "<a href=/>Saiba mais</a>",
            ),
        ],
        "silent": ["<a>More</a>", "<a href=/ hidden>More</a>"],
    },
    "5effbb": {
        "passed": [
            "<a href=/>Opening hours</a>",
            "<p>Our opening hours: <a href=/>more</a></p>",
            "<p id=d>Hours</p><a href=/ aria-describedby=d>more</a>",
            "<ul><li>Report<ul><li><a href=/>PDF</a></li></ul></li></ul>",
            GRID.format("<th>Report</th>", "<td><a href=/>PDF</a></td>"),
        ],
        "failed": [
            "<main><h1>News</h1><div><a href=/a>Read more</a></div></main>",
            "<a href=/>More</a>",
            "<p>Our hours.</p><p><a href=/>Click here</a></p>",
        ],
        "silent": ["<a>More</a>"],
        "cannot_tell": [
            "<div><h3>Budget</h3><a href=/a>Read more</a></div>",
            "<article><header><h2>Budget</h2></header><div><a href=/a>More</a></div></article>",
        ],
    },
    "b20e66": {
        "passed": [
            "<a href=/a>A</a><a href=/a/index.html>A</a>",
            "<a href=http://www.a.example/x/>A</a><a href=https://a.example/x>A</a>",
        ],
        "failed": [
            "<a href=#a>A</a><p id=a><a href=#b>A</a><p id=b>",
            "<a href=/a>A</a><p><a href=/b>A</a>",
        ],
        "cannot_tell": [
            "<a href=/a>A</a><a href='javascript:go()'>A</a>",
            "<a href=?p=1>A</a><p><a href=?p=2>A</a>",
        ],
        "silent": ["<a href=/a>A</a><a href=/b>B</a>"],
    },
    "fd3a94": {
        "passed": ["<p>Hours <a href=/a>here</a> or <a href=/a>here</a></p>"],
        "failed": [
            "<p>Hours <a href=#a>here</a> or <a href=#b>here</a></p>",
            "<p>Hours <a href=/a>here</a> or <a href=/b>here</a></p>",
        ],
        "cannot_tell": ["<p>Hours <a href=?p=1>here</a> or <a href=?p=2>here</a></p>"],
        "silent": [
            "<div><h3>Budget</h3><a href=/a>Read more</a></div><div><h3>Taxes</h3><a href=/b>Read more</a></div>",
            "<p>Hours <a href=/a>here</a></p><p>Prices <a href=/b>here</a></p>",
        ],
    },
    "4b1c6c": {
        "passed": ["<iframe title=A src=a></iframe><iframe title=a src=a></iframe>"],
        "failed": ["<iframe title=A src=a></iframe><iframe title=A src=b></iframe>"],
        "silent": ["<iframe title=A src=a></iframe><iframe title=B src=b></iframe>"],
    },
    "2779a5": {
        "passed": ["<title>Hours</title>", "<body><title>Hours</title>"],
        "failed": ["<p>x", "<title> </title>", "<svg><title>Sun</title></svg>"],
    },
    "c4a8a4": {
        "passed": ["<title>Opening hours</title><h1>Our hours</h1>"],
        "failed": ["<title>Untitled Document</title><p>Opening hours"],
        "cannot_tell": ["<title>Something else</title><p>Opening hours"],
        "silent": ["<title></title>"],
    },
    "bc659a": {
        "passed": ["<meta http-equiv=refresh content='0; url=/'>", "<meta http-equiv=refresh content=72001>"],
        "failed": ["<meta http-equiv=refresh content=30>", "<meta http-equiv=Refresh content='5; /a'>"],
        "silent": [
            "<meta http-equiv=refresh content='soon'>",
            "<meta name=refresh content=5>",
            "<meta http-equiv=refresh content='-5'>",
        ],
    },
    "bisz58": {
        "passed": ["<meta http-equiv=refresh content='0; url=/'>"],
        "failed": ["<meta http-equiv=refresh content=72001>"],
        "silent": ["<meta http-equiv=refresh content='5: /'>", "<p>"],
    },
    "b4f0c3": {
        "passed": [
            "<meta name=viewport content='user-scalable=yes'>",
            "<meta name=viewport content='maximum-scale=2'>",
            "<meta name=viewport content='maximum-scale=-1'>",
        ],
        "failed": [
            "<meta name=viewport content='user-scalable=no'>",
            "<meta name=viewport content='width=1, maximum-scale=1.9'>",
            "<meta name=viewport content='user-scalable=0.9'>",
        ],
        "silent": ["<meta name=viewport content='width=device-width'>", "<meta content='user-scalable=no'>"],
    },
    "b33eff": {
        "passed": ["<style>@media (orientation:portrait){body{transform:rotate(180deg)}}</style>x"],
        "failed": [
            "<style>@media (orientation:portrait){body{transform:rotate(90deg)}}</style>x",
            "<style>@media screen and (orientation:landscape){html{rotate:0.75turn}}</style>x",
            "<style>@media (orientation:landscape){body{transform:matrix(0,1,-1,0,0,0)}}</style>x",
        ],
        "silent": ["<style>body{transform:rotate(90deg)}</style>x"],
    },
    "b5c3f8": {
        "passed": ["<html lang=en>x"],
        "failed": ["<html>x", "<html lang=' '>x", "<html xml:lang=en>x"],
    },
    "bf051a": {
        "passed": ["<html lang=en-US>x", "<html lang=GSW>x", "<html lang=de_AT>x"],
        "failed": ["<html lang=english>x", "<html lang=eng>x", "<html lang=xy>x", "<html lang=i-lux>x"],
        "silent": ["<html>x", "<html lang=''>x"],
    },
    "5b7ae0": {
        "passed": ["<html lang=en xml:lang=en-GB>x"],
        "failed": ["<html lang=en xml:lang=fr>x"],
        "silent": ["<html lang=en>x"],
    },
    "ucwvc8": {
        "passed": [
            "<html lang=en><p>This is the page of the society and its members.",
            "<html lang=ja><p>これはペンです",
        ],
        "failed": [
            "<html lang=fr><p>This is the page of the society and its members.",
            "<html lang=en><p>Это страница нашего общества",
        ],
        "cannot_tell": ["<html lang=en><p>Okapi 7"],
        "silent": ["<html><p>This is the page", "<html lang=xy><p>This is the page"],
    },
    "de46e4": {
        "passed": ["<p lang=fr>Bonjour</p>", "<div lang=french><p lang=fr>Bonjour</p></div>"],
        "failed": [
            "<p lang=french>Bonjour</p>",
            "<p lang=' '>Bonjour</p>",
            "<div lang=xq><img src=a.png alt=Bonjour></div>",
        ],
        "silent": ["<p lang=''>Bonjour</p>", "<p lang=french></p>"],
    },
    "off6ek": {
        "passed": ["<p lang=de>Das ist nicht der Hund, den wir mit der Katze sehen.</p>"],
        "failed": ["<p lang=it>Das ist nicht der Hund, den wir mit der Katze sehen.</p>"],
        "cannot_tell": ["<p lang=it>Ciao!</p>"],
        "silent": ["<p>Das ist der Hund</p>"],
    },
    "cf77f2": {
        "passed": [
            "<a href=/>The only thing here</a>",
            "<p><a href=/a>Home</a></p><p><a href=/b>News</a></p>",
            "<nav>a</nav><main>b</main>",
            "<nav>a</nav><h1>b</h1>",
            "<a href=#c>Skip</a><nav>a</nav><p id=c>b",
            "<p>Only text</p>",
        ],
        "failed": ["<nav><a href=/>a</a></nav><p>b", "<a href=#gone>Skip</a><p>b"],
        "cannot_tell": ["<nav><a href=/>a</a></nav><p>b</p><script>1</script>"],
    },
    "click-reached": {
        "passed": [
            "<button onclick=go()>Buy</button>",
            "<div role=button tabindex=0 onclick=go()>Buy</div>",
            "<div role=tab tabindex=-1 onclick=go()>Buy</div>",
        ],
        "failed": [
            "<div onclick=go()>Buy</div>",
            "<div role=button onclick=go()>Buy</div>",
            "<a onclick=go()>Buy</a>",
            "<span onclick=go() onkeydown=go()>Buy</span>",
            "<table><tr><th>N</th></tr><tr onclick=go()><td>Row</td></tr></table>",
            "<img onclick=go() src=a.png alt=Buy><div onclick=go()><img src=a.png alt=Buy></div>",
        ],
        "cannot_tell": ["<div onclick=close()></div>", "<span role=link>Home</span>"],
        "silent": [
            "<div>Buy</div>",
            "<div onclick=go()><a href=/>Card</a></div>",
            "<button><span onclick=go()>Buy</span></button>",
            "<label onclick=go()>Name <input></label>",
            "<div onclick=go() hidden>Buy</div>",
            "<div role=button aria-disabled=true onclick=go()>Buy</div>",
        ],
    },
    "heading-levels": {
        "cannot_tell": ["<h1>a</h1><h3>b</h3>", "<h2>a</h2><div role=heading aria-level=4>b</div>"],
        "silent": ["<h1>a</h1><h2>b</h2><h3>c</h3><h2>d</h2>", "<h3>a</h3>", "<h1>a</h1><h3 hidden>b</h3>"],
    },
    "label-stays": {
        "cannot_tell": [
            "<input placeholder=Name>",
            "<input placeholder=Name aria-label=Name>",
            "<label for=a style='position:absolute;left:-999px'>Name</label><input id=a placeholder=Ann>",
        ],
        "silent": [
            "<label>Name <input placeholder=Ann></label>",
            "<p id=a>Name</p><input placeholder=Ann aria-labelledby=a>",
            "<input>",
            "<input placeholder=Name hidden>",
        ],
    },
    "afw4f7": {
        "passed": [
            "<style>font{color:#000}</style><font color=#ccc>A rule outweighs the attribute",
            "<p style='font-size:clamp(1rem,2vw,3rem);color:#555'>Of any size",
            "<style>.c{color:#000;&:hover{color:#ddd}}</style><p class=c>Only when pointed at",
            "<p>Black on white",
            "<p style='color:#767676'>Just enough",
            "<p style='color:#949494;font-size:24px'>Large",
            "<p style='color:#949494;font:bold 14pt serif'>Large and bold",
            "<div style='background:#000'><p style='color:rgba(255,255,255,.9)'>Light on dark",
            "<p style='color:#777;background:linear-gradient(#fff,#000)'>Somewhere enough",
        ],
        "failed": [
            "<body bgcolor=#000000 text=#333333><p>By attributes",
            "<font color=cccccc>By attribute",
            "<body link=#cccccc><p>a <a href=/>By attribute</a>",
            "<p style='color:oklch(80% 0 0)'>By another colour space",
            "<p style='color:#aaa;color:nonsense'>The last colour is none",
            "<link rel='alternate stylesheet' href=a.css><p style='color:#aaa'>The sheet is for a choice",
            "<link rel=stylesheet media=print href=a.css><p style='color:#aaa'>The sheet is for paper",
            "<p style='font-size:clamp(1rem,2vw,3rem);color:#ccc'>Of any size",
            "<p style='color:#777'>Not quite",
            "<p style='color:#949494;font-size:23px'>Not large",
            "<p style='color:#000;opacity:.4'>Faded",
            "<style>.a p{color:#aaa}</style><div class=a><p>From the sheet",
            "<p style='--c:#aaa;color:var(--c)'>By variable",
            "<div style='opacity:.5'><p style='color:#000;background:#888'>Faded together</p></div>",
        ],
        "cannot_tell": [
            "<p style='font-size:clamp(1rem,2vw,3rem);color:#888'>Perhaps large",
            "<body background=a.png><p style='color:#777'>On a picture",
            "<link rel=stylesheet media=print onload=\"this.media='all'\" href=a.css><p style='color:#777'>Perhaps styled",
            "<p style='color:#777;background:url(a.png)'>On a picture",
            "<p style='color:#777;text-shadow:0 0 3px #000'>With a shadow",
            "<p style='color:ButtonText'>By system",
            "<link rel=stylesheet href=a.css><p style='color:#777'>Perhaps styled",
            "<p style='color:#777;position:absolute'>Placed",
        ],
        "silent": [
            "<p style='color:#777' hidden>Not shown",
            "<button disabled style='color:#777'>Out of use</button>",
            "<p style='color:#777'>* - *",
            "<p style='color:#777;position:absolute;left:-9999px'>Away",
            "<label style='color:#777'>Out of use <input disabled></label>",
        ],
    },
    "09o5cg": {
        "passed": ["<p style='color:#595959'>Enough", "<p style='color:#767676;font-size:24px'>Large"],
        "failed": ["<p style='color:#666'>Not quite"],
        "silent": ["<p>"],
    },
    "24afc2": {
        "passed": [
            "<p style='letter-spacing:.12em!important'>x",
            "<p style='letter-spacing:.1em'>x",
            "<p style='letter-spacing:0!important'><span style='letter-spacing:.2em!important'>x</span></p>",
        ],
        "failed": [
            "<p style='letter-spacing:.1em !important'>x",
            "<p style='font-size:20px;letter-spacing:2px!important'>x",
        ],
        "silent": [
            "<p style='letter-spacing:0!important' hidden>x",
            "<p style='color:red'>x",
        ],
    },
    "9e45ec": {
        "passed": ["<p style='word-spacing:.16em!important'>x"],
        "failed": ["<p style='word-spacing:.15em!important'>x", "<p style='word-spacing:normal!important'>x"],
        "silent": ["<p>x"],
    },
    "78fd32": {
        "passed": [f"<p style='line-height:1.5!important'>{LONG}", f"<p style='line-height:1'>{LONG}"],
        "failed": [
            f"<p style='line-height:1.4!important'>{LONG}",
            f"<p style='line-height:120%!important'>{LONG}",
        ],
        "silent": ["<p style='line-height:1!important'>One line"],
    },
    "0ssw9k": {
        "passed": [f"<div tabindex=0 style='height:20px;width:90px;overflow:auto'>{LONG}</div>"],
        "failed": [f"<div style='height:20px;width:90px;overflow-y:scroll'>{LONG}</div>"],
        "cannot_tell": [f"<div style='overflow:auto'>{LONG}</div>"],
        "silent": [
            "<div style='height:200px;overflow:auto'>x</div>",
            f"<div style='height:20px;overflow:hidden'>{LONG}</div>",
        ],
    },
    "oj04fd": {
        "passed": ["<a href=/>x</a>", "<style>a{outline:0}a:focus{border:2px solid}</style><a href=/>x</a>"],
        "failed": [
            "<style>a:focus{outline:none}</style><a href=/>x</a>",
            "<a href=/ style='outline:0'>x</a>",
        ],
        "cannot_tell": ["<link rel=stylesheet href=a.css><a href=/>x</a>"],
        "silent": ["<a href=/ tabindex=-1>x</a>"],
    },
    "akn7bn": {
        "passed": ["<iframe tabindex=-1 srcdoc='<p>Text</p>'></iframe>"],
        "failed": ["<iframe tabindex=-1 srcdoc='<a href=/>Home</a>'></iframe>"],
        "cannot_tell": ["<iframe tabindex=-1 src=a></iframe>"],
        "silent": ["<iframe srcdoc='<a href=/>Home</a>'></iframe>"],
    },
    "efbfc7": {"failed": ["<marquee>News</marquee>", "<blink>New</blink>"], "silent": ["<p>News"]},
    "server-map": {
        "failed": ["<a href=/><img ismap src=a.png alt=Map></a>"],
        "silent": ["<img ismap src=a.png alt=Map>"],
    },
    "tab-order": {
        "cannot_tell": [
            "<input tabindex=5><button tabindex=4>Go</button>",
            "<a href=/>Home</a><input tabindex=1>",
            "<a href=/ tabindex=1>a</a><a href=/b tabindex=3>b</a><a href=/c tabindex=2>c</a>",
        ],
        "silent": [
            "<input tabindex=1><button tabindex=2>Go</button>",
            "<input tabindex=0><button>Go</button>",
            "<input tabindex=1><button>Go</button>",
            "<a href=/>Home</a><div tabindex=-1>x</div>",
            "<a href=/>Home</a><input tabindex=1 hidden>",
            "<p tabindex=x>a</p>",
        ],
    },
    "80af7b": {
        "failed": [
            "<button onblur='this.focus()'>x</button>",
            "<a href=/ onblur='later(() => e.target.focus())'>x</a>",
        ],
        "cannot_tell": [
            "<p onkeydown='out()'><button onblur='this.focus()'>x</button>",
            "<input onblur='focusOn(1)'>",
        ],
        "silent": ["<button>x</button>", "<p onblur='this.focus()'>x"],
    },
    "80f0bf": {
        "passed": ["<audio src=a.mp3 autoplay controls></audio>", "<audio src=a.mp3#t=1,3 autoplay></audio>"],
        "failed": ["<audio src=a.mp3 autoplay></audio>"],
        "cannot_tell": [
            "<video src=a.mp4 autoplay></video>",
            "<audio src=a.mp3 autoplay></audio><button>Stop</button>",
        ],
        "silent": ["<audio src=a.mp3 controls></audio>", "<video src=a.mp4 autoplay muted></video>"],
    },
    "film-stops": {
        "cannot_tell": [
            "<video src=a.mp4 autoplay></video>",
            "<video src=a.mp4 autoplay loop muted></video>",
            "<video autoplay><source src=a.mp4></video>",
        ],
        "silent": [
            "<video src=a.mp4 controls></video>",
            "<video src=a.mp4 autoplay controls></video>",
            "<video src=a.mp4 autoplay></video><button>Pause</button>",
            "<video src=a.mp4 autoplay hidden></video>",
            "<video autoplay></video>",
        ],
    },
    "e7aa44": {
        "cannot_tell": ["<audio src=a.mp3 controls></audio>"],
        "silent": ["<audio src=a.mp3></audio>"],
    },
    "c3232f": {
        "cannot_tell": ["<video src=a.mp4 controls></video>"],
        "silent": ["<video src=a.mp4 hidden controls></video>"],
    },
    "eac66b": {"cannot_tell": ["<video src=a.mp4 autoplay></video>"], "silent": ["<p>"]},
    "c5a4ea": {"cannot_tell": ["<video src=a.mp4 controls></video>"], "silent": ["<p>"]},
    "1ec09b": {"cannot_tell": ["<video src=a.mp4 controls></video>"], "silent": ["<p>"]},
}


@pytest.fixture(scope="module")
def verdicts():
    aria = read_aria(PLACE.joinpath("aria.json").read_bytes())
    languages = read_languages(
        PLACE.joinpath("languages.json").read_bytes(), PLACE.joinpath("words.json").read_bytes()
    )

    def ask(rule, html):
        examined = examine(html, aria, languages)
        return [finding for check in examined.checks if check.rule.id == rule for finding in check.findings]

    return ask


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_decides_our_own_cases(rule, verdicts):
    wrong = []
    for wanted, pages in CASES[rule].items():
        for html in pages:
            found = {finding.verdict for finding in verdicts(rule, html)}
            worst = next((one for one in ("failed", "cannot_tell", "passed") if one in found), "silent")
            if worst != wanted:
                wrong.append(f"{html}: {worst}, not {wanted}")
    assert not wrong, "\n".join(wrong)


def test_every_rule_has_cases_of_its_own():
    assert [rule.id for rule in RULES if rule.id not in CASES] == []
    for rule in RULES:
        assert "silent" in CASES[rule.id] or rule.id in {"2779a5", "b5c3f8", "cf77f2"}, rule.id
        assert ("failed" in CASES[rule.id]) is rule.decides, rule.id


def test_the_table_of_rules_is_complete():
    assert len({rule.id for rule in RULES}) == len(RULES)
    act = [rule for rule in RULES if rule.decides and len(rule.id) == 6]
    assert len(act) >= 40
    for rule in RULES:
        for said in (rule.name, rule.how, rule.fix):
            assert said.strip(), rule.id
            assert said[0].isupper() or said.startswith(
                ("lang", "autocomplete", "aria", "letter", "word", "line", "marquee")
            ), said
        assert rule.how.endswith("."), rule.id
        assert rule.fix.endswith("."), rule.id


def test_a_failure_says_what_is_wrong(verdicts):
    for rule, pages in CASES.items():
        for html in pages.get("failed", []) + pages.get("cannot_tell", []):
            for finding in verdicts(rule, html):
                assert finding.verdict == "passed" or finding.note.endswith("."), (rule, html, finding.note)


LOGOS = ("<img src=w3c-logo.png alt='ERCIM logo'>", "<img src=/a/w3c-logo.svg alt='Logo of ERCIM'>")
ONE_NAME = (
    "<a href=admissions.html>Contact us</a><p><a href=about/contact.html>Contact us</a>",
    "<a href=/a.html aria-label=Reviews>x</a><p><a href=/b.html aria-label=Reviews>y</a>",
    "<a href=/a.html><img src=x.png alt=Home></a><p><a href=/b.html>Home</a>",
    "<span role=link tabindex=0 onclick=\"location='a.html'\">Go on</span><p><span role=link tabindex=0 onclick=\"location='b.html'\">Go on</span>",
    "<a href=/order>Order</a><p><a href=https://other.example/order>Order</a>",
    "<svg><a href=/a><text>News</text></a><a href=/b><text>News</text></a></svg>",
    "<a href=/2023/report.pdf>Report</a><p><a href=/2024/report.pdf>Report</a>",
)
ONE_PLACE = (
    "<p>We are on <a href=/a>this site</a> and <a href=/b>this site</a>.</p>",
    "<ul><li>Book <a href=/a>here</a> or <a href=/b>here</a></li></ul>",
    "<table><tr><th>Hours<tr><td><a href=/a>Show</a> or <a href=/b>Show</a></table>",
    "<p><a href=/a.html title=Archive>See it</a> <a href=/b.html title=Archive>See it</a></p>",
    "<a href=/x aria-describedby=d>More</a><a href=/y aria-describedby=d>More</a><p id=d>Summer tours</p>",
    "<p>Tours: <a href=/a><img src=i.png alt=Map></a> <a href=/b>Map</a></p>",
    "<p>Ask <span role=link tabindex=0 onclick=\"location='a.html'\">us</span> or <span role=link tabindex=0 onclick=\"location='b.html'\">us</span></p>",
)


def test_links_of_one_name_and_logos_of_others_are_found(verdicts):
    cases = [("qt1vmo", one) for one in LOGOS] + [("b20e66", one) for one in ONE_NAME]
    cases += [("fd3a94", one) for one in ONE_PLACE]
    missed = [case for case in cases if not any(one.verdict == "failed" for one in verdicts(*case))]
    assert len(cases) - len(missed) >= 14, missed
