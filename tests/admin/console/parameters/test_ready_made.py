"""Ready-made handlers in a form: their texts are translated, and the usual fields come first."""

from __future__ import annotations

from tickwheel_admin.console.parameters.first_fields import FIRST_FIELDS
from tickwheel_admin.console.parameters.form import parameter_form
from tickwheel_admin.console.parameters.ready_made_texts import READY_MADE_TEXTS
from tickwheel_admin.console.parameters.schema import parameters_of
from tickwheel_executor import Executor
from tickwheel_executor.offers.command import Command
from tickwheel_executor.offers.files import FileRoot, Files
from tickwheel_executor.offers.http import Http
from tickwheel_executor.offers.script import Script
from tickwheel_executor.offers.sql import Sql, SqlConnection


def test_what_ready_made_handlers_say_is_known_and_translated() -> None:
    executor = Executor(
        "machines",
        admins=["http://127.0.0.1:1"],
        token="t" * 40,
        offers=[
            Script(languages=("shell",)),
            Command(),
            Http(),
            Sql({"shop": SqlConnection(url="sqlite:////tmp/shop.db")}),
            Files({"exports": FileRoot("/tmp")}),
        ],
    )
    executor._handlers.close()
    said = set()
    for raw in executor._handlers.schemas.values():
        schema = bytes(raw).decode()
        taken = parameters_of(schema)
        assert taken is not None
        said |= {taken.description, *(each.description for each in taken.parameters)}

    assert said == set(READY_MADE_TEXTS)
    for handler, names in FIRST_FIELDS.items():
        schema = bytes(executor._handlers.schemas[handler]).decode()
        form = parameter_form(schema, "{}").of_handler(handler)
        assert [each.parameter.name for each in form.shown] == list(names)
        assert form.folded
