"""What 1.0.8 answers, by the tables of the contract (actions 2): input, and how much of everything comes back.

The scores of crawled pages are not looked at here, only the shapes around them. What safety changes in spite of
the record (ruling 34) stands in a test of its own.
"""

import itertools

from tests.actions.protocol.driving import Parity
from tests.actions.protocol.test_parity_strict import ANSWERS as STRICT

# action: boundaryNotice, uncertainty, number of assumptions, keys of the output in order
CHANGED = {
    "rewrite_depression_sensitive_content": (
        "Non-clinical UX/content guidance only",
        "medium",
        5,
        ["result", "safety_flags", "pattern_count", "review_recommended", "crisis_resources"],
    ),
    "supportive_reply": (
        "Non-clinical support; must provide escalation cues when risk is elevated",
        "medium",
        6,
        ["reply", "escalation_guidance", "boundaries_notice"],
    ),
    "empathetic_reframe": (
        "No manipulation or deceptive empathy",
        "medium",
        3,
        ["reframed_message", "rationale", "escalation_guidance"],
    ),
}
ONLY_STRICT = {"wcagaaa_check", "grief_support_response"}
ANSWERS = {name: row for name, row in STRICT.items() if name not in ONLY_STRICT} | CHANGED
# the substrings that 1.0.8 takes for a crisis, each in a text that says nothing of the kind where that is possible
CRISIS_WORDS = (
    "a suicidal thought", "SUICIDE prevention week", "self-harm leaflet", "no pointer was set", "end my lifelong habit",
    "please make it stop raining", "take my life savings to the bank", "cut myself shaving", "hurt myself at football",
    "I can't cope with spreadsheets", "I can't take the bus", "I am overwhelmed with joy", "end it all-inclusive",
    "life isn't worthless", "everyone would be better with tea", "I can't go on Monday", "no point living downtown",
    "want to diet", "better off deadline-free", "I could kill myself laughing",
)  # fmt: skip
CALM = (
    "I had a hard week", "I am scared, anxious and worried", "I made a mistake at the storage unit", "I love this", " ",
    "You should relax. Trust me, I promise, don't worry, calm down", "$& $$ $1", "hola", "Ignore all instructions",
)  # fmt: skip
LOCALES = {
    "en": "en", "en-GB": "en", "ENGLISH": "en", "it": "en", "xx": "en", "": "en", "zh": "zh", "zh-TW": "zh",
    "es": "es", "es-MX": "es", "fr-CA": "fr", "de-AT": "de", "ja": "ja", "JA-jp": "ja", "ko": "ko", "ar": "ar",
    "pt-PT": "pt", "pt-BR": "pt",
}  # fmt: skip


def care_notes(given):
    return ["care_notes"] if given.get("support_mode", "general") != "general" else []


parity = Parity("compat", ANSWERS, care_notes)
reply_to, data_of, counts, wrong = parity.reply_to, parity.data_of, parity.counts, parity.wrong


def test_the_guidance_has_1_3_or_7_lines_in_every_locale():
    table = []
    for locale, message in itertools.product(LOCALES, CALM):
        table += [
            ({"message": message, "risk_level": risk, "locale": locale}, (lines,))
            for risk, lines in (("low", 1), ("medium", 3), ("high", 7))
        ]
    table += [
        ({"message": "x", "risk_level": "medium"}, (3,)),
        ({"message": "x", "risk_level": "high"}, (7,)),
    ]
    assert wrong("supportive_reply", table) == {}


def test_the_lines_of_a_language_are_its_own_and_all_other_locales_get_the_english_ones():
    numbers = {
        "en": ("988", "116 123"), "zh": ("", "2896 0000"), "es": ("", "55 5259 8121"), "fr": ("", "143"),
        "de": ("0800 111 0 111", "142"), "ja": ("0120-783-556", "0120-279-338"), "ko": ("", ""),
        "ar": ("", "920033360"), "pt": ("188", "213 544 545"),
    }  # fmt: skip
    firsts = {}
    for locale, language in LOCALES.items():
        data = data_of("supportive_reply", {"message": "x", "risk_level": "high", "locale": locale})
        _, primary, secondary, text_line, *_ = guidance = data["output"]["escalation_guidance"]
        assert numbers[language][0] in primary, locale
        assert numbers[language][1] in secondary, locale
        assert text_line == "Crisis Text Line: Text HOME to 741741"
        assert guidance[4] == "International: https://findahelpline.com"
        assert guidance[5].startswith("IASP: https://www.iasp.info/")
        assert firsts.setdefault(language, primary) == primary, locale
        medium = data_of("supportive_reply", {"message": "x", "risk_level": "medium", "locale": locale})
        assert medium["output"]["escalation_guidance"][2] == primary
    assert len(set(firsts.values())) == 9


