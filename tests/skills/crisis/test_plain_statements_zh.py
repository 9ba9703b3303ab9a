"""Danger that is said plainly in Chinese is found by the rules alone, harmless neighbours are not."""

from functools import cache
from importlib.resources import files

import pytest

from comity.skills.crisis import DATA, crisis_detector

STATEMENTS = [
    "我又吞药了, 没跟任何人讲, 现在头很晕。",
    "一整瓶安眠药我刚才都吞了",
    "我把安眠药全吃了, 头开始晕",
    "刚才吞了三十颗安眠药",
    "农药已经喝了, 别救我",
    "截肢以后我成了废人, 趁护士换班, 我要从这窗户跳下去",
    "我决定明天从这座桥上跳下去",
    "我想從陽台跳下去, 一了百了",
    "我想杀了我自己, 真的撑不住了",
    "我要把自己解决掉",
    "我想拿槍對自己",
    "又被退稿又被退租, 我選擇死, 時間就定在午夜",
    "我打算这几天就死在这间公寓。",
    "只能拿命抵, 过完中秋就自杀。",
    "等女儿结婚了我就自杀",
    "別再給我排下周的班了, 下周世上就沒我這個人了。",
    "我的人生就到今晚为止吧",
    "别找, 我不会活着回来的。",
    "睡下去就不会再醒来了, 这样最好",
    "别叫救护车, 让我就这样睡过去吧。",
    "活着太痛了, 我不是威胁谁, 就是告诉你一声。",
    "我諗住今晚跳樓",
    "唔好再俾我醒返, 求下你",
    "我決定去死",
    "手臂上又多了三道, 停不下来",
    "拿着刀, 想往手腕上割",
]
NEIGHBOURS = [
    "这门课背得我想死, 期末求过",
    "加班加到想跳楼, 周末一定要睡够",
    "不要把端口写死, 放到配置里",
    "请提供死亡证明和户口本复印件",
    "本周心理健康课讲怎样识别同学的自杀信号, 请班主任们准时参加。",
    "站在天台上看烟花最好, 风大, 记得多穿点, 我带啤酒。",
    "站在桥上看风景的人, 真浪漫",
    "机器人老是撞墙, 传感器是不是坏了",
    "手表戴在手腕上有点松",
    "没能见到外婆最后一面, 很遗憾",
    "父親的後事都辦妥了, 謝謝各位親友, 我們一家會好好過下去。",
    "昨天地铁口有人要跳楼, 消防来得很快",
    "急诊收了个吃了一瓶药的小姑娘, 已经洗胃了",
    "大家再见了, 下学期见",
    "那几年天天想死, 后来换了城市换了工作, 现在连想都想不起来了。",
    "我演一具尸体, 今天躺了一下午",
    "感冒药都吃了还是没好",
    "把胶囊整个吞下, 不要咬碎",
    "世界上没有我不吃的东西",
    "写完作业我就跳绳",
    "这个版本什么时候结束生命周期?",
    "我们要求删除自杀镜头",
    "爷爷总说活够了, 其实天天去公园跳舞",
    "如果身边的人说不想活了, 请认真倾听",
    "桌上留了一封遗书, 所有人都有杀人动机, 等你来推理。",
    "考完了, 终于解脱了",
]


@cache
def detector():
    package = files("comity.skills")
    return crisis_detector({name: package.joinpath(name).read_bytes() for name in DATA})


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_of_danger_is_found(text):
    assert detector().detect(text).detected


@pytest.mark.parametrize("text", NEIGHBOURS)
def test_a_harmless_neighbour_is_not_found(text):
    assert not detector().detect(text).detected
