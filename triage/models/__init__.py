"""Tables of the triage layer: diagnoses, incidents, decisions of people, saved views, webhooks."""

from triage.models.incident import Diagnosis, Finding, Group, GroupRule, Incident, Suspect
from triage.models.knowledge import ClassifierVersion, CustomRule
from triage.models.review import Activity, Decision
from triage.models.search import SearchEntry
from triage.models.view import SavedView
from triage.models.webhook import Delivery, Webhook

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
    "SavedView",
    "SearchEntry",
    "Suspect",
    "Webhook",
]