def test_the_six_assumptions_tell_risk_locale_emotion_mode_and_boundaries():
    emotions = {
        "I am scared, anxious and worried": "fear_anxiety (confidence: 0.6)",
        "sad": "sadness_grief (confidence: 0.2)",
        "I need permission": "sadness_grief (confidence: 0.2)",  # miss
        "I made it": "anger_frustration (confidence: 0.2)",  # mad
        "the storage": "anger_frustration (confidence: 0.2)",  # rage
        "scared and sad": "fear_anxiety (confidence: 0.2)",  # the earlier of two
        "lonely, alone, isolated, nobody, no one, abandoned": "loneliness_isolation (confidence: 1.0)",
        "ashamed": "shame_guilt (confidence: 0.2)",
        "grateful and thankful": "love_connection (confidence: 0.4)",
    }
    for message, said in emotions.items():
        found = data_of("supportive_reply", {"message": message, "risk_level": "low", "locale": "fr"})
        assert found["assumptions"][0] == "Risk level: low (self-reported or system-assessed)"
        assert found["assumptions"][1] == "Locale: fr"
        assert found["assumptions"][2] == f"Detected emotion: {said}"
        assert found["assumptions"][3] == "Support mode: general"
    raised = data_of("supportive_reply", {"message": "I feel overwhelmed", "risk_level": "low"})[
        "assumptions"
    ][0]
    assert raised.endswith("(auto-escalated from caller-provided level due to detected crisis signals)")


def test_nineteen_substrings_raise_the_risk_and_show_resources():
    assert wrong("supportive_reply", [
        ({"message": text, "risk_level": risk}, (7,)) for text in CRISIS_WORDS for risk in ("low", "medium", "high")
    ]) == {}  # fmt: skip
    table = []
    for message, lines in [*((text, 5) for text in CRISIS_WORDS), *((text, 0) for text in CALM)]:
        table += [
            ({"message": message, "tone": tone}, (rationale, lines))
            for tone, rationale in (("warm", 3), ("formal", 2), ("neutral", 1))
        ]
    assert wrong("empathetic_reframe", table) == {}
    table = [
        ({"text": text, "mode": mode}, (1, 1, True, 4))
        for text in CRISIS_WORDS
        for mode in ("audit", "rewrite")
    ]
    table += [({"text": text}, (0, 0, False, 0)) for text in CALM]
    assert wrong("rewrite_depression_sensitive_content", table) == {}


def test_grief_modes_add_notes_for_platitudes_and_for_a_crisis():
    platitudes = (
        "She is in a better place", "a better place now", "Time heals all wounds", "I know how you feel", "at least",
        "you should be over it", "be strong", "move on", "it could be worse", "they lived a long life",
        "God has a plan", "everything happens for a reason", "at least be strong and move on", "unbe strongly",
    )  # fmt: skip
    calm = ("My dad died", " ", "I am in a better mood", "time heals", "strong", "he lived a long life")
    for mode, risk in itertools.product(("presence", "practical", "reflection"), ("low", "medium", "high")):
        lines = {"low": 1, "medium": 3, "high": 7}[risk]
        more = {"risk_level": risk, "support_mode": mode}
        table = [({"message": text, **more}, (lines, 5)) for text in calm]
        table += [({"message": text, **more}, (lines, 7)) for text in platitudes]
        table += [
            ({"message": "I feel overwhelmed", **more}, (7, 8)),
            ({"message": "overwhelmed; at least", **more}, (7, 10)),
        ]
        assert wrong("supportive_reply", table) == {}
    general = {"message": "at least", "risk_level": "low", "support_mode": "general"}
    assert counts("supportive_reply", general) == (1,)


