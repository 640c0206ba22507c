"""What is asked of a service again and again: the request as a plan has it."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StringConstraints, model_validator

from ullage.workloads.output import Echo
from ullage.workloads.web.open_loop import HttpReport, OpenLoopParameters

UrlPath = Annotated[str, StringConstraints(pattern=r"^/[!-~]*$", max_length=2000)]
HeaderName = Annotated[
    str, StringConstraints(pattern=r"^[0-9A-Za-z!#$%&'*+.^_`|~-]+$", max_length=200)
]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[!-~]([\t -~]*[!-~])?$", max_length=8000)]
ImageFile = Annotated[str, StringConstraints(pattern=r"^/[^\x00]+$", max_length=4000)]

_OURS: Final = frozenset(("connection", "content-length", "transfer-encoding"))
"""They say where the message ends, and whether the connection is kept."""


class RequestParameters(OpenLoopParameters):
    """The request that our generator makes, and of which status a good answer is."""

    path: UrlPath = Field("/", description="what is asked for")
    method: str = Field(
        "GET",
        pattern=r"^[A-Z][A-Z-]*$",
        max_length=40,
        description="of the requests: `GET`, `POST`, `PUT` …",
    )
    headers: dict[HeaderName, HeaderValue] = Field(
        {},
        max_length=64,
        description="of the requests: `{Content-Type: application/json}`; they are stored in the "
        "run folder, a password in them too",
    )
    body: str | None = Field(
        None,
        min_length=1,
        max_length=30_000,
        pattern=r"^[^\x00]*$",
        description="what each request sends, in UTF-8; no header is made up for it",
    )
    body_file: ImageFile | None = Field(
        None, description="the file with what each request sends, where the load comes from"
    )
    status: int = Field(
        200, ge=100, le=599, strict=True, description="of a good answer; another is an error"
    )

    @model_validator(mode="after")
    def _one_message(self) -> RequestParameters:
        if self.body is not None and self.body_file is not None:
            raise ValueError("either body or body_file")
        if self.method == "CONNECT":
            raise ValueError("after CONNECT no answers of HTTP follow")
        if ours := _OURS.intersection(map(str.lower, self.headers)):
            raise ValueError(f"the header {min(ours)} is set by what is sent, and by keep_alive")
        return self

    def request_arguments(self) -> list[str]:
        """As the client takes them."""
        argv = ["--status", str(self.status), "--method", self.method]
        return argv + ([] if self.body_file is None else ["--body-file", self.body_file])

    def header_variables(self) -> dict[str, str]:
        """In the environment: the process list, and the run's journal, show arguments."""
        lines = (f"{name}: {value}" for name, value in self.headers.items())
        return {f"ULLAGE_HEADER_{number}": line for number, line in enumerate(lines)}

    def request_variables(self) -> dict[str, str]:
        """The headers and the body."""
        body = {} if self.body is None else {"ULLAGE_BODY": self.body}
        return self.header_variables() | body

    def request_echoes(self, answers: HttpReport) -> list[Echo]:
        """What the client must say that it did."""
        echoes: list[Echo] = [
            ("status", self.status, answers.status),
            ("method", self.method, answers.method),
        ]
        if self.body_file is None:
            length = len((self.body or "").encode())
            echoes.append(("bytes of the body", length, answers.body_bytes))
        return echoes
