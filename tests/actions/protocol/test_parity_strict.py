"""What 0.1.1 answers, by the tables of the contract (actions 2): input, and how much of everything comes back.

The reference matches inside words; the counts follow it wherever safety does not outrank them (ruling 34). The
exceptions stand in a test of their own, so that the list of them is complete and short.
"""

import itertools

from tests.actions.protocol.driving import Parity

# action: boundaryNotice, uncertainty, number of assumptions, keys of the output in order
ANSWERS = {
    "wcagaaa_check": (
        "Compliance guidance only; does not replace legal review",
        "medium",
        4,
        ["summary", "findings", "next_step"],
    ),
    "rewrite_depression_sensitive_content": (
        "Non-clinical UX/content guidance only",
        "medium",
        4,
        ["result", "safety_flags", "pattern_count", "review_recommended"],
    ),
    "supportive_reply": (
        "Non-clinical support; must provide escalation cues when risk is elevated",
        "medium",
        2,
        ["reply", "escalation_guidance", "boundaries_notice"],
    ),
    "cognitive_accessibility_audit": ("Design guidance only", "medium", 4, ["findings", "recommendations"]),
    "cultural_context_check": (
        "Context-sensitive recommendations with uncertainty disclosure",
        "high",
        4,
        ["adapted_message", "notes", "uncertainty"],
    ),
    "deescalation_plan": ("No coercive tactics", "medium", 3, ["plan", "risk_notes"]),
    "empathetic_reframe": (
        "No manipulation or deceptive empathy",
        "low",
        3,
        ["reframed_message", "rationale", "escalation_guidance"],
    ),
    "grief_support_response": (
        "Non-clinical bereavement support only",
        "medium",
        3,
        ["reply", "care_notes", "escalation_guidance"],
    ),
    "neurodiversity_design_check": (
        "Inclusive design guidance only",
        "medium",
        3,
        ["recommendations", "tradeoffs"],
    ),
    "age_inclusive_design_check": (
        "Inclusive design guidance only",
        "low",
        3,
        ["recommendations", "access_notes"],
    ),
}


parity = Parity("strict", ANSWERS)
data_of, counts, wrong = parity.data_of, parity.counts, parity.wrong


def test_the_old_audit_has_the_same_five_findings_for_every_target():
    for level, target in itertools.product(("A", "AA", "AAA"), ("https://example.com", " ", "<html></html>")):
        for context, said in ((None, "No additional context provided"), ("login", "Context: ")):
            more = {} if context is None else {"context": context}
            data = data_of("wcagaaa_check", {"target": target, "level": level, **more})
            severities = [finding["severity"] for finding in data["output"]["findings"]]
            assert severities == ["high", "high", "medium", "medium", "low"]
            assert [list(finding) for finding in data["output"]["findings"]] == [
                ["severity", "issue", "fix"]
            ] * 5
            assert data["assumptions"][0].startswith("Target: ")
            assert data["assumptions"][1] == f"Compliance level: WCAG 2.2 {level}"
            assert data["assumptions"][2].startswith(said)
            assert "40" in data["assumptions"][3]


def test_the_rewriter_flags_every_pattern_of_three_lists_once_and_in_their_order():
    lists = {
        "Shame/blame language detected": "you failed|you must|you should have|try harder|your fault",
        "Urgency pressure detected": "last chance|act now|don't miss out|limited time",
        "High cognitive load pattern detected": "please complete all|required steps|do not proceed unless",
    }
    due = [f'{label}: "{pattern}"' for label, patterns in lists.items() for pattern in patterns.split("|")]
    everything = ". ".join(pattern for patterns in lists.values() for pattern in patterns.split("|"))
    name = "rewrite_depression_sensitive_content"
    for mode in ("audit", "rewrite"):
        for text in (everything, everything.upper(), f"{everything} {everything}"):
            output = data_of(name, {"text": text, "mode": mode})["output"]
            assert output["safety_flags"] == due
            assert output["pattern_count"] == 12
            assert output["review_recommended"] is True
    table = [
        ({"text": "Please enter your name"}, (0, 0, False)),
        ({"text": " "}, (0, 0, False)),
        ({"text": "You need to pay", "domain": "billing", "mode": "audit"}, (0, 0, False)),
        ({"text": "You failed"}, (1, 1, True)),
        ({"text": "you failed, YOU FAILED"}, (1, 1, True)),
        ({"text": "react nowhere"}, (1, 1, True)),
        ({"text": "you mustard fan"}, (1, 1, True)),
        ({"text": "don\u2019t miss out"}, (0, 0, False)),
        ({"text": "act  now"}, (0, 0, False)),
        # flags that came later: stigma, medicine, minimizing, judgement, framing, suicide
        (
            {"text": "a lazy, crazy plan in a minute; cheer up, a secure cure, suffering from it"},
            (0, 0, False),
        ),
        ({"text": "He committed suicide"}, (0, 0, False)),
        ({"text": "I feel overwhelmed, I can't cope with spreadsheets"}, (0, 0, False)),
    ]
    assert wrong(name, table) == {}
    assumptions = data_of(name, {"text": "x", "mode": "audit", "domain": "billing"})["assumptions"]
    assert assumptions[:2] == ["Mode: audit", "Domain: billing"]
    assert data_of(name, {"text": "x"})["assumptions"][:2] == ["Mode: rewrite", "Domain: general"]