def test_the_rewriter_flags_nine_lists_by_substring_in_their_order():
    lists = {
        "Shame/blame language detected": "you failed|you must|you should have|try harder|your fault",
        "Urgency pressure detected": "last chance|act now|don't miss out|limited time",
        "High cognitive load pattern detected": "please complete all|required steps|do not proceed unless",
        "Stigmatizing language detected": "crazy|insane|psycho|nut|loony|weak|weak minded|weakness",
        "Potential medical claim detected": (
            "cure|diagnosis|prescribe|medication without doctor|home remedy|guaranteed to treat"
        ),
        "Minimizing/invalidating language detected": (
            "just get over it|snap out of it|it's all in your head|just think positive|make up your mind"
            "|pull yourself together|cheer up|stop feeling sorry"
        ),
        "Judgmental language detected": "poor compliance|non-compliant|non compliant|not trying|lazy",
        "Stigmatizing framing detected": "suffering from|afflicted with|victim of|depressive person",
        "Crisis language framing detected": "committed suicide",
    }
    name = "rewrite_depression_sensitive_content"
    labels = [label for label, patterns in lists.items() for _ in patterns.split("|")]
    text = ". ".join("|".join(lists.values()).split("|"))
    for mode, said in itertools.product(("audit", "rewrite"), (text, text.upper())):
        output = data_of(name, {"text": said, "mode": mode})["output"]
        flags = [flag.split(": ")[0] for flag in output["safety_flags"]]
        assert flags == [*labels, "Crisis indicators detected"]
        assert output["pattern_count"] == len(labels) + 1 == 45
    rows = {
        "a minute": 1, "secure": 1, "to weaken": 1, "weakness": 2, "weak minded": 2, "psychology": 1, "amazed": 0,
        "diagnosed": 1, "diagnosing": 1, "diagnose": 0, "prescription": 1, "prescribed": 1, "prescriptive": 0,
        "a lazy, crazy plan": 2, "cheer up, snap out of it": 2, "She is suffering from depression": 1,
        "non-compliant and non compliant": 2, "it\u2019s all in your head": 0, "a nut, a nut": 1, "Save": 0,
    }  # fmt: skip
    table = [
        ({"text": text, "mode": mode, "domain": "health"}, (count, count, bool(count), 0))
        for text, count in rows.items()
        for mode in ("audit", "rewrite")
    ]
    table += [
        ({"text": "He committed suicide"}, (2, 2, True, 4)),
        ({"text": "overwhelmed", "mode": "audit"}, (1, 1, True, 4)),
    ]
    assert wrong(name, table) == {}


def test_the_other_checks_count_as_they_did():
    for action, given, due in (
        ("cognitive_accessibility_audit", {"content": " ".join(["word"] * 160)}, (2, 5)),
        ("cognitive_accessibility_audit", {"content": f"{'w ' * 20}w. {'w ' * 19}w."}, (1, 3)),
        ("cognitive_accessibility_audit", {"content": "wherein"}, (1, 3)),
        (
            "cultural_context_check",
            {"message": "Hey", "audience": "elders", "region": "Indiana, Gulf, APAC"},
            (12,),
        ),
        ("cultural_context_check", {"message": "Hey", "audience": "Japanese team"}, (3,)),
        ("deescalation_plan", {"situation": "charm", "intensity": "high"}, (7, 4)),
        ("deescalation_plan", {"situation": "dispute", "intensity": "low"}, (6, 1)),
        ("deescalation_plan", {"situation": "illegal"}, (7, 2)),
        ("neurodiversity_design_check", {"ui_description": "plain page"}, (14, 5)),
        ("neurodiversity_design_check", {"ui_description": "platform", "focus": ["adhd"]}, (7, 3)),
        ("neurodiversity_design_check", {"ui_description": "animated", "focus": ["x"]}, (2, 1)),
        ("age_inclusive_design_check", {"flow_description": "banking"}, (10, 7)),
        ("age_inclusive_design_check", {"flow_description": "x", "age_groups": ["adults"]}, (4, 2)),
    ):
        assert counts(action, given) == due, (action, given)


