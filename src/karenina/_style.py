"""The colours of every figure."""

# Okabe and Ito (2008): told apart by colour-blind readers too.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
