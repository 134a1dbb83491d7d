"""URLs of sign-in and of a person's account; allauth finds its views by these names."""

from allauth.account import views
from allauth.mfa.base import views as second_step
from allauth.mfa.recovery_codes import views as codes
from allauth.mfa.totp import views as totp
from django.contrib.auth.views import LogoutView
from django.urls import path

from triage import account_adapters
from triage.views.sessions import sessions

urlpatterns = [
    path("sign-in/", views.login, name="account_login"),
    path("sign-in/code/", second_step.authenticate, name="mfa_authenticate"),
    path("sign-in/forgotten/", views.password_reset, name="account_reset_password"),
    path("sign-in/forgotten/sent/", views.password_reset_done, name="account_reset_password_done"),
    path(
        "sign-in/new-password/<slug:uidb36>/<slug:key>/",
        views.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path("sign-in/new-password/done/", views.password_reset_from_key_done, name="account_reset_password_from_key_done"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
    path("account/password/", views.password_change, name="account_change_password"),
    path("account/password/none/", account_adapters.no_password, name="account_set_password"),
    path("account/sessions/", sessions, name="usersessions_list"),
    path("account/confirm/", views.reauthenticate, name="account_reauthenticate"),
    path("account/confirm/code/", second_step.reauthenticate, name="mfa_reauthenticate"),
    path("account/second-step/", account_adapters.SecondStepPage.as_view(), name="mfa_index"),
    path("account/second-step/on/", totp.activate_totp, name="mfa_activate_totp"),
    path("account/second-step/off/", totp.deactivate_totp, name="mfa_deactivate_totp"),
    path("account/second-step/codes/", codes.view_recovery_codes, name="mfa_view_recovery_codes"),
    path("account/second-step/codes/new/", codes.generate_recovery_codes, name="mfa_generate_recovery_codes"),
    path("account/second-step/codes/download/", codes.download_recovery_codes, name="mfa_download_recovery_codes"),
]
