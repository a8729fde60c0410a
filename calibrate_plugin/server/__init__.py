"""Webhooks in; the live page and the API out."""
