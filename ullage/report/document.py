"""What every page is made with: style, scripts, their policy, and the one set-up of Jinja."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import ullage
from ullage.analysis.comparison.rounding import quantity
from ullage.common.files import cache_dir, put
from ullage.common.quantities import format_seconds
from ullage.common.text import clean
from ullage.report.charts import barrel, forest, theme
from ullage.report.views import Fact, Spec

PACKAGE: Final = "ullage.report"
LIBRARY: Final = "window.vegaEmbed = vegaEmbed"
"""What the bundle of Vega, Vega-Lite and Vega-Embed shows to the page."""


@dataclass(frozen=True)
class Assets:
    """Style and scripts of a page, the same for every run."""

    style: Markup
    library: Markup
    """Packed: base64 of zlib's."""
    script: Markup
    policy: str


@cache
def assets() -> Assets:
    """Of a page with charts. Vega runs with its expression interpreter, so not even it may make
    code from text.
    """
    library, script = _library(), template(PACKAGE, "page.js")
    packed = base64.b64encode(zlib.compress(library.encode(), 9)).decode()
    return Assets(style(), Markup(packed), Markup(script), policy(library, script))  # noqa: S704


def _library() -> str:
    """From the cache: to bundle it takes seconds of CPU time, whatever the run."""
    import vl_convert  # noqa: PLC0415  not every page has charts

    cached = cache_dir() / "pages" / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return cached.read_text(encoding="utf-8")
    library: str = vl_convert.javascript_bundle(LIBRARY)
    with suppress(OSError):  # a page needs no cache
        cached.parent.mkdir(parents=True, exist_ok=True)
        put(cached, library.encode())
    return library


def without_scripts() -> Assets:
    """Of a page of tables, text and plots in HTML."""
    return Assets(style(), Markup(), Markup(), policy())


def style() -> Markup:
    dark = f"{{:root{{{theme.css(theme.DARK)}}}}}"
    sheets = (
        f":root{{--font:{theme.FONT};{theme.css(theme.LIGHT)}}}",
        f"@media screen and (prefers-color-scheme:dark){dark}",
        template(PACKAGE, "style.css"),
        barrel.CSS,
        forest.CSS,
    )
    return Markup("\n".join(sheets))  # noqa: S704  our own


def policy(*scripts: str) -> str:
    """Only these scripts run, known by their digests, and nothing is fetched."""
    digests = "".join(f" 'sha256-{_digest(code)}'" for code in scripts)
    return (
        f"default-src 'none'; {f'script-src{digests}; ' if scripts else ''}"
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def template(package: str, name: str) -> str:
    """The text of a file in the package's folder `templates`."""
    return (files(package) / "templates" / name).read_text(encoding="utf-8")


@cache
def templates(package: str) -> Environment:
    """A package's own templates, and those that all pages share."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": format_seconds, "quantity": quantity}
    return environment


def _finalize(value: Any) -> Any:
    """Last guard: text that no builder has cleaned gets cleaned here; markup is ours."""
    return clean(value, 50_000) if type(value) is str else value


def render(
    package: str,
    name: str,
    title: str,
    facts: Sequence[Fact],
    specs: Sequence[Spec] = (),
    **parts: Any,
) -> str:
    """A page that extends `base.html.j2`; scripts are in it where it has charts (`specs`).

    `parts`: what else the template names.
    """
    page = {
        "title": clean(title, 120),
        "version": ullage.__version__,
        "assets": assets() if specs else without_scripts(),
        "facts": facts,
        "specs": specs,
        **parts,
    }
    return templates(package).get_template(name).render(page=page)
