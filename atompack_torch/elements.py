"""The symbols of the chemical elements."""

_PERIODS = """
H He
Li Be B C N O F Ne
Na Mg Al Si P S Cl Ar
K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr
Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe
Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn
Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og
"""

# By atomic number; X stands for what is no element.
SYMBOLS = ("X", *_PERIODS.split())


def symbol(number: int) -> str:
    """The symbol of an atomic number; ``Z200`` for one that no element has."""
    return SYMBOLS[number] if 0 <= number < len(SYMBOLS) else f"Z{number}"
