"""Bodies and headers that no browser sends: refused in our words, or taken as text; never a 500."""

from __future__ import annotations

import pytest

from tests.admin.kit.routes import COMMON, headers_of, logged_in, two_executors
from tests.admin.kit.served import GOOD_PASSWORD, Served, raw_answer
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.web.form_body import (
    MAX_FIELDS,
    NotText,
    multipart_fields,
    urlencoded_fields,
)

MULTIPART = "multipart/form-data; boundary=B"
NAMED = 'Content-Disposition: form-data; name="a"'


def part(value: bytes, *head: str) -> bytes:
    return b"--B\r\n" + "\r\n".join((*head, "", "")).encode() + value + b"\r\n"


def whole(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--B--\r\n"


def test_fields_are_read_as_browsers_write_them() -> None:
    assert urlencoded_fields("a=%E5%AE%A2+1&a=&b=客".encode()) == [
        ("a", "客 1"),
        ("a", ""),
        ("b", "客"),
    ]
    body = whole(
        part("客\r\n--A".encode(), NAMED),
        part(b"", 'content-disposition: form-data; name="x%22%0D%0Ay"'),
        part(b"1", NAMED, "Content-Type: text/plain; charset=utf-8"),
        part(b"rot13", 'Content-Disposition: form-data; name="_charset_"'),
    )
    expected = [("a", "客\r\n--A"), ('x"\r\ny', ""), ("a", "1"), ("_charset_", "rot13")]
    for content_type in (MULTIPART, 'multipart/form-data; charset=UTF-8; boundary="B"'):
        assert multipart_fields(body, content_type) == expected
    assert multipart_fields(b"--B--\r\n", MULTIPART) == []


BROKEN = {
    "no boundary": ("multipart/form-data", b""),
    "empty boundary": ("multipart/form-data; boundary=", b""),
    "a boundary that is no ASCII": ("multipart/form-data; boundary=é", b""),
    "no part": (MULTIPART, b"garbage"),
    "cut off": (MULTIPART, part(b"1", NAMED)),
    "no name": (MULTIPART, whole(b"--B\r\n\r\n1\r\n")),
    "no end of the head": (MULTIPART, whole(b"--B\r\n" + NAMED.encode())),
    "a flood of heads": (MULTIPART, whole(part(b"1", NAMED, *["X: y"] * 5_000))),
    "a long head": (MULTIPART, whole(part(b"1", NAMED, "X: " + "y" * 60_000))),
    "bytes that are no UTF-8": (MULTIPART, whole(part(b"\xff\xfe", NAMED))),
    "too many parts": (MULTIPART, whole(part(b"", NAMED) * (MAX_FIELDS + 1))),
}
NO_TEXT = {
    "a file": whole(part(b"1", NAMED + '; filename="b"')),
    "a charset": whole(part(b"1", NAMED, "Content-Type: text/plain; charset=rot13")),
    "parts within a part": whole(part(b"1", NAMED, "Content-Type: multipart/mixed")),
    "an encoding": whole(part(b"1", NAMED, "Content-Transfer-Encoding: base64")),
    "no header": whole(part(b"1", NAMED, "nothing")),
}
CHARSETS = (
    *("unicode_escape", "raw_unicode_escape", "rot13", "utf-7", "utf-16", "idna", "hex", "zlib"),
    *("undefined", "nope", "latin-1"),
)


@pytest.mark.parametrize("what", BROKEN)
async def test_a_broken_form_is_refused(site: Served, what: str) -> None:
    content_type, body = BROKEN[what]
    headers = {"Content-Type": content_type}
    async with site.client.post("/login", data=body, headers=headers) as response:
        assert response.status == 400, await response.text()


@pytest.mark.parametrize("what", NO_TEXT)
def test_a_part_that_is_no_text_is_told_apart(what: str) -> None:
    with pytest.raises(NotText):
        multipart_fields(NO_TEXT[what], MULTIPART)


@pytest.mark.parametrize("body", [b"a=%ff", b"a=\xff", b"a=%ed%a0%80", b"a&" * (MAX_FIELDS + 1)])
def test_an_encoded_form_is_utf_8_and_of_some_length(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        urlencoded_fields(body)


async def test_forms_are_utf_8_whatever_their_sender_calls_them(site: Served) -> None:
    for kind, body in (
        ("application/x-www-form-urlencoded", b"name=%5Cud800&password=\\N{"),
        (MULTIPART, whole(part(b"\\ud800", NAMED))),
    ):
        for charset in CHARSETS:
            headers = {"Content-Type": f"{kind}; charset={charset}"}
            async with site.client.post("/login", data=body, headers=headers) as response:
                assert response.status == 415, charset
        headers = {"Content-Type": f'{kind}; charset="UTF-8"'}
        async with site.client.post("/login", data=body, headers=headers) as response:
            assert response.status == 401  # read, and nobody is called so


async def test_a_browser_may_call_itself_what_it_likes(site: Served) -> None:
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    body = b"name=root&password=" + GOOD_PASSWORD.replace(" ", "+").encode()
    status, _ = await raw_answer(
        site.client,
        b"POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        b"User-Agent: Odd \xff\xfe\xed\xa0\x80\xe5\xae\xa2\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body),
    )
    assert status == 303
    async with site.client.get("/account", headers=headers) as response:
        assert "Odd ??" in await response.text()


@pytest.mark.parametrize("token", [b"Bearer \xff\xfe", "Bearer twt_é".encode(), b"\xff", b"Bearer"])
async def test_a_token_of_any_bytes_is_just_wrong(site: Served, token: bytes) -> None:
    for name, path in ((b"Authorization", b"/api/v1/jobs"), (b"Cookie", b"/jobs")):
        value = token if name == b"Authorization" else b"tickwheel_session=" + token
        status, text = await raw_answer(
            site.client,
            b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s: %s\r\n\r\n"
            % (path, name, value),
        )
        assert status == (401 if name == b"Authorization" else 303), text


@pytest.mark.parametrize(
    "date", ["x", "9999-12-31", "0001-01-01", "2026-02-30", "²", "9" * 20, "\0", "1969-12-31"]
)
async def test_a_date_that_is_none_is_said_to_be_none(site: Served, date: str) -> None:
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    executor = await site.services.executors.create(COMMAND_LINE, name="billing")
    raw = {
        "name": "a",
        "handler": "b",
        "triggers": [{"kind": "cron", "expression": "0 9 * * *", "timezone": "Asia/Shanghai"}],
    }
    job_id = await site.services.jobs.create(COMMAND_LINE, executor.id, raw)
    path = f"/jobs/{job_id}/dates"
    async with site.client.get(path, params={"date": date}, headers=headers) as response:
        assert response.status == 200
        assert 'class="error-text"' in await response.text()


async def test_a_place_before_the_first_revision_is_the_end_of_the_history(site: Served) -> None:
    own, _ = await two_executors(site)
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    path = f"/api/v1/jobs/{own['job_id']}/revisions"
    for cursor in ("WzFd", "WzBd"):  # [1], [0]
        async with site.client.get(f"{path}?cursor={cursor}", headers=headers) as response:
            assert (response.status, (await response.json())["items"]) == (200, [])


async def test_a_block_that_the_page_has_not_is_the_page(site: Served) -> None:
    await two_executors(site)
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    for block in (
        "nope",
        "main",
        "title",
        "body",
        "rows",
        "attention",
        "pause",
        "é",
        "",
        "x" * 5_000,
    ):
        asked = headers | {"X-Block": block}
        async with site.client.get("/", headers=asked) as response:
            assert response.status == 200, block


@pytest.mark.parametrize("number", ["9" * 25, "9" * 5_000, "²", "٣", "-1", "1e400"])
async def test_numbers_of_forms_that_are_none(site: Served, number: str) -> None:
    own, _ = await two_executors(site)
    headers = headers_of(await logged_in(site, "root", everywhere(Role.ADMIN)))
    for path, field in (
        (f"/jobs/{own['job_id']}/edit", "revision"),
        (f"/jobs/{own['job_id']}/edit", "retries"),
        ("/jobs/new", "retries"),
        (f"/calendars/{COMMON['calendar_id']}/edit", "version"),
    ):
        form = {"name": "a", "handler": "b", field: number}
        async with site.client.post(path, data=form, headers=headers) as response:
            assert response.status in (200, 409, 422), (path, field, response.status)