def test_the_reply_follows_the_risk_alone():
    low = ["Professional support is available any time you need it"]
    medium = [
        "If things feel harder over time, consider speaking with a mental health professional",
        "You can contact a support line any time, even just to talk",
    ]
    numbers = (
        "In the UK: Samaritans 116 123 | US: 988 Suicide & Crisis Lifeline | International: findahelpline.com"
    )
    replies = set()
    for message in (
        "I feel overwhelmed",
        "hola",
        " ",
        "I can't cope with spreadsheets",
        "I am sad and alone",
        "x" * 100_000,
    ):
        for more in ({}, {"locale": "es"}, {"locale": ""}, {"support_mode": 5}):
            found = {
                risk: data_of("supportive_reply", {"message": message, "risk_level": risk, **more})
                for risk in ("low", "medium", "high")
            }
            guidance = {risk: data["output"]["escalation_guidance"] for risk, data in found.items()}
            assert (guidance["low"], guidance["medium"]) == (low, medium)
            assert len(guidance["high"]) == 4
            assert guidance["high"][2] == numbers
            for risk, data in found.items():
                assert data["assumptions"][0] == f"Risk level: {risk} (self-reported or system-assessed)"
                assert data["output"]["boundaries_notice"] == ANSWERS["supportive_reply"][0]
                replies.add(data["output"]["reply"])
    (reply,) = replies
    assert reply.startswith("I hear you, and I am glad you reached out.")


def words(count, *ends):
    """So many words; a full stop behind those whose numbers are given."""
    return " ".join(f"word{'.' if at in ends else ''}" for at in range(1, count + 1))


def test_the_cognitive_audit_counts_words_sentences_and_legal_terms():
    table = [
        ({"content": "Short text."}, (1, 2)),
        ({"content": " "}, (1, 2)),
        ({"content": words(20)}, (1, 2)),
        ({"content": words(21)}, (1, 3)),
        ({"content": words(40, 20)}, (1, 2)),
        ({"content": words(41, 20)}, (1, 3)),  # 20.5 is rounded up
        ({"content": words(61, 20, 40)}, (1, 3)),  # 20.33 is not; the third line is about steps
        ({"content": words(50, 10, 20, 30, 40)}, (1, 2)),
        ({"content": words(51, 10, 20, 30, 40)}, (1, 3)),
        ({"content": "1. " + words(50, 10, 20, 30, 40)}, (1, 2)),
        ({"content": "v1.5 " + words(50, 10, 20, 30, 40)}, (1, 3)),
        ({"content": words(150, *range(10, 150, 10))}, (1, 3)),
        ({"content": words(151, *range(10, 150, 10))}, (1, 4)),
        ({"content": words(151)}, (2, 5)),
        ({"content": f"Herein {words(150)}"}, (3, 6)),
        ({"content": f"2. Herein {words(150)}"}, (3, 5)),
        ({"content": "Pursuant"}, (1, 3)),
        ({"content": "the room wherein we sit, THEREIN"}, (1, 3)),
        ({"content": "pursuant notwithstanding thereto heretofore aforementioned herein"}, (1, 3)),
        ({"content": "hereto, hereby, whereas"}, (1, 2)),
        ({"content": "a! b? c... " + words(18)}, (1, 2)),
        ({"content": "\ufeff".join(["word"] * 21)}, (1, 3)),  # white space is JavaScript's
        ({"content": "\x1c".join(["word"] * 21)}, (1, 2)),
        ({"content": "x", "target_context": "form"}, (1, 2)),
    ]
    assert wrong("cognitive_accessibility_audit", table) == {}


