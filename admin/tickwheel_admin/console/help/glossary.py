"""What other schedulers call things, and where they are here.

People who come from XXL-JOB or Quartz look for the words that they know. The command palette and
the help page find things by these; each leads to the page or the field that does it, for those who
may use that, and to its explanation for all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tickwheel_admin.console.frame.i18n import gettext
from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.users.user import Actor, Permission


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """One thing with all its names."""

    key: str  # part of the address of its explanation
    name: Word  # what it is called here
    what: Word  # one or two sentences
    xxl_job: tuple[str, ...] = ()  # in the console of XXL-JOB, Chinese and English
    quartz: tuple[str, ...] = ()  # in its API and its tables
    also: tuple[str, ...] = ()  # what else people may type
    href: str = ""  # where it is seen or chosen; "": it is explained only
    permission: Permission = Permission.VIEW  # what `href` needs, on any executor …
    on_all: bool = False  # … or on all of them
    document: str = ""  # file and heading, “docs/jobs.md#Retries”

    def is_open_to(self, actor: Actor) -> bool:
        """Whether somebody may use what `href` leads to."""
        allowed = actor.may if self.on_all else actor.may_anywhere
        return bool(self.href) and allowed(self.permission)

    def address(self, actor: Actor) -> str:
        """Where it leads somebody."""
        return self.href if self.is_open_to(actor) else f"/help#{self.key}"

    def found_by(self, text: str) -> str | None:
        """The name, in lower case, by which a text finds it; one that begins so goes first."""
        names = [name for name in self.names() if text in name.lower()]
        return min(names, key=lambda name: not name.lower().startswith(text), default=None)

    def names(self) -> Iterator[str]:
        """Every name, that of the reader's language first."""
        yield gettext(self.name)
        yield from (self.name, *self.xxl_job, *self.quartz, *self.also)


def search(actor: Actor, text: str, *, most: int) -> list[tuple[Concept, str]]:
    """The concepts that a text finds and the name that it found them by, the closest first."""
    text = " ".join(text.lower().split())
    if not text:
        return []
    found = [
        (concept, name) for concept in CONCEPTS if (name := concept.found_by(text)) is not None
    ]
    found.sort(key=lambda each: (each[1].lower() != text, not each[1].lower().startswith(text)))
    return found[:most]


