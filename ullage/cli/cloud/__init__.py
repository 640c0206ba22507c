"""`ullage cloud`: clouds that a plan may name."""

from ullage.cli.cloud.commands import cloud_app as cloud_app