def test_the_cultural_check_adds_the_notes_of_every_place_in_the_region_and_of_age_in_the_audience():
    def row(region, audience, notes):
        return {"message": "Hey guys", "audience": audience, **({"region": region} if region else {})}, (
            notes,
        )

    asia = (
        "China",
        "mainland CHINA",
        "APAC",
        "Japan",
        "japanese islands",
        "Korea",
        "Koreatown",
        "China and Japan",
    )
    gulf = ("Middle East", "arabic speaking", "Gulf", "Gulf of Mexico", "the GULF, middle east")
    india = ("India", "Indiana", "Indianapolis", "South india")
    table = [row(region, "general", 4) for region in asia]
    table += [
        row(region, "general", 3) for region in (*gulf, *india, None, "", " ", "Europe", "Brazil", "global")
    ]
    table += [
        row(None, audience, 2)
        for audience in ("elder board", "Seniors", "older", "stakeholders", "Eldest elders")
    ]
    table += [
        row("Japan", "senior staff", 6),
        row("Gulf", "older people", 5),
        row("India", "elders", 5),
        row("India and China", "x", 7),
        row("Middle East and India", "x", 6),
        row("APAC, Gulf, India", "x", 10),
        row("APAC, Gulf, India", "elder", 12),
        row(None, "Japanese business team", 3),
        row("Europe", "team in India", 3),
        row("senior", "x", 3),
    ]
    assert wrong("cultural_context_check", table) == {}
    given = {"message": " Welcome ", "audience": " new staff ", "region": " Japan "}
    adapted = data_of("cultural_context_check", given)["output"]["adapted_message"]
    assert adapted == "[Adapted for new staff audience, Japan]: Welcome"
    adapted = data_of("cultural_context_check", {"message": "Welcome", "audience": "x"})["output"]
    assert adapted["adapted_message"] == "[Adapted for x audience, global]: Welcome"


def test_the_plan_follows_the_intensity_and_alerts_inside_words_too():
    calm = ("dispute", "a noisy neighbour", " ", "They shout")
    alarming = (
        "a THREAT",
        "legal action",
        "harm",
        "charm offensive",
        "pharmacy queue",
        "paralegal",
        "illegally parked",
    )
    table = []
    for situation, alert in [*((text, 0) for text in calm), *((text, 1) for text in alarming)]:
        table += [
            ({"situation": situation, "intensity": "low"}, (6, 1 + alert)),
            ({"situation": situation, "intensity": "medium"}, (7, 1 + alert)),
            ({"situation": situation, "intensity": "high"}, (7, 3 + alert)),
            ({"situation": situation}, (7, 1 + alert)),
        ]
    assert wrong("deescalation_plan", table) == {}
    for situation in alarming:
        notes = data_of("deescalation_plan", {"situation": situation})["output"]["risk_notes"]
        assert [note.startswith("ALERT:") for note in notes] == [False, True]


def test_the_tone_decides_the_rationale_and_four_substrings_the_guidance():
    alarming = (
        "The user mentioned suicidal thoughts", "SUICIDE prevention week", "He committed suicide", "a self-harm leaflet",
        "There is no point continuing", "no pointer was set", "It is to end my lifelong habit",
    )  # fmt: skip
    calm = (
        "We cannot refund you", "Hi, sorry, thanks you guys", " ", "a self harm leaflet", "I feel overwhelmed",
        "please make it stop raining", "cut myself shaving", "I can't cope with spreadsheets",
        "My uncle took his own life in 2010",
        "You failed. Unfortunately you must pay for your problem as per our policy. We don't care.",
    )  # fmt: skip
    table = []
    for message, guidance in [*((text, 3) for text in alarming), *((text, 0) for text in calm)]:
        table += [
            ({"message": message, "tone": tone}, (rationale, guidance))
            for tone, rationale in (("warm", 3), ("formal", 2), ("neutral", 1))
        ]
        table.append(({"message": message}, (3, guidance)))
    assert wrong("empathetic_reframe", table) == {}


