"""Kinds of destinations: one small file each, one table. A kind writes a message and reads the answer, and sends
nothing itself: all requests go through ``triage.services.delivering``."""

from triage.destinations import (
    alertmanager,
    dingtalk,
    email,
    feishu,
    grafana,
    mattermost,
    pagerduty,
    slack,
    teams,
    tickets,
    webhook,
)
from triage.destinations.base import OPENING, Address, Destination, Field, Mail, Reading, Request

ALL = {
    kind.id: kind
    for kind in (
        slack.BOT,
        slack.SLACK,
        teams.DESTINATION,
        mattermost.DESTINATION,
        feishu.DESTINATION,
        dingtalk.DESTINATION,
        email.DESTINATION,
        pagerduty.DESTINATION,
        alertmanager.DESTINATION,
        grafana.DESTINATION,
        tickets.GITHUB,
        tickets.GITLAB,
        tickets.JIRA,
        webhook.DESTINATION,
    )
}

__all__ = ["ALL", "OPENING", "Address", "Destination", "Field", "Mail", "Reading", "Request"]
