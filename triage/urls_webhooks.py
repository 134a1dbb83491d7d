"""URLs of webhooks."""

from django.urls import path

from triage.views import webhooks

urlpatterns = [
    path("webhooks/", webhooks.listing, name="webhooks"),
    path("webhooks/<int:pk>/", webhooks.webhook, name="webhook"),
    path("webhooks/<int:pk>/act/", webhooks.act, name="webhook-act"),
    path("webhooks/<int:pk>/deliveries/<uuid:delivery>/", webhooks.delivery, name="delivery"),
    path("webhooks/<int:pk>/deliveries/<uuid:delivery>/redeliver/", webhooks.redeliver, name="redeliver"),
]
