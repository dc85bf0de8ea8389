"""The page as an ASGI app: HTML, JSON documents, and events while a job runs.

It asks the server as any other client does, with what the visitor brought, so that who may see what is
decided in one place: the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from roofline.joining import Access, CannotJoin, parse_token
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from .. import __version__
from ..api import Client
from ..channel import enrolled
from ..errors import ClientError, NotFound, Unreachable
from . import answers, documents, downloads
from .answers import AnswerWatch
from .asking import Asking, Busy
from .entry import Entry
from .job_list import JobList
from .live import Feeds, Found, Newest, Turns, Watch, merged
from .settled import Listed, Settled
from .shield import LOOPBACK, Shield
from .visitors import LONGEST_S, Visitors, cookie_of
from .watching import Chosen, JobState, LateWatch, RooflineWatch, StepsWatch, VerdictWatch

HERE = Path(__file__).parent
MEMBER = "a visitor of the live page"  # as `roofline-server token list` shows who has logged in
EVENTS_APART_S = 15  # a comment between events tells proxies and browsers that the page lives
WELCOME_S = 1.0  # so often it is looked whether who watches is still logged in
MOST_JOBS = 64  # of which something is known
# What is asked for first of a job; on opening it step times are, as nothing else is asked for yet.
URGENCY = {"verdict": 0, "roofline": 1, "late": 2, "steps": 3}
# So often at most: of many steps, verdict and roofline hardly move; a new step is to be seen soon.
LEAST_S = {"verdict": 5.0, "roofline": 2.0, "steps": 0.6}
Asked = tuple[Hashable, Watch]  # of a feed: what tells its subject from others, and who asks
T = TypeVar("T")
NO_NEWS: Mapping[str, Newest] = MappingProxyType({})


class Settings(NamedTuple):
    """Where the page asks, and who may look."""

    server: str  # HOST:PORT
    own: Access | None = None  # of the user who started it: who has the code asks with it
    code: str = ""  # secret that lets a browser in with `own`; "": there is none
    is_open: bool | None = False  # the server asks for nothing, so nobody logs in; None: not known yet
    hosts: Iterable[str] | None = LOOPBACK  # names by which browsers reach it


def create_app(settings: Settings) -> Shield:
    """The app. Closing it closes its connections."""
    return Shield(_Page(settings).app, settings.hosts)


class _Page:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._entry = Entry(settings.server, settings.is_open)
        self._visitors, self._feeds = Visitors(), Feeds()
        self._jobs: dict[tuple[Access | None, str], tuple[JobState, Turns]] = {}
        self._listed: OrderedDict[Access | None, Listed] = OrderedDict()
        self._asking = Asking(settings.server, settings.own)
        self._templates = Jinja2Templates(HERE / "templates")
        self._templates.env.globals["version"] = __version__
        routes = [
            Route("/", self._seen(self._html("jobs.html"))),
            Route("/job", self._seen(self._html("job.html"))),
            *(Route(f"/{name}", self._seen(self._answer(one))) for name, one in answers.ALL.items()),
            Route("/login", self._login_page),
            Route("/login", self._login, methods=["POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Route("/events/jobs", self._seen(self._job_events_of_list)),
            Route("/events/job", self._seen(self._job_events)),
            *(
                Route(f"/events/{name}", self._seen(self._answer_events(name)))
                for name, one in answers.ALL.items()
                if one.is_live
            ),
            Route("/download/{name}", self._seen(self._download)),
            Route("/api/v1/openapi.json", self._description),
            *(
                Route(f"/api/v1/{name}", self._seen(self._document(one)))
                for name, one in documents.ALL.items()
            ),
            Route("/static/plotly.js", _plotly),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]
        self.app = Starlette(
            routes=routes, lifespan=self._lifespan, exception_handlers={ClientError: self._refused}
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self._asking.close()

    # -- who looks ------------------------------------------------------------------------------------------

    def _seen(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Any]:
        """Only for those who are logged in; others are shown where."""

        async def checked(request: Request) -> Response:
            if self._visitors.knows(_session(request)):
                request.state.access = self._visitors.access(_session(request))
                return await handler(request)
            if await self._entry.lets_all_in():
                request.state.access = None
                return await handler(request)
            # Who asks for these takes what comes for the answer, also the page to log in at.
            if request.url.path.startswith(("/api/", "/events/", "/download/")):
                return JSONResponse({"error": "log in first: POST /login with a token"}, 401)
            return RedirectResponse("/login", 303)

        return checked

    async def _login_page(self, request: Request, problem: str = "", status: int = 200) -> Response:
        return self._templates.TemplateResponse(request, "login.html", {"problem": problem}, status)

    async def _login(self, request: Request) -> Response:
        async with request.form(max_fields=4) as form:
            token = str(form.get("token", "")).strip()
        code = self._settings.code
        access = None
        if not (code and secrets.compare_digest(token.encode(), code.encode())):
            try:
                parse_token(token)
                if not self._visitors.may_try(request.client.host if request.client else ""):
                    return await self._login_page(request, "too many tries; wait a minute", 429)
                access = await run_in_threadpool(_joined, self._settings.server, token)
            except CannotJoin as error:
                return await self._login_page(request, str(error), 403)
            if problem := await self._asking.works(access):
                return await self._login_page(request, problem, 403)
        response = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        name, session = cookie_of(request.headers.get("host", "")), self._visitors.open(access)
        response.set_cookie(name, session, httponly=True, samesite="strict", secure=secure, path="/")
        return response

    async def _logout(self, request: Request) -> Response:
        session = _session(request)
        access = self._visitors.access(session) if self._visitors.knows(session) else None
        self._visitors.close(session)
        self._forget(access)
        response = RedirectResponse("/login", 303)
        response.delete_cookie(cookie_of(request.headers.get("host", "")))
        return response

    def _forget(self, access: Access | None) -> None:
        """What was asked with it, and the connection: whoever brought it has left."""
        if access is None:
            return
        self._asking.forget(access)
        self._feeds.forget(access)
        self._listed.pop(access, None)
        for key in [key for key in self._jobs if key[0] == access]:
            del self._jobs[key]

    async def _while_welcome(self, request: Request, events: AsyncGenerator[T, None]) -> AsyncIterator[T]:
        """These events, until their visitor has logged out, or his session has ended."""
        session, access = _session(request), request.state.access
        following = asyncio.ensure_future(anext(events))
        try:
            while self._visitors.lasts(session) or await self._entry.lets_all_in():
                if (await asyncio.wait((following,), timeout=WELCOME_S))[0]:
                    yield following.result()
                    following = asyncio.ensure_future(anext(events))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await events.aclose()
            if not self._visitors.lasts(session):
                self._forget(access)

    # -- what is shown --------------------------------------------------------------------------------------

    def _html(self, template: str) -> Callable[[Request], Awaitable[Response]]:
        async def shown(request: Request) -> Response:
            words = {"job": request.query_params.get("job", ""), "may_leave": self._entry.has_login}
            return self._templates.TemplateResponse(request, template, words)

        return shown

    def _answer(self, one: answers.AnswerPage) -> Callable[[Request], Awaitable[Response]]:
        """The answer to what is asked for, above it the form to ask again."""

        async def shown(request: Request) -> Response:
            given = answers.given(one, request.query_params)
            answer, problem, status, title = answers.EMPTY, "", 200, one.title.format(**given)
            offered: dict[str, list[str]] = {}
            if one.fields:
                with contextlib.suppress(ClientError):
                    jobs = await self._asking.ask(request.state.access, lambda client: client.jobs())
                    offered = answers.offered(one.fields, jobs)
            if answers.is_complete(one, given):
                try:
                    answer = await self._asking.ask(
                        request.state.access, lambda client: one.ask(client, given)
                    )
                except ClientError as error:
                    problem, status = str(error), status_of(error)
            else:
                title = one.title.partition("{")[0].strip()
            events = f"/events{request.url.path}?{request.url.query}" if one.is_live and answer.html else ""
            words = {
                "title": title,
                "given": given,
                "fields": one.fields,
                "offered": offered,
                "hint": one.hint,
                "answer": answer.html,
                "pictures": json.dumps(answer.pictures, allow_nan=False) if answer.pictures else "",
                "events": events,
                "problem": problem,
            }
            may_leave = {"may_leave": self._entry.has_login}
            return self._templates.TemplateResponse(request, "answer.html", {**words, **may_leave}, status)

        return shown

    async def _job_events_of_list(self, request: Request) -> Response:
        return self._events(request, {"jobs": ((), JobList())})

    async def _job_events(self, request: Request) -> Response:
        chosen, access = Chosen.of(request.query_params), request.state.access
        state, turns = self._looked_at(access, chosen.job)
        watches: dict[str, Asked] = {"steps": (chosen.job, StepsWatch(chosen.job, state))}
        if chosen.steps or chosen.ranks:
            watches["late"] = chosen, LateWatch(chosen)
        chosen = chosen._replace(ranks="")  # a verdict is of all ranks
        watches["verdict"] = chosen, VerdictWatch(chosen, state)
        watches["roofline"] = chosen, RooflineWatch(chosen, state)
        listed = self._list_for(access)
        settled: dict[str, Asked] = {
            name: (subject, Settled(chosen.job, watch, listed)) for name, (subject, watch) in watches.items()
        }
        return self._events(request, settled, turns, {"steps": self._newest_of(chosen.job, access)})

    def _newest_of(self, job: str, access: Access | None) -> Newest:
        async def newest() -> int:
            with contextlib.suppress(ClientError):  # an earlier release, or it does not answer
                return await self._asking.ask(access, lambda client: client.newest(job))
            return 0

        return newest

    def _list_for(self, access: Access | None) -> Listed:
        found = self._listed.pop(access, None) or Listed()
        self._listed[access] = found
        while len(self._listed) > MOST_JOBS:
            self._listed.popitem(last=False)
        return found

    def _looked_at(self, access: Access | None, job: str) -> tuple[JobState, Turns]:
        """What all who look at a job with the same access have in common."""
        found = self._jobs.pop((access, job), None) or (JobState(), Turns())
        self._jobs[access, job] = found
        while len(self._jobs) > MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]
        return found

    def _answer_events(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def followed(request: Request) -> Response:
            given = answers.given(answers.ALL[name], request.query_params)
            watch = AnswerWatch(answers.ALL[name], given)
            return self._events(request, {name: (tuple(given.values()), watch)})

        return followed

    def _events(
        self,
        request: Request,
        watches: Mapping[str, Asked],
        turns: Turns | None = None,
        news: Mapping[str, Newest] = NO_NEWS,
    ) -> Response:
        access: Access | None = request.state.access

        def asking(name: str, watch: Watch) -> Callable[[], Awaitable[Found]]:
            return self._asking.again(access, partial(_timed, watch), turns, URGENCY.get(name, 0))

        # Nobody sees what another asked for.
        feeds = {
            name: self._feeds.feed(
                (name, subject, access), asking(name, watch), LEAST_S.get(name), news.get(name)
            )
            for name, (subject, watch) in watches.items()
        }
        return _stream(self._while_welcome(request, merged(feeds)))

    def _document(self, one: documents.Document) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            ask = one.question(dict(request.query_params))
            found = await self._asking.ask(request.state.access, ask)
            return Response(found, media_type="application/json")

        return answered

    async def _download(self, request: Request) -> Response:
        """A file to keep."""
        given = dict(request.query_params)
        one = downloads.ALL.get(request.path_params["name"])
        if one is None:
            return Response("there is no such file\n", 404, media_type="text/plain")
        found = await self._asking.ask(request.state.access, lambda client: one.make(client, given))
        name = downloads.file_name(request.path_params["name"], given)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(found, media_type=one.media_type, headers=headers)

    async def _description(self, request: Request) -> Response:
        return JSONResponse(documents.description())

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, ClientError)
        if request.url.path.startswith("/events/"):
            return _stream(_only(documents.problem(error)))
        return Response(documents.problem(error), status_of(error), media_type="application/json")


def _timed(watch: Watch, client: Client) -> Found:
    begin, before = time.monotonic(), client.spent_s
    shown, may_change = watch.look(client)
    share = client.granted_share
    # A server of an earlier release does not say what it took.
    spent_s = time.monotonic() - begin if share is None else client.spent_s - before
    return Found(shown, may_change, spent_s, share)


def _stream(shown: AsyncIterator[tuple[str, str]]) -> Response:
    """Events: what is shown, and which feed shows it as the event's id."""

    async def messages() -> AsyncIterator[dict[str, str]]:
        async for feed, data in shown:
            yield {"id": feed, "data": data}

    return EventSourceResponse(messages(), ping=EVENTS_APART_S, headers={"X-Accel-Buffering": "no"})


async def _only(shown: str) -> AsyncIterator[tuple[str, str]]:
    """This, and never an end: a browser asks again where a stream ends, and gives up where there is none."""
    yield "refused", shown
    await asyncio.Event().wait()


def _session(request: Request) -> str:
    """What the visitor's cookie says; "": there is none."""
    return request.cookies.get(cookie_of(request.headers.get("host", "")), "")


def _joined(server: str, token: str) -> Access:
    """Join as `roofline-client join` does, for this visitor alone. Raises CannotJoin."""
    return enrolled(server, token, MEMBER, LONGEST_S)[0]


def status_of(error: ClientError) -> int:
    """Status of HTTP for an error."""
    return 404 if isinstance(error, NotFound) else 503 if isinstance(error, (Unreachable, Busy)) else 400


async def _plotly(request: Request) -> Response:
    """From the installed package."""
    import plotly

    file = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    return FileResponse(file, media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})
