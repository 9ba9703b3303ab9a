from comity_skills.crisis import CrisisReport, Signal
from comity_skills.editing.edits import Rewrite
from comity_skills.editing.evidence import crisis_row, is_doubtful, uncertainty_of
from comity_skills.editing.rules import Finding

NOTHING = Rewrite(text="", edits=(), withdrawn=())


def finding(**changed):
    given = {
        "rule": "r",
        "category": "c",
        "severity": "high",
        "start": 0,
        "end": 1,
        "text": "x",
        "reason": "r",
    }
    return Finding(**{**given, **changed})


def test_uncertainty_follows_what_can_be_read():
    assert uncertainty_of("We cannot refund you for this order", doubtful=False) == "low"
    assert uncertainty_of("We cannot refund you for this order", doubtful=True) == "medium"
    assert uncertainty_of("Lo siento, no podemos devolver el dinero de su pedido", doubtful=False) == "high"
    assert uncertainty_of("\u6700\u8fd1\u538b\u529b\u5f88\u5927", doubtful=False) == "high"
    for short in (
        "Ich kann Ihnen leider nichts erstatten.",
        "Nous ne pouvons pas vous rembourser.",
        "We kunnen u niet terugbetalen.",
    ):
        assert uncertainty_of(short, doubtful=False) == "high", short
    assert uncertainty_of("", doubtful=False) == "medium"


def test_doubt_is_a_quotation_or_a_mild_finding_that_was_left():
    assert not is_doubtful([finding()], NOTHING)
    assert is_doubtful([finding(quoted=True)], NOTHING)
    assert is_doubtful([finding(severity="low")], NOTHING)


def test_a_report_is_told_with_its_signals():
    signal = Signal(category="ideation", severity="high", span=(2, 5), language="en")
    row = crisis_row(CrisisReport(detected=True, severity="high", signals=(signal,)))
    assert row["detected"] is True
    assert row["signals"][0]["span"] == [2, 5]