def test_grief_has_five_notes_and_two_lines_whatever_is_said():
    for mode in ("presence", "practical", "reflection"):
        for message in (
            "My parent died",
            " ",
            "time heals all wounds, at least",
            "I feel overwhelmed",
            "x" * 9_999,
        ):
            assert counts("grief_support_response", {"message": message, "support_mode": mode}) == (5, 2)


def test_neurodiversity_takes_areas_from_the_focus_and_from_inside_the_words_of_the_description():
    recommendations = {"attention": 3, "sensory": 3, "reading": 4, "executive": 4}
    focus = {
        "adhd": "attention", "ADHD adults": "attention", "inattention": "attention", "autism": "sensory",
        "sensory overload": "sensory", "dyslexia": "reading", "proofreading": "reading",
        "executive function": "executive", "Memory": "executive",
    }  # fmt: skip
    keyword = {
        "notification": "attention", "ALERT": "attention", "animation": "sensory", "promotion": "sensory",
        "context": "reading", "fonts": "reading", "platform": "executive", "information": "executive",
        "stepper": "executive", "animated": None, "plain page": None, "attention": None, "memory": None,
    }  # fmt: skip

    def due(*areas):
        found = {area for area in areas if area}
        return (sum(recommendations[area] for area in found) or 2, len(found) + 1)

    table = [({"ui_description": "plain page"}, (14, 5)), ({"ui_description": " ", "focus": []}, (14, 5))]
    table += [({"ui_description": "plain", "focus": [term]}, due(area)) for term, area in focus.items()]
    table += [({"ui_description": word, "focus": ["zzz"]}, due(area)) for word, area in keyword.items()]
    table += [({"ui_description": word, "focus": [""]}, due(area)) for word, area in keyword.items()]
    for (term, one), (word, other) in itertools.product(focus.items(), keyword.items()):
        table.append(({"ui_description": f"A {word}", "focus": [term]}, due(one, other)))
    for one, other in itertools.combinations(focus, 2):
        table.append(({"ui_description": "plain", "focus": [one, other]}, due(focus[one], focus[other])))
    assert wrong("neurodiversity_design_check", table) == {}


def test_age_takes_groups_from_the_list_and_money_from_the_description():
    groups = {
        "older adults": "o", "Senior": "o", "elderly": "o", "60+": "o", "160": "o", "stakeholders": "o",
        "young": "y", "Children": "y", "teens": "y", "YOUTH": "y", "younger": "y", "adults": "", "": "", "kids": "",
        "65+": "", "older and young": "oy",
    }  # fmt: skip
    sizes = {"": (4, 2), "o": (5, 4), "y": (3, 4), "oy": (8, 6)}
    table = []
    for description, money in (
        ("account creation", 0),
        ("PAYMENT", 1),
        ("banking, financially", 1),
        ("pay", 0),
    ):
        more = (2 * money, money)
        cases = [(None, "oy"), ([], "oy"), *(([name], kind) for name, kind in groups.items())]
        cases += [(["adults", "teen"], "y"), (["senior", "child"], "oy"), (["kids", "adults"], "")]
        for named, kind in cases:
            given = {"flow_description": description, **({} if named is None else {"age_groups": named})}
            table.append((given, tuple(a + b for a, b in zip(sizes[kind], more, strict=True))))
    assert wrong("age_inclusive_design_check", table) == {}


def test_a_detected_crisis_changes_these_counts_and_no_others():
    crisis = "I want to kill myself tonight"
    for risk in ("low", "medium", "high"):
        assert counts("supportive_reply", {"message": crisis, "risk_level": risk}) == (4,)
        assert counts("deescalation_plan", {"situation": crisis, "intensity": risk}) == (7, 3)
    assert counts("empathetic_reframe", {"message": crisis}) == (3, 3)
    assert counts("rewrite_depression_sensitive_content", {"text": crisis}) == (1, 1, True)
    assert counts("grief_support_response", {"message": crisis, "support_mode": "presence"}) == (5, 4)
    assert counts("cognitive_accessibility_audit", {"content": crisis}) == (1, 2)
    assert counts("cultural_context_check", {"message": crisis, "audience": crisis}) == (3,)
    assert counts("neurodiversity_design_check", {"ui_description": crisis, "focus": [crisis]}) == (2, 1)
    assert counts("age_inclusive_design_check", {"flow_description": crisis, "age_groups": [crisis]}) == (
        4,
        2,
    )
