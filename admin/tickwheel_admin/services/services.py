"""The use cases, as pages, endpoints and the command line find them."""

from __future__ import annotations

from dataclasses import dataclass

from tickwheel_admin.services.alarms.alarms import Alarms
from tickwheel_admin.services.alarms.channels import AlarmChannels
from tickwheel_admin.services.alarms.deliveries import Deliveries
from tickwheel_admin.services.alarms.rules import AlarmRules
from tickwheel_admin.services.as_of.service import TimeMachine
from tickwheel_admin.services.as_of.why import WhyThen
from tickwheel_admin.services.backfills.service import Backfills
from tickwheel_admin.services.calendars.service import Calendars
from tickwheel_admin.services.delays.service import Delays
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.events.relay import EventRelay
from tickwheel_admin.services.executors.nodes import Nodes
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.failures.failures import FailureGroups
from tickwheel_admin.services.forecast.plan import NightPlans
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
from tickwheel_admin.services.workflows.answers import StepAnswers
from tickwheel_admin.services.workflows.interventions import StepInterventions
from tickwheel_admin.services.workflows.questions import StepQuestions
from tickwheel_admin.services.workflows.steps import WorkflowRuns
from tickwheel_admin.services.workflows.uses import WorkflowUses
from tickwheel_admin.services.xxl_job.imports.importer import Importer
from tickwheel_admin.services.xxl_job.service import XxlExecutors
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The use cases and what they share; `app.create_services` makes them."""

    store: Store
    ids: Ids
    events: Events
    relay: EventRelay
    cipher: Cipher
    logins: Logins
    users: UserAdministration
    api_tokens: ApiTokens
    own_account: OwnAccount
    oidc: OidcLogin | None  # None: nobody logs in at a provider
    executors: Executors
    nodes: Nodes
    secrets: Secrets
    xxl_executors: XxlExecutors
    importer: Importer  # of XXL-JOB installations
    foreign_imports: ForeignImports  # of crontabs and other schedulers
    jobs: Jobs
    job_bulk: JobBulk
    job_creation: JobCreation
    job_states: JobStates
    job_history: JobHistory
    job_parents: JobParents
    job_maps: JobMaps
    script_tries: ScriptTries
    declared_jobs: DeclaredJobs
    gitops: GitOps
    backfills: Backfills
    workflow_runs: WorkflowRuns
    workflow_uses: WorkflowUses
    step_answers: StepAnswers
    step_interventions: StepInterventions
    step_questions: StepQuestions
    runs: Runs
    run_events: RunEventFeed
    list_counts: ListCounts
    saved_views: SavedViews
    suggestions: Suggestions
    purge: Purge
    calendars: Calendars
    pools: Pools
    triggers: Triggers
    forecasts: Forecasts
    delays: Delays
    night_plans: NightPlans
    settings: Settings
    overview: Overview
    trends: TrendFigures
    attention: Attention
    alarms: Alarms
    failures: FailureGroups
    alarm_rules: AlarmRules
    alarm_channels: AlarmChannels
    deliveries: Deliveries
    audit: AuditLog
    self_audit: SelfAuditLog
    time_machine: TimeMachine
    why_then: WhyThen
    proofs: Proofs
    proof_keys: ProofKeys
    proof_export: ProofExport
    system: System

    def close(self) -> None:
        """End the threads and the processes that they hold."""
        self.logins.close()
        self.calendars.close()
        self.forecasts.close()
        self.delays.close()
