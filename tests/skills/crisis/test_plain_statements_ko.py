"""Danger said in a Korean sentence or two is found by the rules alone, harmless neighbours are not."""

from functools import cache
from importlib.resources import files

import pytest

from comity.skills.crisis import DATA, crisis_detector

STATEMENTS = [
    "마 이제 고마 죽을랍니더. 누가 말려도 소용 없심더.",
    "팀장 괴롭힘에 이제 지쳤습니다. 출근 대신 자살을 택하겠습니다.",
    "요양원 안 갈 겁니다. 그 전에 내 손으로 내 목숨 정리할 작정이오.",
    "저 임용 여섯 번 떨어졌어요. 다음은 없고 오늘 죽는 것만 남았어요.",
    "몰카 퍼진 뒤로 밖에 못 나가요. 죽는 것만이 답이에요, 오늘 안에 끝내요.",
    "담뱃불로 지지는 거 오늘로 일곱 군데. 이거라도 안 하면 숨을 못 쉬겠어.",
    "살려달라는 말도 지쳤어요. 오늘 자정에 뛰어내려요. 층수는 말 안 할래요.",
    "친구도 없고 취업도 안 되고 서른다섯. 죽을 자리 보고 왔어요. 이번 주말입니다.",
    "외국인 노동자예요. 한국 사장 돈 안 줘요. 나 오늘 기숙사에서 죽어요. 엄마 미안.",
    "회사 옥상에 올라와 있습니다. 뛰어내리면 다 끝나겠죠.",
    "죽는 거 하나밖에 안 보여요",
    "내가 죽어야 끝나",
    "난간 위에 올라와 있어요",
    "유서를 써서 책상에 뒀어요",
    "수면제 서른 알 먹었어요",
    "농약을 마셨습니다",
    "목을 매려다 줄이 끊어졌어요",
    "허벅지를 또 그었어요",
    "머릿속에서 자꾸 뛰어내리라고 해",
    "환청이 죽으라고 시켜요",
    "먼저 간 남편 따라가려고 합니다",
    "차라리 그때 죽었어야 했는데",
    "내가 사라졌으면 좋겠어",
    "몇 알 먹으면 죽나요",
    "저 진짜 죽고 싶어요 이야기할 사람도 없어요",
    "죽고 싶다는 생각밖에 안 해요",
    "이대로 영원히 잠들고 싶어",
]

NEIGHBOURS = [
    "나 자살 생각 같은 거 전혀 없어. 그냥 바빠서 연락 늦은 거야, 주말에 보자.",
    "올해는 출장 때문에 벚꽃을 못 볼 것 같아요. 사진이라도 많이 보내줘요.",
    "산재 신청서에 자해 여부 묻는 칸이 있던데 사고면 아니오에 체크하면 되나요?",
    "혼자 해도 되나요?",
    "혼자 살고 싶어요. 독립하면 월세가 얼마나 들까요",
    "여행 떠나고 싶다",
    "칼국수 먹었어요",
    "예약하고 밥 먹었어요",
    "감기약 먹었어요",
    "아침에 일어나기 싫어요",
    "살 빼기 너무 힘들어",
    "이 가격엔 살 수 없어요",
    "지하철에서 할 거 추천",
    "한강에서 뛸 거야 10km",
    "옥상에 올라와서 별 보고 있어",
    "사유서 어떻게 써요?",
    "여드름이 사라졌으면 좋겠다",
    "전기세 때문에 못 살겠어요",
    "손목 흉터 치료 문의",
    "손목 그냥 삐끗한 건가요",
    "둘이 먹다 하나가 죽어도 모를 맛",
    "오늘 죽어라 공부했다",
    "엄마 암이 나았으면 좋겠어요",
    "강아지가 별이 되었어요",
    "먼 길을 와주셔서 감사합니다",
    "그 배우는 스스로 목숨을 끊었다",
    "다리 위에서 뛰어내리려던 시민을 경찰이 구했다",
    "주변에 죽고 싶다는 사람이 있으면 109에 전화하세요",
]


@cache
def detector():
    package = files("comity.skills")
    return crisis_detector({name: package.joinpath(name).read_bytes() for name in DATA})


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_plain_statement_is_found(text):
    assert detector().detect(text).detected


@pytest.mark.parametrize("text", NEIGHBOURS)
def test_a_harmless_neighbour_is_not(text):
    assert not detector().detect(text).detected
