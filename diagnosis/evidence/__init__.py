"""The currency of the engine: what every kind of evidence produces, and the only thing that the conclusion reads.

========= ==========================================================================================================
word      meaning
========= ==========================================================================================================
place     a part of the job or the cluster: node, rank, device, port, link, switch
fact      what one report says of one place: property, value, line ("gpu-19 mlx5_2: rate 100")
finding   a claim with its place, moment, strength and evidence
========= ==========================================================================================================
"""

from diagnosis.evidence.claims import FINDING_KINDS, Finding
from diagnosis.evidence.facts import MAX_FACTS, Fact, number_of
from diagnosis.evidence.place_names import PLACE_KINDS, Place

__all__ = ["FINDING_KINDS", "MAX_FACTS", "PLACE_KINDS", "Fact", "Finding", "Place", "number_of"]
