"""A person's own account in the browser: the second step switched on and used, the password changed; flow records."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import pytest
from allauth.mfa.totp.internal import auth as totp
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.conftest import Site
from tests.e2e.readable import check_readable

pytestmark = pytest.mark.e2e
FLOWS = "/jobs/sample-sigkill-rank5/logs/0/sigkill_rank5/flows.csv"


@pytest.fixture
def carol(site: Site) -> str:
    """The password of somebody whom no other test needs."""
    return site.people["carol"]


def sign_in(page: Page, password: str) -> None:
    page.goto("/sign-in/")
    page.fill("input[name=username]", "carol")
    page.fill("input[name=password]", password)
    page.click("button:has-text('Sign in')")


def sign_out(page: Page) -> None:
    page.click("summary[aria-label^='Account of']")
    page.click("button:has-text('Sign out')")
    page.wait_for_url("**/sign-in/")


def test_a_person_switches_the_second_step_on_uses_it_and_changes_the_password(
    carol: str, context_of: Callable[..., BrowserContext], photograph: Callable[[Page, str], None]
) -> None:
    page = context_of("", reduced_motion="reduce").new_page()
    page.goto("/sign-in/")
    check_readable(page)
    photograph(page, "sign-in")
    page.click("a:has-text('Forgot your password?')")
    check_readable(page)
    photograph(page, "password-forgotten")
    sign_in(page, carol)
    page.click("summary[aria-label^='Account of']")
    page.click("a:has-text('Second step at sign-in')")
    check_readable(page)
    photograph(page, "second-step")
    page.click("a:has-text('Switch on')")
    expect(page.locator("h1")).to_have_text("Is it you?")
    check_readable(page)
    photograph(page, "confirm")
    page.fill("input[name=password]", carol)
    page.click("button:has-text('Go on')")
    expect(page.locator("img.totp-code")).to_be_visible()
    page.wait_for_function("document.querySelector('img.totp-code').naturalWidth > 0")
    check_readable(page)
    photograph(page, "second-step-on")
    secret = page.locator("#totp-secret").input_value()
    step = int(time.time()) // 30 + 1  # the next one, which is valid for the longest time
    page.fill("input[name=code]", totp.format_hotp_value(totp.hotp_value(secret, step)))
    page.click("button:has-text('Switch on')")
    expect(page.locator(".recovery-codes li")).to_have_count(10)
    check_readable(page)
    photograph(page, "recovery-codes")
    recovery = page.locator(".recovery-codes code").first.inner_text()

    sign_out(page)
    page.go_back()  # what was read while signed in is not kept by the browser
    expect(page.locator("input[name=password]")).to_be_visible()
    sign_in(page, carol)
    expect(page.locator("h1")).to_have_text("Second step")
    check_readable(page)
    photograph(page, "code")
    page.fill("input[name=code]", "000000")
    page.click("button:has-text('Sign in')")
    expect(page.locator("[role=alert]")).to_contain_text("wrong or too old")
    page.fill("input[name=code]", recovery)
    page.click("button:has-text('Sign in')")
    expect(page.locator("h1").first).to_be_visible()

    page.goto("/account/password/")
    check_readable(page)
    photograph(page, "password")
    new = secrets.token_urlsafe(16)
    page.fill("input[name=oldpassword]", carol)
    page.fill("input[name=password1]", new)
    page.fill("input[name=password2]", new)
    page.check("input[name=revoke_tokens]")
    page.click("button:has-text('Change the password')")
    expect(page.locator("#toasts")).to_contain_text("The new password is set")
    photograph(page, "password-changed")


def test_flow_records_are_reached_from_the_files_page_and_readable(
    engineer: Page, samples_ready: None, photograph: Callable[[Page, str], None]
) -> None:
    engineer.goto("/jobs/sample-sigkill-rank5/files/?words=flows")
    engineer.click("a.mono:has-text('flows.csv')")
    engineer.wait_for_url(f"**{FLOWS}")
    expect(engineer.locator("h2:has-text('How it was read')")).to_be_visible()
    expect(engineer.locator("tbody tr")).to_have_count(200)
    address = engineer.locator("tbody tr").first.locator("td").nth(3).inner_text().rpartition(":")[0]
    engineer.fill("#who", address)
    engineer.click("button:has-text('Filter')")
    expect(engineer.locator(".pagination")).to_contain_text("records with")
    check_readable(engineer)  # filtered, it has the same form and fewer rows
    photograph(engineer, "flow-records")