_FORM = "/jobs/new"
CONCEPTS = (
    Concept(
        key="executor",
        name=Word("Executor"),
        what=Word("A service that can run jobs. It has a token, jobs, and any number of nodes."),
        xxl_job=("执行器", "执行器管理", "AppName", "Job group"),
        quartz=("SchedulerFactory",),
        also=("service", "服务", "应用"),
        href="/executors",
        document="docs/api.md#Executors",
    ),
    Concept(
        key="node",
        name=Word("Node"),
        what=Word("A running process of an executor. It registers by itself when it starts."),
        xxl_job=("注册节点", "机器地址", "OnLine 机器地址", "Registry address", "自动注册"),
        quartz=("Scheduler instance", "instanceId"),
        also=("worker", "节点"),
        href="/executors",
        document="docs/operations.md#Nodes",
    ),
    Concept(
        key="admin",
        name=Word("Admin"),
        what=Word("A server process. Several share one database, and all of them schedule."),
        xxl_job=("调度中心", "Admin"),
        quartz=("Clustered JobStore", "QRTZ_SCHEDULER_STATE"),
        also=("server", "scheduler", "leader"),
        href="/admins",
        document="docs/operations.md#Behind a reverse proxy",
    ),
    Concept(
        key="job",
        name=Word("Job"),
        what=Word("What runs: a handler of an executor with its parameters and rules."),
        xxl_job=("任务管理", "任务", "任务描述", "Job info"),
        quartz=("JobDetail", "JobKey", "QRTZ_JOB_DETAILS"),
        also=("task",),
        href="/jobs",
        document="docs/jobs.md#Fields of a job",
    ),
    Concept(
        key="trigger",
        name=Word("Trigger"),
        what=Word("When a job runs. A job has any number of them, of six kinds."),
        xxl_job=("调度类型", "调度配置", "Schedule type", "Schedule conf"),
        quartz=("Trigger", "CronTrigger", "SimpleTrigger", "TriggerBuilder", "QRTZ_TRIGGERS"),
        also=("schedule", "timer", "定时"),
        href=f"{_FORM}#when-fields",
        permission=Permission.DEVELOP,
        document="docs/schedules.md#Kinds of trigger",
    ),
    Concept(
        key="cron",
        name=Word("Cron"),
        what=Word("An expression in the dialect of unix, quartz (also that of XXL-JOB) or spring."),
        xxl_job=("CRON", "Cron 表达式"),
        quartz=("CronExpression", "CronScheduleBuilder"),
        also=("crontab",),
        href=f"{_FORM}#when-fields",
        permission=Permission.DEVELOP,
        document="docs/schedules.md#Cron dialects",
    ),
    Concept(
        key="fixed-rate",
        name=Word("Fixed rate"),
        what=Word("A trigger that fires every so often, however long its runs take."),
        xxl_job=("固定速度", "FIX_RATE"),
        quartz=("SimpleScheduleBuilder", "repeatInterval"),
        also=("@every", "interval"),
        href=f"{_FORM}#when-fields",
        permission=Permission.DEVELOP,
        document="docs/schedules.md#Kinds of trigger",
    ),
    Concept(
        key="fixed-delay",
        name=Word("Fixed delay"),
        what=Word("A trigger that fires some time after each of its runs has ended."),
        xxl_job=("固定延迟", "FIX_DELAY"),
        href=f"{_FORM}#when-fields",
        permission=Permission.DEVELOP,
        document="docs/schedules.md#Kinds of trigger",
    ),
    Concept(
        key="missed-fires",
        name=Word("Missed fires"),
        what=Word(
            "What becomes of fires that could not be planned in time: one run, none, or each."
            " Chosen at each trigger."
        ),
        xxl_job=("调度过期策略", "忽略", "立即执行一次", "Misfire strategy"),
        quartz=("misfire", "misfireInstruction", "misfireThreshold", "withMisfireHandling"),
        also=("catch up", "补跑", "错过"),
        href=f"{_FORM}#when-fields",
        permission=Permission.DEVELOP,
        document="docs/schedules.md#Missed fires",
    ),
    Concept(
        key="overlap",
        name=Word("If the one before still runs"),
        what=Word(
            "Whether a run that is due beside an earlier one waits, is skipped, replaces it, or"
            " runs side by side with it. It holds across all nodes."
        ),
        xxl_job=(
            "阻塞处理策略",
            "单机串行",
            "丢弃后续调度",
            "覆盖之前调度",
            "Block strategy",
            "Serial execution",
            "Discard Later",
            "Cover Early",
        ),
        quartz=("DisallowConcurrentExecution", "StatefulJob"),
        also=("concurrency", "overlap", "singleton", "并发", "重叠"),
        href=f"{_FORM}#overlap-fields",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#Overlapping runs",
    ),
    Concept(
        key="routing",
        name=Word("Routing"),
        what=Word("Which node gets a run: a strategy, and labels of nodes."),
        xxl_job=(
            "路由策略",
            "第一个",
            "最后一个",
            "轮询",
            "随机",
            "一致性HASH",
            "最不经常使用",
            "最近最久未使用",
            "故障转移",
            "忙碌转移",
            "Route strategy",
            "Failover",
            "Busyover",
        ),
        also=("load balancing", "负载均衡"),
        href=f"{_FORM}#where-fields",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#Which node",
    ),
    Concept(
        key="shards",
        name=Word("Shards"),
        what=Word("One fire as many runs side by side, each with its own part of the work."),
        xxl_job=("分片广播", "分片参数", "Sharding broadcast", "shardIndex", "shardTotal"),
        also=("map reduce", "partition", "分片"),
        href=f"{_FORM}#where-fields",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#Shards",
    ),
    Concept(
        key="children",
        name=Word("What runs afterwards"),
        what=Word("Jobs that run when a run of this one has ended: their results are passed on."),
        xxl_job=("子任务", "子任务ID", "Child JobId"),
        quartz=("JobChainingJobListener", "JobListener"),
        also=("dependency", "workflow", "chain", "依赖"),
        href=f"{_FORM}#child-rows",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#Children",
    ),
    Concept(
        key="retries",
        name=Word("Retries"),
        what=Word("Further tries of a run that failed, with a wait that grows."),
        xxl_job=("失败重试次数", "Fail retry count"),
        quartz=("JobExecutionException", "refireImmediately", "requestRecovery"),
        also=("backoff",),
        href=f"{_FORM}#f-retries",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#Retries",
    ),
    Concept(
        key="timeout",
        name=Word("Timeout"),
        what=Word("How long a run may take before its node ends it."),
        xxl_job=("任务超时时间", "Job timeout"),
        quartz=("InterruptableJob",),
        href=f"{_FORM}#wrong-fields",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#Timeout",
    ),
    Concept(
        key="handler",
        name=Word("Handler"),
        what=Word(
            "The function of an executor that a job calls. Its code is kept in your repository;"
            " scripts, called GLUE in XXL-JOB, are kept with their jobs."
        ),
        xxl_job=(
            "JobHandler",
            "运行模式",
            "BEAN 模式",
            "GLUE",
            "GLUE IDE",
            "GLUE(Java)",
            "GLUE(Shell)",
        ),
        quartz=("Job class", "Job.execute", "JobFactory"),
        also=("function", "script", "脚本"),
        href=f"{_FORM}#f-handler",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#What a handler takes",
    ),
    Concept(
        key="parameters",
        name=Word("Parameters"),
        what=Word("What a run is given: those of the job, of the trigger over them, and its own."),
        xxl_job=("任务参数", "执行参数", "Job param", "executorParam"),
        quartz=("JobDataMap", "MergedJobDataMap"),
        also=("arguments", "payload"),
        href=f"{_FORM}#parameters-field",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#What a handler takes",
    ),
    Concept(
        key="secret",
        name=Word("Secret"),
        what=Word(
            "A password or key of an executor. Parameters name it as ${secret.NAME}; its value goes"
            " to the executor's nodes only, and is hidden in what runs write."
        ),
        also=("password", "credentials", "API key", "密码", "密钥"),
        href="/executors",
        permission=Permission.DEVELOP,
        document="docs/secrets.md#Setting secrets",
    ),
    Concept(
        key="run",
        name=Word("Run"),
        what=Word("One execution of a job, with its log, its attempts and its result."),
        xxl_job=("调度日志", "执行日志", "执行结果", "Rolling 日志", "Job log"),
        quartz=("JobExecutionContext", "fired trigger", "QRTZ_FIRED_TRIGGERS"),
        also=("history", "execution", "日志", "历史"),
        href="/runs",
        document="docs/jobs.md#States of a run",
    ),
    Concept(
        key="run-now",
        name=Word("Run now"),
        what=Word("A job is run by hand on its page, with other parameters if wanted."),
        xxl_job=("执行一次", "Run once"),
        quartz=("triggerJob",),
        also=("manual", "手动执行"),
        href="/jobs",
        document="docs/jobs.md#Running by hand",
    ),
    Concept(
        key="cancel",
        name=Word("Cancel"),
        what=Word("A run that waits or runs is ended on its page, or many at once in the list."),
        xxl_job=("终止任务", "Kill"),
        quartz=("interrupt", "UnableToInterruptJobException"),
        also=("stop", "abort", "kill", "停止"),
        href="/runs?q=state:running",
        document="docs/jobs.md#Cancel",
    ),
    Concept(
        key="pause",
        name=Word("Pause"),
        what=Word("A trigger, a job, an executor or everything stops firing until it is resumed."),
        xxl_job=("启动", "停止", "任务状态", "Start", "Stop"),
        quartz=("pauseJob", "pauseTrigger", "pauseAll", "standby", "resumeJob"),
        also=("disable", "enable", "resume", "暂停", "恢复"),
        href="/jobs",
        document="docs/jobs.md#Pause, edit, delete",
    ),
    Concept(
        key="attention",
        name=Word("Needs attention"),
        what=Word("What is wrong now, worst first: failing jobs, lost nodes, runs that wait."),
        xxl_job=("报警", "告警", "报警邮件", "失败告警", "Alarm email"),
        quartz=("SchedulerListener", "TriggerListener"),
        also=("alert", "alarm", "notification", "monitoring", "监控"),
        href="/",
        document="docs/operations.md#Needs attention",
    ),
    Concept(
        key="overview",
        name=Word("Overview"),
        what=Word("How the runs of the last hours went, what comes next, and what is wrong."),
        xxl_job=("运行报表", "调度报表", "调度次数", "Dashboard"),
        also=("report", "statistics", "首页", "统计"),
        href="/",
        document="docs/console.md#Finding, filtering, views",
    ),
    Concept(
        key="calendar",
        name=Word("Calendar"),
        what=Word("Holidays and working days that triggers leave out or keep to."),
        quartz=(
            "HolidayCalendar",
            "WeeklyCalendar",
            "CronCalendar",
            "DailyCalendar",
            "modifiedByCalendar",
        ),
        also=("holiday", "workday", "节假日", "工作日", "调休"),
        href="/calendars",
        document="docs/schedules.md#Calendars",
    ),
    Concept(
        key="owner",
        name=Word("Owner"),
        what=Word("Who answers for a job: a field to search and to filter by."),
        xxl_job=("负责人", "Author"),
        href=f"{_FORM}#f-owner",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#Fields of a job",
    ),
    Concept(
        key="priority",
        name=Word("Priority"),
        what=Word("Which of the runs that are due goes first, 1 to 9."),
        quartz=("Trigger priority", "withPriority"),
        also=("优先级",),
        href=f"{_FORM}#f-priority",
        permission=Permission.DEVELOP,
        document="docs/jobs.md#Fields of a job",
    ),
    Concept(
        key="access-token",
        name=Word("Token of an executor"),
        what=Word(
            "Nodes show it when they connect. It is made and rotated on the executor's page."
        ),
        xxl_job=("accessToken",),
        href="/executors",
        document="docs/operations.md#Rotating a token",
    ),
    Concept(
        key="users",
        name=Word("Users"),
        what=Word("People, their roles, and the executors that they may see and change."),
        xxl_job=("用户管理", "权限", "User manage"),
        also=("role", "permission", "角色"),
        href="/users",
        permission=Permission.ADMINISTER,
        on_all=True,
        document="docs/console.md#Users and roles",
    ),
    Concept(
        key="api",
        name=Word("API"),
        what=Word("What people do here, programs do by the JSON API, with a token."),
        xxl_job=("OpenAPI", "ExecutorBiz", "AdminBiz"),
        also=("rest", "http", "curl", "接口"),
        href="/tokens",
        document="docs/api.md#Authentication",
    ),
)