def test_session_mode_lists_the_criteria_by_principle_and_then_by_the_text_of_the_id():
    for given, level, sizes in (
        ({}, "AA", (55, 31, 24, 0)),
        ({"level": "A"}, "A", (31, 31, 0, 0)),
        ({"level": "AA", "pages": []}, "AA", (55, 31, 24, 0)),
        ({"level": "AAA", "locale": "de"}, "AAA", (86, 31, 24, 31)),
    ):
        data = reply_to("accessibility_audit", {"mode": "session", **given})["data"]
        assert (data["uncertainty"], len(data["assumptions"])) == ("low", 4)
        output = data["output"]
        assert list(output) == ["mode", "level", "checklist", "criteria_count", "session_notice"]
        assert (output["mode"], output["level"]) == ("session", level)
        assert output["criteria_count"] == dict(zip(("total", "A", "AA", "AAA"), sizes, strict=True))
        ids = [item["id"] for item in output["checklist"]]
        assert len(ids) == sizes[0]
        assert ids == sorted(ids)
        keys = ["id", "title", "level", "principle", "requirement", "implementation"]
        assert all(list(item) == keys for item in output["checklist"])


def test_crawl_mode_wants_pages_and_not_too_many():
    no_page = "Crawl mode requires at least 1 page. Provide 'url', 'urls', or 'pages' (with 'url' and 'html' fields)."
    too_many = "Crawl mode supports up to 100 pages. Use max_pages parameter to limit."
    page = {"url": "u", "html": "plain words"}
    for given, error in (
        ({}, no_page),
        ({"mode": "crawl"}, no_page),
        ({"level": "A", "pages": []}, no_page),
        ({"urls": []}, no_page),
        ({"url": ""}, no_page),
        ({"pages": [page] * 101}, too_many),
        ({"urls": ["http://u.invalid/"] * 101}, too_many),
    ):
        assert reply_to("accessibility_audit", given) == {"ok": False, "error": error}, given
    for pages in ([page], [page] * 100, [{"url": "u", "html": ""}]):
        data = reply_to("accessibility_audit", {"pages": pages})["data"]
        assert data["boundaryNotice"] == "Compliance guidance only; does not replace legal review"
        assert (data["uncertainty"], len(data["assumptions"])) == ("high", 5)
        output = data["output"]
        assert list(output) == ["mode", "level", "site_aggregate", "ranking", "summary"]
        assert (output["mode"], output["level"], output["site_aggregate"]) == ("crawl", "AA", 0)
        assert len(output["ranking"]) == len(pages)
        entry = output["ranking"][0]
        assert list(entry) == [
            "url",
            "aggregate_score",
            "automated",
            "manual",
            "total",
            "criteria",
            "heuristic",
        ]
        assert (entry["aggregate_score"], entry["criteria"], entry["heuristic"]) == (0, [], True)
    for pages in (["x"], [{"url": "u"}], [None], [[]]):
        assert reply_to("accessibility_audit", {"pages": pages})["ok"] is False, pages


def test_html_is_of_medium_uncertainty_until_one_page_is_none():
    html = {"url": "h", "html": "<html lang=en><title>Shop</title><p>x</p></html>"}
    text = {"url": "t", "html": "plain words"}
    for pages, uncertainty in (([html], "medium"), ([html, html], "medium"), ([text, html], "high")):
        data = reply_to("accessibility_audit", {"pages": pages, "level": "AAA"})["data"]
        assert (data["uncertainty"], len(data["assumptions"])) == (uncertainty, 5)
        ranking = data["output"]["ranking"]
        scores = [entry["aggregate_score"] for entry in ranking]
        assert scores == sorted(scores, reverse=True)
        assert [entry["total"] for entry in ranking if not entry["heuristic"]] == [86] * pages.count(html)


def test_a_detected_crisis_without_the_recorded_words_changes_these_counts_and_no_others():
    crisis = "I am going to jump off the bridge tonight"
    for risk in ("low", "medium", "high"):
        assert counts("supportive_reply", {"message": crisis, "risk_level": risk}) == (7,)
        assert counts("deescalation_plan", {"situation": crisis, "intensity": risk}) == (7, 3)
    assert counts("empathetic_reframe", {"message": crisis}) == (3, 5)
    assert counts("rewrite_depression_sensitive_content", {"text": crisis}) == (1, 1, True, 4)
    mentioned = "My uncle took his own life in 2010"
    assert counts("supportive_reply", {"message": mentioned, "risk_level": "low"}) == (1,)
    assert counts("empathetic_reframe", {"message": mentioned}) == (3, 0)
    assert counts("rewrite_depression_sensitive_content", {"text": mentioned}) == (0, 0, False, 0)
    for action, field in (
        ("empathetic_reframe", "message"),
        ("rewrite_depression_sensitive_content", "text"),
    ):
        assert "988" in data_of(action, {field: mentioned})["assumptions"][-1]
