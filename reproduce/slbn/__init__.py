"""SLBN: scalable max-min fair rates for explicit congestion control.

`exp_1a` to `exp_2b` are the paper's experiments; the other figures go beyond it.
"""

from netarium_papers import Paper

PAPER = Paper(
    "slbn",
    "SLBN: A Scalable Max-min Fair Algorithm for Rate-Based Explicit Congestion Control",
    "A. Mozo, J. L. López-Presa and A. Fernández Anta, IEEE NCA 2012",
    ("exp_1a", "exp_1b", "exp_2a", "exp_2b", "churn", "loss", "failure", "million", "state"),
)
# Protocols as in `control.protocol` of labs, and their names in print.
NAMES = {
    "slbn": "SLBN",
    "slbn-epochs": "SLBN with epochs",
    "bfyz": "BFYZ",
    "erica": "ERICA",
    "rcp": "RCP",
    "piqi-rcp": "PIQI-RCP",
    "cobb-gouda": "Cobb-Gouda",
    "b-neck": "B-Neck",
}
