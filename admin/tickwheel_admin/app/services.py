"""All use cases over a store."""

from __future__ import annotations

from tickwheel_admin.config import Config
from tickwheel_admin.domain.users.oidc import OidcSettings
from tickwheel_admin.services.alarms.alarms import Alarms
from tickwheel_admin.services.alarms.channels import AlarmChannels
from tickwheel_admin.services.alarms.deliveries import Deliveries
from tickwheel_admin.services.alarms.rules import AlarmRules
from tickwheel_admin.services.as_of.service import TimeMachine
from tickwheel_admin.services.as_of.why import WhyThen
from tickwheel_admin.services.backfills.service import Backfills
from tickwheel_admin.services.calendars.service import Calendars
from tickwheel_admin.services.delays.process import DelayProcesses
from tickwheel_admin.services.delays.service import Delays
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.events.relay import EventRelay
from tickwheel_admin.services.executors.nodes import Nodes
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.failures.failures import FailureGroups
from tickwheel_admin.services.forecast.plan import NightPlans
from tickwheel_admin.services.forecast.process import ForecastProcesses
from tickwheel_admin.services.forecast.service import Forecasts
from tickwheel_admin.services.gitops.service import GitOps
from tickwheel_admin.services.imports.importer import ForeignImports
from tickwheel_admin.services.jobs.bulk import JobBulk
from tickwheel_admin.services.jobs.creation import JobCreation
from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
from tickwheel_admin.services.jobs.history import JobHistory
from tickwheel_admin.services.jobs.kept_state import JobStates
from tickwheel_admin.services.jobs.maps import JobMaps
from tickwheel_admin.services.jobs.parents import JobParents
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.jobs.tries import ScriptTries
from tickwheel_admin.services.lists.saved_views import SavedViews
from tickwheel_admin.services.lists.suggestions import Suggestions
from tickwheel_admin.services.overview.attention.service import Attention
from tickwheel_admin.services.overview.list_counts import ListCounts
from tickwheel_admin.services.overview.service import Overview
from tickwheel_admin.services.overview.trends import TrendFigures
from tickwheel_admin.services.pools.service import Pools
from tickwheel_admin.services.proof.export import ProofExport
from tickwheel_admin.services.proof.keys import ProofKeys
from tickwheel_admin.services.proof.service import Proofs
from tickwheel_admin.services.runs.events import RunEventFeed
from tickwheel_admin.services.runs.purge import Purge
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.service import Secrets
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.system.audit import AuditLog
from tickwheel_admin.services.system.self_audit import SelfAuditLog
from tickwheel_admin.services.system.service import System
from tickwheel_admin.services.system.settings import Settings
from tickwheel_admin.services.triggers.service import Triggers
from tickwheel_admin.services.users.administration import UserAdministration
from tickwheel_admin.services.users.api_tokens import ApiTokens
from tickwheel_admin.services.users.logins import Logins
from tickwheel_admin.services.users.oidc.login import OidcLogin
from tickwheel_admin.services.users.own_account import OwnAccount
from tickwheel_admin.services.users.passwords import Passwords
from tickwheel_admin.services.workflows.answers import StepAnswers
from tickwheel_admin.services.workflows.interventions import StepInterventions
from tickwheel_admin.services.workflows.questions import StepQuestions
from tickwheel_admin.services.workflows.steps import WorkflowRuns
from tickwheel_admin.services.workflows.uses import WorkflowUses
from tickwheel_admin.services.xxl_job.imports.importer import Importer
from tickwheel_admin.services.xxl_job.service import XxlExecutors
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.web.i18n import LANGUAGES

SECRET_KEY_FILE = "secret.key"  # noqa: S105 - in `data_dir`


def create_cipher(config: Config) -> Cipher:
    """The keys of the configuration; the embedded database has one of its own beside it."""
    file = config.data_dir / SECRET_KEY_FILE if config.is_embedded else None
    return Cipher(config.secret_key, key_file=file)


def create_services(
    store: Store,
    *,
    ids: Ids | None = None,
    passwords: Passwords | None = None,
    oidc: OidcSettings | None = None,
    cipher: Cipher | None = None,
) -> Services:
    """The use cases over a store; tests pass cheaper password parameters."""
    ids, events = ids or Ids(store), Events()
    cipher = cipher or Cipher()
    proofs, proof_keys = Proofs(store), ProofKeys(store, ids, cipher)
    jobs, processes = Jobs(store, ids, events), ForecastProcesses()
    passwords = passwords or Passwords()
    logins = Logins(store, ids, events, passwords)
    return Services(
        store=store,
        ids=ids,
        events=events,
        relay=EventRelay(store, events),
        cipher=cipher,
        logins=logins,
        users=UserAdministration(store, ids, events, passwords),
        api_tokens=ApiTokens(store, ids, events),
        own_account=OwnAccount(store, ids, events),
        oidc=OidcLogin(store, ids, events, logins, oidc) if oidc else None,
        executors=Executors(store, ids, events),
        nodes=Nodes(store, ids, events),
        secrets=Secrets(store, ids, events, cipher),
        xxl_executors=XxlExecutors(store, ids, events, cipher),
        importer=Importer(store, ids, events, cipher),
        foreign_imports=ForeignImports(store, ids, events),
        jobs=jobs,
        job_bulk=JobBulk(store, ids, jobs),
        job_creation=JobCreation(store, ids, jobs, events),
        job_states=JobStates(store, ids, events),
        job_history=JobHistory(store, ids, events),
        script_tries=ScriptTries(store, ids, events),
        job_parents=JobParents(store),
        job_maps=JobMaps(store),
        declared_jobs=DeclaredJobs(store, ids, events),
        gitops=GitOps(store, ids, events, cipher, languages=tuple(LANGUAGES)),
        runs=Runs(store, ids, events),
        run_events=RunEventFeed(store, events),
        list_counts=ListCounts(store),
        saved_views=SavedViews(store, ids),
        suggestions=Suggestions(store),
        backfills=Backfills(store, ids, events),
        workflow_runs=WorkflowRuns(store),
        workflow_uses=WorkflowUses(store),
        step_answers=StepAnswers(store, ids, events),
        step_interventions=StepInterventions(store, ids, events),
        step_questions=StepQuestions(store),
        purge=Purge(store, ids, events),
        calendars=Calendars(store, ids, events),
        pools=Pools(store, ids, events),
        triggers=Triggers(store),
        delays=Delays(store, processes=DelayProcesses()),
        forecasts=Forecasts(store, jobs, processes=processes),
        night_plans=NightPlans(store, processes=processes),
        settings=Settings(store, ids),
        overview=Overview(store),
        trends=TrendFigures(store),
        attention=Attention(store),
        alarms=Alarms(store, ids, events),
        failures=FailureGroups(store, ids, events),
        alarm_rules=AlarmRules(store, ids, events),
        alarm_channels=AlarmChannels(store, ids, events, cipher, languages=tuple(LANGUAGES)),
        deliveries=Deliveries(store, ids, events),
        audit=AuditLog(store),
        self_audit=SelfAuditLog(store),
        time_machine=TimeMachine(store),
        why_then=WhyThen(store),
        proofs=proofs,
        proof_keys=proof_keys,
        proof_export=ProofExport(proofs, proof_keys),
        system=System(store, ids, events),
    )
