"""Tables of the triage layer: diagnoses, incidents, decisions of people, saved views, routes."""

from triage.models.account import InitialPassword
from triage.models.incident import Diagnosis, Finding, Group, GroupRule, Incident, Suspect
from triage.models.knowledge import ClassifierVersion, CustomRule
from triage.models.review import Activity, Decision
from triage.models.route import Delivery, Reference, Route
from triage.models.search import SearchEntry
from triage.models.view import SavedView

__all__ = [
    "Activity",
    "ClassifierVersion",
    "CustomRule",
    "Decision",
    "Delivery",
    "Diagnosis",
    "Finding",
    "Group",
    "GroupRule",
    "Incident",
    "InitialPassword",
    "Reference",
    "Route",
    "SavedView",
    "SearchEntry",
    "Suspect",
]
