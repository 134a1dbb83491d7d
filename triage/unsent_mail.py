"""What becomes of e-mails if no mail server is set: a line in the log that says so, without the text of the e-mail,
which may hold a link for a new password.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

log = logging.getLogger(__name__)


class Backend(BaseEmailBackend):
    """Sends nothing."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        for message in email_messages:
            log.warning("not sent, because FAULTLINE_SMTP_HOST is not set: the e-mail “%s”", message.subject)
        return 0
