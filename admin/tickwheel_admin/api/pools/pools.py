"""/api/v1/pools"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import NewVersionJson, PageJson, answer, instant, page_view
from tickwheel_admin.api.inputs import ID, PAGING, page_of, path_id, query_fields, taken_id
from tickwheel_admin.api.pools.shapes import NewPoolJson, PoolChangeJson, PoolDetailJson, PoolJson
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.pools.service import PoolDetail, PoolItem
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/pools"
_TEXT = text("text", "A part of the name, in any case.", max_chars=1_000)
_ONE = f"{_ALL}/{{pool_id:{ID}}}"


@routes.get(
    _ALL,
    permission=Permission.LOGGED_IN,
    api=True,
    query=(_TEXT, *PAGING),
    answers=PageJson[PoolJson],
)
async def list_pools(request: web.Request) -> web.Response:
    """A page of pools, by name."""
    fields = query_fields(request)
    found = _TEXT.of(fields)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].pools.page(
        actor_of(request), text=found[:200], cursor=cursor, limit=limit
    )
    return answer(page_view(page, pool_view))


@routes.post(
    _ALL,
    permission=Permission.DEVELOP,
    api=True,
    body=NewPoolJson,
    answers=NewVersionJson,
    status=201,
    conflicts=("pool.name_taken",),
)
async def create_pool(request: web.Request) -> web.Response:
    """Add a pool."""
    pools = request.app[SERVICES].pools
    pool_id = await pools.create(actor_of(request), await read_json(request))
    return answer({"id": pool_id, "version": 1}, status=201, location=f"{_ALL}/{pool_id}")


@routes.get(_ONE, permission=Permission.LOGGED_IN, api=True, answers=PoolDetailJson)
async def get_pool(request: web.Request) -> web.Response:
    """One pool, with who uses it."""
    detail = await request.app[SERVICES].pools.get(actor_of(request), path_id(request, "pool_id"))
    return answer(pool_detail_view(detail))


@routes.put(
    _ONE,
    permission=Permission.DEVELOP,
    api=True,
    body=PoolChangeJson,
    answers=NewVersionJson,
    conflicts=("pool.changed", "pool.in_use", "pool.name_taken"),
)
async def update_pool(request: web.Request) -> web.Response:
    """Change a pool."""
    pool_id = path_id(request, "pool_id")
    raw = await read_json(request)
    if "id" in raw and taken_id(raw, "id") != pool_id:
        fields = Fields({}, "", [])
        fields.refuse("id", "id.differs", "This differs from the id in the address.")
        raise_if_any(fields.problems)
    version = taken_id(raw, "version")
    version = await request.app[SERVICES].pools.update(
        actor_of(request), pool_id, raw, version=version
    )
    return answer({"id": pool_id, "version": version})


@routes.delete(
    _ONE, permission=Permission.DEVELOP, api=True, answers=NoContent, conflicts=("pool.in_use",)
)
async def delete_pool(request: web.Request) -> web.Response:
    """Delete a pool that no job names."""
    await request.app[SERVICES].pools.delete(actor_of(request), path_id(request, "pool_id"))
    return web.Response(status=204)


def pool_view(item: PoolItem) -> PoolJson:
    return {
        "id": item.pool.id,
        "version": item.pool.version,
        "executor": None if item.pool.is_of_installation else item.pool.executor_id,
        "name": item.pool.name,
        "description": item.pool.description,
        "slots": item.pool.slots,
        "executor_name": item.executor_name,
        "in_use": item.in_use,
        "waiting": item.waiting,
        "used_by_jobs": item.jobs,
        "created_at": instant(item.pool.created_at),
        "updated_at": instant(item.pool.updated_at),
    }


def pool_detail_view(detail: PoolDetail) -> PoolDetailJson:
    return {
        **pool_view(detail.item),
        "used_by": [
            {
                "job_id": user.job_id,
                "job_name": user.job_name,
                "executor_id": user.executor_id,
                "executor_name": user.executor_name,
                "is_step": user.is_hidden,
            }
            for user in detail.users
        ],
        "holders": [
            {
                "run_id": holder.run_id,
                "job_id": holder.job_id,
                "job_name": holder.job_name,
                "slots": holder.slots,
                "since": instant(holder.since),
            }
            for holder in detail.holders
        ],
    }
