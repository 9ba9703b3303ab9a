"""Danger said plainly in Spanish, in its regional and everyday wordings, is found by the rules alone, harmless neighbours not."""

from functools import cache
from importlib.resources import files

import pytest

from comity.skills.crisis import DATA, crisis_detector

STATEMENTS = [
    "Me voy a quitar la vida antes del 30, con la niña donde mi mamá.",
    "Prefiero morirme yo antes de que vengan por mí.",
    "Me quedan once años de condena y no pienso cumplirlos, antes me cuelgo.",
    "Le pido a Dios cada noche que me lleve.",
    "Le ruego a la Virgen que no me despierte mañana.",
    "Las voces llevan tres días repitiendo lo mismo, me dicen que me mate.",
    "La voz en mi cabeza me ordena que salte.",
    "Estoy parada en el borde del puente.",
    "Estoy sentado en las vías del tren, por donde no pasa gente.",
    "Abrí la ventana del octavo y aquí sigo sentado con las piernas afuera.",
    "Estoy del otro lado de la reja del balcón desde hace una hora.",
    "Me tomé dos cajas de paracetamol hace una hora.",
    "Acabo de tragarme un frasco entero y tengo sueño.",
    "me tome el veneno pa ratas y me arde todo",
    "Otra vez me estoy cortando los muslos.",
    "Dos años limpio de cortes y hoy otra vez.",
    "Tengo ideas de muerte todo el día.",
    "Ojalá mi mamá no me hubiera tenido.",
    "Muerto valgo más que vivo, con el seguro se pagan todas las deudas.",
    "A veces pienso que les haría un favor muriéndome.",
    "Dime un motivo para no tirarme, porque yo no lo encuentro.",
    "No le veo caso a seguir vivo.",
    "ya no kiero bibir nadie me kiere en mi kasa",
    "Te juro que si sigo así me termino colgando.",
    "La única salida que veo es la muerte.",
    "No puedo dejarlo ni quedarme, solo me queda morir.",
    "Tengo miedo de mí mismo, hay una escopeta en casa.",
    "Si mañana me la vuelven a dar, no respondo por lo que haga conmigo.",
    "Señor, en tus manos dejo a mi niño. Perdona lo que voy a hacer.",
    "Me cansé de vivir.",
    "No quiero vivir en este mundo ni un día más.",
    "Quiero estamparme con el coche contra un muro.",
]

NEIGHBOURS = [
    "Que Dios me lleve cuando quiera, digo yo a mis 90, pero antes que me deje ver el bautizo de mayo.",
    "Me lastimé el hombro en la obra y el patrón me dio la semana, ya casi levanto el brazo.",
    "De chamaca me cortaba las piernas y lo escondía. Hoy lo cuento en las secundarias, con shorts y sin pena.",
    "A los diecinueve intenté quitarme la vida. Hoy cumplo cuarenta.",
    "Le pido a Dios que me lleve con bien a casa.",
    "Mi entrenador me dice que salte más alto.",
    "Mi papá me golpeó y me fui de casa.",
    "El balón me golpeó en la cara.",
    "Se me quemó el arroz.",
    "Me he cortado pelando patatas.",
    "Llevo tres años limpia de cortes y estoy feliz.",
    "Ya no quiero vivir en Sevilla, hace mucho calor.",
    "Me cansé de vivir con mis padres.",
    "Ya no puedo más con las matemáticas.",
    "Quiero morirme de la vergüenza.",
    "Me quiero morir de risa con este video.",
    "No le deseo la muerte a nadie.",
    "Necesito cifras de suicidio por provincia para un informe.",
    "Tengo que hacer un trabajo sobre el suicidio en la literatura.",
    "Tengo un intento de suicidio en urgencias, manden ambulancia.",
    "Encontré cortes en los brazos de mi hija, ¿qué hago?",
    "Un señor de la residencia dice que ojalá no despierte.",
    "Quiero podar la rama muerta del limonero.",
    "Quiero visitar el Mar Muerto.",
    "Solo quiero dormir y no despertar hasta el lunes.",
    "Quiero desaparecer de esta fiesta.",
    "Queridos compañeros: hoy es mi último día. Gracias por todo.",
    "Mañana es mi último día al volante después de 34 años.",
    "Me dan ganas de tirarme al suelo a gritar.",
    "Si no hay entradas me tiro por la ventana (vivo en un bajo).",
    "Me voy a tirar toda la tarde en el sofá.",
    "Ojalá no me despierte el perro a las seis.",
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
