"""`ullage image`: the root filesystem that every environment runs from."""

from ullage.cli.image.commands import image_app as image_app
