# ruff: noqa: RUF001 -- the look-alikes are the subject
"""Characters that stand for one another: Latin look-alikes of Cyrillic and Greek, forms of Arabic letters,
traditional Chinese characters with their simplified forms (those that the lexicons use, both ways of writing).
"""

_CYRILLIC = "аaвbеeкkмmнhоoрpсcтtуyхxіiјjѕsԁdһhԛqԝwүyӏlєeґrзeьbпn"
_GREEK = "αaβbγyδdεeηnιiκkμuνvοoρpσoτtυuχxωwλl"
_LATIN = "ɑaɡgıiłløoɩiƙkʟlɴnʀrɪiᴏoѵvđdħhŧt"
_ARABIC = "ىيةهکكیيھهٱا"
_STOPS = "。.｡.؟?،,؛;、,"

_TRADITIONAL = (
    "殺杀沒没結结離离開开這这個个實实覺觉樓楼藥药義义還还們们說说話话後后會会讓让過过來来為为擔担負负別别無无絕绝傷伤續续"
    "長长時时間间對对愛爱誰谁見见產产遺遗書书準准備备輕轻輩辈頂顶買买繩绳燒烧嗎吗妳你斷断從从點点寫写淚泪壓压煩烦歲岁險险"
    "樂乐電电視视劇剧聞闻報报導导學学習习數数據据預预討讨論论睡睡醒醒價价値值應应該该儘尽儘尽畫画錯错難难關关係系聽听認认識识"
    "麼么甚什體体現现場场帶带給给當当經经歷历動动發发處处業业東东車车親亲邊边連连夠够強强復复嘗尝試试雙双燈灯線线樣样專专"
    "門门問问幫帮貓猫狗狗貢贡獻献總总終终於于盡尽裡里裏里紅红紙纸網网謝谢請请讀读誤误課课計计劃划練练團团國国際际頭头題题"
    "顧顾飛飞養养餘余驗验髮发鬆松麵面黃黄齊齐龍龙燙烫壞坏勵励敗败費费賣卖賴赖趕赶躍跃輛辆轉转辦办農农遠远適适選选"
)


def _pairs(letters: str) -> dict[str, str]:
    return {left: right for left, right in zip(letters[::2], letters[1::2], strict=True) if left != right}


LOOKALIKES = _pairs(_CYRILLIC + _GREEK + _LATIN + _ARABIC + _STOPS)
SIMPLIFIED = _pairs(_TRADITIONAL)
