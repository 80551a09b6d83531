-- Tickwheel's schema for sqlite, revision 0001; see README.md.

CREATE TABLE id_block (
    name VARCHAR(32) NOT NULL,
    next_id INTEGER NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE setting (
    name VARCHAR(64) NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE bucket (
    id INTEGER NOT NULL,
    planned_at BIGINT NOT NULL,
    planned_by INTEGER NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE admin (
    id INTEGER NOT NULL,
    name VARCHAR(200) NOT NULL,
    url VARCHAR(500) NOT NULL,
    version VARCHAR(50) NOT NULL,
    started_at BIGINT NOT NULL,
    lease_expires_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    gone_at BIGINT,
    xxl_unreadable TEXT,
    PRIMARY KEY (id)
);

CREATE INDEX ix_admin_live ON admin (lease_expires_at);

CREATE TABLE executor (
    id INTEGER NOT NULL,
    name VARCHAR(100) NOT NULL,
    description VARCHAR(1000) NOT NULL,
    token_hash VARCHAR(64) NOT NULL,
    old_token_hash VARCHAR(64),
    old_token_until BIGINT,
    paused_at BIGINT,
    code_jobs VARCHAR(16) DEFAULT 'apply' NOT NULL,
    protocol VARCHAR(16) DEFAULT 'tickwheel' NOT NULL,
    scripts BOOLEAN DEFAULT 1 NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_executor_name UNIQUE (name, deleted_at),
    CONSTRAINT uq_executor_token UNIQUE (token_hash)
);

CREATE INDEX ix_executor_old_token ON executor (old_token_hash);

CREATE TABLE node (
    id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    node_key VARCHAR(64) NOT NULL,
    name VARCHAR(200) NOT NULL,
    state VARCHAR(16) NOT NULL,
    draining BOOLEAN NOT NULL,
    cordoned BOOLEAN NOT NULL,
    drain_wanted BOOLEAN NOT NULL,
    slots INTEGER NOT NULL,
    slots_wanted INTEGER,
    in_use INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    weight_wanted INTEGER,
    handlers TEXT NOT NULL,
    unstoppable TEXT NOT NULL,
    labels TEXT NOT NULL,
    declared TEXT,
    sdk VARCHAR(50) NOT NULL,
    address VARCHAR(100) NOT NULL,
    connected_at BIGINT NOT NULL,
    lease_expires_at BIGINT NOT NULL,
    full_lease_at BIGINT NOT NULL,
    ended_at BIGINT,
    since_at BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_node_key UNIQUE (executor_id, node_key)
);

CREATE INDEX ix_node_of_executor ON node (executor_id, state, name);

CREATE INDEX ix_node_to_expire ON node (state, lease_expires_at);

CREATE TABLE node_session (
    node_id INTEGER NOT NULL,
    admin_id INTEGER NOT NULL,
    session_id INTEGER NOT NULL,
    connected_at BIGINT NOT NULL,
    PRIMARY KEY (node_id, admin_id)
);

CREATE INDEX ix_node_session_of_admin ON node_session (admin_id);

CREATE TABLE job (
    id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    name VARCHAR(200) NOT NULL,
    handler VARCHAR(200) NOT NULL,
    owner VARCHAR(100) NOT NULL,
    tags VARCHAR(500) NOT NULL,
    revision INTEGER NOT NULL,
    paused BOOLEAN NOT NULL,
    route_cursor BIGINT NOT NULL,
    pool_id INTEGER,
    usual_ms BIGINT DEFAULT 0 NOT NULL,
    failure_rate SMALLINT DEFAULT 0 NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_job_name UNIQUE (executor_id, name, deleted_at)
);

CREATE INDEX ix_job_by_name ON job (deleted_at, name, id);

CREATE INDEX ix_job_changed ON job (deleted_at, updated_at, id);

CREATE INDEX ix_job_failure_rate ON job (deleted_at, failure_rate, id);

CREATE INDEX ix_job_of_owner ON job (deleted_at, owner, name, id);

CREATE INDEX ix_job_of_pool ON job (pool_id, deleted_at, name);

CREATE INDEX ix_job_paused ON job (deleted_at, paused, name, id);

CREATE INDEX ix_job_tags ON job (deleted_at, tags);

CREATE INDEX ix_job_usual ON job (deleted_at, usual_ms, id);

CREATE TABLE job_node (
    job_id INTEGER NOT NULL,
    node_id INTEGER NOT NULL,
    uses BIGINT NOT NULL,
    last_turn BIGINT NOT NULL,
    PRIMARY KEY (job_id, node_id)
);

CREATE INDEX ix_job_node_of_node ON job_node (node_id);

CREATE TABLE job_state (
    job_id INTEGER NOT NULL,
    state TEXT NOT NULL,
    run_id INTEGER,
    updated_at BIGINT,
    lent_run_id INTEGER,
    lent_attempt INTEGER,
    PRIMARY KEY (job_id)
);

CREATE TABLE job_revision (
    job_id INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    config TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by VARCHAR(100) NOT NULL,
    script_sha256 VARCHAR(64),
    PRIMARY KEY (job_id, revision)
);

CREATE INDEX ix_job_revision_of_script ON job_revision (script_sha256) WHERE script_sha256 IS NOT NULL;

CREATE TABLE script_source (
    sha256 VARCHAR(64) NOT NULL,
    source TEXT NOT NULL,
    given_at BIGINT NOT NULL,
    PRIMARY KEY (sha256)
);

CREATE TABLE handler_schema (
    executor_id INTEGER NOT NULL,
    handler VARCHAR(200) NOT NULL,
    schema TEXT NOT NULL,
    said_by INTEGER NOT NULL,
    said_at BIGINT NOT NULL,
    PRIMARY KEY (executor_id, handler)
);

CREATE TABLE declared_job (
    executor_id INTEGER NOT NULL,
    name VARCHAR(200) NOT NULL,
    raw TEXT NOT NULL,
    job_id INTEGER,
    state VARCHAR(16) NOT NULL,
    reason VARCHAR(50),
    renamed_from VARCHAR(200),
    problems TEXT NOT NULL,
    declared_by VARCHAR(200) NOT NULL,
    node_id INTEGER NOT NULL,
    declared_at BIGINT NOT NULL,
    PRIMARY KEY (executor_id, name)
);

CREATE INDEX ix_declared_job_by_state ON declared_job (state, executor_id);

CREATE INDEX ix_declared_job_of_job ON declared_job (job_id);

CREATE TABLE managed_object (
    type VARCHAR(20) NOT NULL,
    object_id INTEGER NOT NULL,
    owner VARCHAR(100) NOT NULL,
    mark VARCHAR(64) NOT NULL,
    applied_at BIGINT NOT NULL,
    applied_by VARCHAR(100) NOT NULL,
    PRIMARY KEY (type, object_id)
);

CREATE INDEX ix_managed_object_by_owner ON managed_object (owner, type, object_id);

CREATE TABLE calendar (
    id INTEGER NOT NULL,
    name VARCHAR(100) NOT NULL,
    description TEXT NOT NULL,
    spec TEXT NOT NULL,
    base VARCHAR(100),
    version INTEGER NOT NULL,
    changed_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_calendar_name UNIQUE (name, deleted_at)
);

CREATE INDEX ix_calendar_of_base ON calendar (base);

CREATE TABLE pool (
    id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    name VARCHAR(100) NOT NULL,
    description VARCHAR(1000) NOT NULL,
    slots INTEGER NOT NULL,
    version INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL,
    claims BIGINT DEFAULT 0 NOT NULL,
    reserved_run_id INTEGER,
    reserved_rank BIGINT,
    reserved_slots INTEGER,
    reserved_until BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT uq_pool_name UNIQUE (executor_id, name, deleted_at)
);

CREATE INDEX ix_pool_by_name ON pool (deleted_at, name, executor_id);

CREATE TABLE pool_use (
    run_id INTEGER NOT NULL,
    pool_id INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    since BIGINT NOT NULL,
    PRIMARY KEY (run_id)
);

CREATE INDEX ix_pool_use_of_pool ON pool_use (pool_id, since, run_id);

CREATE TABLE "trigger" (
    id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    spec TEXT NOT NULL,
    paused BOOLEAN NOT NULL,
    state VARCHAR(16) NOT NULL,
    reason VARCHAR(500),
    next_fire_at BIGINT,
    last_fire_at BIGINT,
    fires INTEGER DEFAULT 0 NOT NULL,
    calendar VARCHAR(100),
    calendar_version INTEGER,
    version INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    since_at BIGINT DEFAULT 0 NOT NULL,
    place_at BIGINT,
    PRIMARY KEY (id)
);

CREATE INDEX ix_trigger_by_state ON "trigger" (state, id);

CREATE INDEX ix_trigger_next ON "trigger" (next_fire_at);

CREATE INDEX ix_trigger_of_calendar ON "trigger" (calendar, calendar_version);

CREATE INDEX ix_trigger_of_job ON "trigger" (job_id);

CREATE INDEX ix_trigger_to_place ON "trigger" (place_at);

CREATE INDEX ix_trigger_to_plan ON "trigger" (bucket, next_fire_at);

CREATE TABLE trigger_period (
    trigger_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    spec TEXT NOT NULL,
    saved_at BIGINT NOT NULL,
    since_at BIGINT NOT NULL,
    until_at BIGINT NOT NULL,
    planned_to BIGINT NOT NULL,
    state VARCHAR(16) NOT NULL,
    paused BOOLEAN NOT NULL,
    next_fire_at BIGINT,
    last_fire_at BIGINT,
    PRIMARY KEY (trigger_id, version)
);

CREATE INDEX ix_trigger_period_ended ON trigger_period (until_at, trigger_id);

CREATE INDEX ix_trigger_period_of_job ON trigger_period (job_id, until_at, trigger_id);

CREATE TABLE pause_period (
    executor_id INTEGER NOT NULL,
    paused_at BIGINT NOT NULL,
    resumed_at BIGINT NOT NULL,
    PRIMARY KEY (executor_id, paused_at)
);

CREATE INDEX ix_pause_period_over ON pause_period (resumed_at);

CREATE TABLE node_period (
    node_id INTEGER NOT NULL,
    from_at BIGINT NOT NULL,
    until_at BIGINT NOT NULL,
    executor_id INTEGER NOT NULL,
    name VARCHAR(200) NOT NULL,
    slots INTEGER NOT NULL,
    draining BOOLEAN NOT NULL,
    cordoned BOOLEAN NOT NULL,
    "end" VARCHAR(16) NOT NULL,
    PRIMARY KEY (node_id, from_at)
);

CREATE INDEX ix_node_period_over ON node_period (until_at, from_at, executor_id);

CREATE TABLE calendar_period (
    name VARCHAR(100) NOT NULL,
    until_at BIGINT NOT NULL,
    spec TEXT NOT NULL,
    PRIMARY KEY (name, until_at)
);

CREATE INDEX ix_calendar_period_ended ON calendar_period (until_at);

CREATE TABLE run_purge (
    job_id INTEGER NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT NOT NULL,
    PRIMARY KEY (job_id, from_at, to_at)
);

CREATE INDEX ix_run_purge_to ON run_purge (to_at);

CREATE TABLE self_audit_hour (
    hour_at BIGINT NOT NULL,
    executor_id INTEGER NOT NULL,
    expected BIGINT NOT NULL,
    happened BIGINT NOT NULL,
    explained TEXT NOT NULL,
    fires BIGINT NOT NULL,
    absent TEXT NOT NULL,
    missing BIGINT NOT NULL,
    doubled BIGINT NOT NULL,
    late BIGINT NOT NULL,
    unexplained BIGINT NOT NULL,
    triggers INTEGER NOT NULL,
    audited INTEGER NOT NULL,
    audited_at BIGINT NOT NULL,
    PRIMARY KEY (hour_at, executor_id)
);

CREATE TABLE self_audit_difference (
    hour_at BIGINT NOT NULL,
    trigger_id INTEGER NOT NULL,
    at BIGINT NOT NULL,
    what VARCHAR(16) NOT NULL,
    job_id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    found_at BIGINT NOT NULL,
    closed_at BIGINT,
    seen_at BIGINT,
    seen_by VARCHAR(100),
    PRIMARY KEY (hour_at, trigger_id, at, what)
);

CREATE INDEX ix_self_audit_difference_open ON self_audit_difference (closed_at, found_at);

CREATE TABLE self_audit_absence (
    hour_at BIGINT NOT NULL,
    trigger_id INTEGER NOT NULL,
    reason VARCHAR(16) NOT NULL,
    job_id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    instants TEXT NOT NULL,
    PRIMARY KEY (hour_at, trigger_id, reason)
);

CREATE TABLE run (
    id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    job_revision INTEGER NOT NULL,
    trigger_id INTEGER,
    origin VARCHAR(16) NOT NULL,
    scheduled_at BIGINT NOT NULL,
    interval_start BIGINT,
    nominal_at BIGINT,
    follows_at BIGINT,
    shard_index INTEGER NOT NULL,
    shard_total INTEGER NOT NULL,
    fire_id INTEGER,
    is_part BOOLEAN DEFAULT 0 NOT NULL,
    pinned_node_id INTEGER,
    request_key VARCHAR(100),
    requested_by VARCHAR(100),
    retry_of INTEGER,
    parent_run_id INTEGER,
    parameters TEXT,
    priority SMALLINT NOT NULL,
    pool_id INTEGER,
    created_at BIGINT NOT NULL,
    state VARCHAR(16) NOT NULL,
    due_at BIGINT NOT NULL,
    jitter_ms INTEGER,
    attempt INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    node_id INTEGER,
    claim_token VARCHAR(32),
    deadline_at BIGINT,
    dispatched_at BIGINT,
    started_at BIGINT,
    ended_at BIGINT,
    cancel_requested_at BIGINT,
    cancel_reason VARCHAR(16),
    cancelled_by VARCHAR(100),
    blocking_key INTEGER,
    reason VARCHAR(50),
    message TEXT,
    result TEXT,
    progress FLOAT,
    progress_text TEXT,
    log_lines INTEGER NOT NULL,
    choice TEXT,
    error_id INTEGER,
    trace VARCHAR(600),
    queued_for INTEGER GENERATED ALWAYS AS (CASE WHEN state = 'queued' THEN executor_id END) STORED,
    listed_as VARCHAR(16) GENERATED ALWAYS AS (CASE WHEN state IN ('dispatched', 'queued', 'running') THEN 'open' ELSE state END) STORED,
    PRIMARY KEY (id),
    CONSTRAINT uq_run_fires_once UNIQUE (trigger_id, scheduled_at, shard_index)
);

CREATE INDEX ix_run_blocking ON run (blocking_key, scheduled_at, id) WHERE blocking_key IS NOT NULL;

CREATE INDEX ix_run_by_state ON run (listed_as, scheduled_at, id, executor_id, is_part);

CREATE INDEX ix_run_due ON run (queued_for, due_at, pool_id) WHERE queued_for IS NOT NULL;

CREATE INDEX ix_run_of_error ON run (error_id, scheduled_at, id) WHERE error_id IS NOT NULL;

CREATE INDEX ix_run_of_fire ON run (fire_id, shard_index) WHERE fire_id IS NOT NULL;

CREATE INDEX ix_run_of_job ON run (job_id, scheduled_at, id);

CREATE INDEX ix_run_recent ON run (scheduled_at, id, executor_id);

CREATE INDEX ix_run_to_claim ON run (queued_for, pool_id, priority, due_at) WHERE queued_for IS NOT NULL;

CREATE INDEX ix_run_to_sweep ON run (state, deadline_at, node_id, executor_id, scheduled_at);

CREATE UNIQUE INDEX uq_run_requested_once ON run (job_id, request_key) WHERE request_key IS NOT NULL;

CREATE TABLE run_span (
    run_id INTEGER NOT NULL,
    length SMALLINT NOT NULL,
    from_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    executor_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    PRIMARY KEY (run_id)
);

CREATE INDEX ix_run_span_old ON run_span (ended_at);

CREATE INDEX ix_run_span_over ON run_span (length, ended_at, from_at, executor_id, job_id, run_id);

CREATE TABLE backfill (
    id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    trigger_id INTEGER NOT NULL,
    spec TEXT NOT NULL,
    saved_at BIGINT NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT NOT NULL,
    newest_first BOOLEAN NOT NULL,
    only_holes BOOLEAN DEFAULT 0 NOT NULL,
    parallel INTEGER NOT NULL,
    parameters TEXT,
    requested_by VARCHAR(100) NOT NULL,
    request_key VARCHAR(100),
    total INTEGER NOT NULL,
    state VARCHAR(16) NOT NULL,
    reason VARCHAR(500),
    cursor_at BIGINT,
    version INTEGER NOT NULL,
    written INTEGER NOT NULL,
    existing INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    timed_out INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at BIGINT,
    resting BOOLEAN NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_backfill_requested_once UNIQUE (job_id, request_key)
);

CREATE INDEX ix_backfill_of_executor ON backfill (executor_id, id);

CREATE INDEX ix_backfill_of_job ON backfill (job_id, id);

CREATE INDEX ix_backfill_open ON backfill (ended_at, resting, id);

CREATE INDEX ix_backfill_open_of_job ON backfill (job_id, ended_at);

CREATE TABLE backfill_run (
    job_id INTEGER NOT NULL,
    at BIGINT NOT NULL,
    backfill_id INTEGER NOT NULL,
    trigger_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    PRIMARY KEY (job_id, at, backfill_id)
);

CREATE INDEX ix_backfill_run_of ON backfill_run (backfill_id, outcome, at);

CREATE TABLE workflow_step (
    workflow_run_id INTEGER NOT NULL,
    step_index INTEGER NOT NULL,
    state VARCHAR(16) NOT NULL,
    reason VARCHAR(50),
    message TEXT,
    run_id INTEGER,
    since BIGINT NOT NULL,
    started_at BIGINT,
    due_at BIGINT,
    decided_by VARCHAR(100),
    taken_from INTEGER,
    items INTEGER,
    next_item INTEGER NOT NULL,
    items_started INTEGER NOT NULL,
    items_succeeded INTEGER NOT NULL,
    items_failed INTEGER NOT NULL,
    items_skipped INTEGER NOT NULL,
    PRIMARY KEY (workflow_run_id, step_index)
);

CREATE TABLE workflow_item (
    workflow_run_id INTEGER NOT NULL,
    step_index INTEGER NOT NULL,
    item_index INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    PRIMARY KEY (workflow_run_id, step_index, item_index)
);

CREATE TABLE spawned_items (
    workflow_run_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    item_count INTEGER NOT NULL,
    item_list TEXT NOT NULL,
    PRIMARY KEY (workflow_run_id, run_id)
);

CREATE TABLE run_error (
    id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    text VARCHAR(300) NOT NULL,
    first_seen_at BIGINT NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX ix_run_error_seen ON run_error (first_seen_at, id);

CREATE TABLE failure_group (
    id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    text VARCHAR(300) NOT NULL,
    since BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    runs INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    first_run_id INTEGER NOT NULL,
    first_job_id INTEGER NOT NULL,
    first_revision INTEGER NOT NULL,
    first_node_id INTEGER,
    last_run_id INTEGER NOT NULL,
    returns INTEGER NOT NULL,
    owner VARCHAR(100),
    notes TEXT NOT NULL,
    acknowledged_by VARCHAR(100),
    acknowledged_at BIGINT,
    muted_until BIGINT,
    resolved_at BIGINT,
    resolved_by VARCHAR(100),
    is_resolved BOOLEAN NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX ix_failure_group_of_executor ON failure_group (executor_id, is_resolved, last_at, id);

CREATE INDEX ix_failure_group_recent ON failure_group (last_at, id, executor_id);

CREATE INDEX ix_failure_group_standing ON failure_group (is_resolved, last_at, id, executor_id);

CREATE TABLE failure_group_job (
    group_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    last_run_id INTEGER NOT NULL,
    last_at BIGINT NOT NULL,
    is_over BOOLEAN NOT NULL,
    PRIMARY KEY (group_id, job_id)
);

CREATE INDEX ix_failure_group_job_recent ON failure_group_job (group_id, last_at, job_id);

CREATE INDEX ix_failure_group_job_standing ON failure_group_job (is_over, group_id, job_id);

CREATE TABLE failure_canary (
    id INTEGER NOT NULL,
    group_id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    state VARCHAR(16) NOT NULL,
    reason VARCHAR(16),
    user_id INTEGER NOT NULL,
    started_by VARCHAR(100) NOT NULL,
    started_at BIGINT NOT NULL,
    since BIGINT NOT NULL,
    before_at BIGINT NOT NULL,
    before_id INTEGER NOT NULL,
    wave INTEGER NOT NULL,
    open_runs TEXT NOT NULL,
    retried INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    left_out INTEGER NOT NULL,
    stopped_by VARCHAR(100),
    ended_at BIGINT,
    closed_key INTEGER NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_failure_canary_open UNIQUE (group_id, closed_key)
);

CREATE INDEX ix_failure_canary_of_group ON failure_canary (group_id, started_at);

CREATE INDEX ix_failure_canary_open ON failure_canary (closed_key, id);

CREATE TABLE run_event_batch (
    id INTEGER NOT NULL,
    at BIGINT NOT NULL,
    events INTEGER NOT NULL,
    data TEXT NOT NULL,
    last_seq INTEGER,
    PRIMARY KEY (id)
);

CREATE INDEX ix_run_event_batch_seq ON run_event_batch (last_seq, id);

CREATE TABLE run_event_feed (
    id INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    complete_after INTEGER,
    ready_at BIGINT NOT NULL,
    wanted_until BIGINT NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE run_attempt (
    run_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    state VARCHAR(16) NOT NULL,
    node_id INTEGER,
    claim_token VARCHAR(32),
    dispatched_at BIGINT,
    started_at BIGINT,
    ended_at BIGINT,
    reason VARCHAR(50),
    message TEXT,
    log_lines INTEGER NOT NULL,
    choice TEXT,
    due_at BIGINT,
    late_outcome VARCHAR(16),
    late_message TEXT,
    late_at BIGINT,
    PRIMARY KEY (run_id, attempt)
);

CREATE TABLE run_retry (
    run_id INTEGER NOT NULL,
    retry_id INTEGER NOT NULL,
    scheduled_at BIGINT NOT NULL,
    state VARCHAR(16),
    ended_at BIGINT,
    PRIMARY KEY (run_id, retry_id)
);

CREATE INDEX ix_run_retry_ended ON run_retry (ended_at);

CREATE INDEX ix_run_retry_made_good ON run_retry (state, scheduled_at, run_id);

CREATE INDEX ix_run_retry_of_retry ON run_retry (retry_id);

CREATE TABLE run_checkpoint (
    run_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    data TEXT NOT NULL,
    saved_at BIGINT NOT NULL,
    PRIMARY KEY (run_id)
);

CREATE TABLE run_log (
    run_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    line_count INTEGER NOT NULL,
    lines TEXT NOT NULL,
    PRIMARY KEY (run_id, attempt, first_seq)
);

CREATE TABLE run_stat (
    hour_at BIGINT NOT NULL,
    executor_id INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    timed_out INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    made_good INTEGER NOT NULL,
    delays TEXT NOT NULL,
    durations TEXT NOT NULL,
    counted_at BIGINT NOT NULL,
    PRIMARY KEY (hour_at, executor_id)
);

CREATE TABLE job_failure (
    job_id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    scheduled_at BIGINT NOT NULL,
    PRIMARY KEY (job_id)
);

CREATE INDEX ix_job_failure_recent ON job_failure (scheduled_at, job_id, executor_id);

CREATE TABLE user (
    id INTEGER NOT NULL,
    name VARCHAR(100) NOT NULL,
    password_hash VARCHAR(200),
    must_change_password BOOLEAN NOT NULL,
    disabled BOOLEAN NOT NULL,
    oidc_key VARCHAR(64),
    preferences TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    logged_in_at BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT uq_user_name UNIQUE (name),
    CONSTRAINT uq_user_oidc_key UNIQUE (oidc_key)
);

CREATE TABLE grant (
    user_id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    role VARCHAR(16) NOT NULL,
    scripts BOOLEAN NOT NULL,
    PRIMARY KEY (user_id, executor_id)
);

CREATE INDEX ix_grant_on_executor ON grant (executor_id, role);

CREATE TABLE session (
    id_hash VARCHAR(64) NOT NULL,
    user_id INTEGER NOT NULL,
    csrf_token VARCHAR(64) NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    address VARCHAR(100) NOT NULL,
    user_agent VARCHAR(300) NOT NULL,
    PRIMARY KEY (id_hash)
);

CREATE INDEX ix_session_of_user ON session (user_id);

CREATE INDEX ix_session_to_clean ON session (seen_at);

CREATE TABLE api_token (
    id INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    name VARCHAR(100) NOT NULL,
    token_hash VARCHAR(64) NOT NULL,
    role VARCHAR(16),
    executors TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    used_at BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT uq_api_token UNIQUE (token_hash),
    CONSTRAINT uq_api_token_name UNIQUE (user_id, name)
);

CREATE TABLE audit (
    id INTEGER NOT NULL,
    at BIGINT NOT NULL,
    user_id INTEGER,
    user_name VARCHAR(100) NOT NULL,
    address VARCHAR(100) NOT NULL,
    action VARCHAR(50) NOT NULL,
    executor_id INTEGER,
    object_id INTEGER,
    detail TEXT NOT NULL,
    part_of INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (id)
);

CREATE INDEX ix_audit_by_person ON audit (user_name, part_of, at, id);

CREATE INDEX ix_audit_of_executor ON audit (executor_id, part_of, at, id);

CREATE INDEX ix_audit_of_object ON audit (object_id, at, id);

CREATE INDEX ix_audit_old ON audit (at);

CREATE INDEX ix_audit_recent ON audit (part_of, at, id);

CREATE TABLE saved_view (
    id INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    page VARCHAR(16) NOT NULL,
    name VARCHAR(60) NOT NULL,
    "query" VARCHAR(2000) NOT NULL,
    shared BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_saved_view_name UNIQUE (user_id, page, name)
);

CREATE INDEX ix_saved_view_shared ON saved_view (page, shared, name);

CREATE TABLE secret (
    executor_id INTEGER NOT NULL,
    name VARCHAR(64) NOT NULL,
    ciphertext TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    created_by VARCHAR(100) NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by VARCHAR(100) NOT NULL,
    last_used_at BIGINT,
    PRIMARY KEY (executor_id, name)
);

CREATE TABLE job_secret (
    executor_id INTEGER NOT NULL,
    name VARCHAR(64) NOT NULL,
    job_id INTEGER NOT NULL,
    PRIMARY KEY (executor_id, name, job_id)
);

CREATE INDEX ix_job_secret_of_job ON job_secret (job_id);

CREATE TABLE xxl_executor (
    executor_id INTEGER NOT NULL,
    app_name VARCHAR(100) NOT NULL,
    addresses TEXT,
    token TEXT NOT NULL,
    PRIMARY KEY (executor_id),
    CONSTRAINT uq_xxl_executor_app UNIQUE (app_name)
);

CREATE TABLE xxl_address (
    executor_id INTEGER NOT NULL,
    address VARCHAR(300) NOT NULL,
    registered_at BIGINT,
    removed_at BIGINT,
    incarnation INTEGER DEFAULT 0 NOT NULL,
    turns INTEGER DEFAULT 0 NOT NULL,
    node_id INTEGER,
    dialect VARCHAR(1),
    client VARCHAR(8),
    beat_at BIGINT,
    calls BIGINT DEFAULT 0 NOT NULL,
    errors BIGINT DEFAULT 0 NOT NULL,
    error TEXT,
    error_at BIGINT,
    PRIMARY KEY (executor_id, address)
);

CREATE TABLE xxl_log (
    run_id INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    node_id INTEGER NOT NULL,
    token VARCHAR(32) NOT NULL,
    log_id BIGINT NOT NULL,
    time_ms BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, attempt)
);

CREATE INDEX ix_xxl_log_created_at ON xxl_log (created_at);

CREATE INDEX ix_xxl_log_of_node ON xxl_log (node_id, run_id);

CREATE TABLE import_record (
    source VARCHAR(200) NOT NULL,
    kind VARCHAR(16) NOT NULL,
    their_id INTEGER NOT NULL,
    our_id INTEGER NOT NULL,
    content TEXT NOT NULL,
    imported_at BIGINT NOT NULL,
    PRIMARY KEY (source, kind, their_id)
);

CREATE TABLE xxl_take_over (
    source VARCHAR(200) NOT NULL,
    their_job_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    trigger_id INTEGER NOT NULL,
    state VARCHAR(16) NOT NULL,
    next_at BIGINT NOT NULL,
    their_next_at BIGINT NOT NULL,
    token BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (source, their_job_id)
);

CREATE TABLE alarm_channel (
    id INTEGER NOT NULL,
    name VARCHAR(100) NOT NULL,
    kind VARCHAR(16) NOT NULL,
    language VARCHAR(16) NOT NULL,
    time_zone VARCHAR(100) NOT NULL,
    settings TEXT NOT NULL,
    secrets TEXT,
    per_minute INTEGER NOT NULL,
    enabled BOOLEAN NOT NULL,
    version INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL,
    paced_to BIGINT DEFAULT 0 NOT NULL,
    held_until BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_alarm_channel_name UNIQUE (name, deleted_at)
);

CREATE TABLE alarm_rule (
    id INTEGER NOT NULL,
    name VARCHAR(100) NOT NULL,
    kind VARCHAR(24) NOT NULL,
    scope VARCHAR(16) NOT NULL,
    executor_id INTEGER,
    job_id INTEGER,
    name_of INTEGER NOT NULL,
    tag VARCHAR(50),
    additional BOOLEAN NOT NULL,
    severity VARCHAR(16) NOT NULL,
    channels TEXT NOT NULL,
    limits TEXT NOT NULL,
    own_text TEXT NOT NULL,
    quiet TEXT,
    repeat_every_s INTEGER,
    escalate_after_s INTEGER,
    escalate_to TEXT NOT NULL,
    tell_recovery BOOLEAN NOT NULL,
    group_window_s INTEGER NOT NULL,
    enabled BOOLEAN NOT NULL,
    version INTEGER NOT NULL,
    next_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_alarm_rule_name UNIQUE (name_of, name, deleted_at)
);

CREATE INDEX ix_alarm_rule_by_kind ON alarm_rule (kind, deleted_at, id);

CREATE INDEX ix_alarm_rule_by_scope ON alarm_rule (scope, deleted_at, tag);

CREATE INDEX ix_alarm_rule_next ON alarm_rule (next_at);

CREATE INDEX ix_alarm_rule_of_executor ON alarm_rule (executor_id, deleted_at);

CREATE INDEX ix_alarm_rule_of_job ON alarm_rule (job_id, deleted_at);

CREATE TABLE coverage_watch (
    trigger_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    limit_ms BIGINT NOT NULL,
    look_at BIGINT NOT NULL,
    known_to BIGINT,
    holes INTEGER DEFAULT 0 NOT NULL,
    first_hole_at BIGINT,
    PRIMARY KEY (trigger_id)
);

CREATE INDEX ix_coverage_watch_holes ON coverage_watch (first_hole_at, executor_id);

CREATE INDEX ix_coverage_watch_look ON coverage_watch (look_at);

CREATE TABLE deadline_forecast (
    rule_id INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    at BIGINT NOT NULL,
    executor_id INTEGER NOT NULL,
    since BIGINT NOT NULL,
    made_at BIGINT NOT NULL,
    verdict VARCHAR(16) NOT NULL,
    miss_percent SMALLINT NOT NULL,
    end_at BIGINT,
    slow_end_at BIGINT,
    warned_since BIGINT,
    early_warned BOOLEAN,
    early_end_at BIGINT,
    outcome VARCHAR(8),
    succeeded_at BIGINT,
    look_at BIGINT,
    PRIMARY KEY (rule_id, job_id, at)
);

CREATE INDEX ix_deadline_forecast_at ON deadline_forecast (at);

CREATE INDEX ix_deadline_forecast_look ON deadline_forecast (look_at);

CREATE INDEX ix_deadline_forecast_of_executor ON deadline_forecast (executor_id, at);

CREATE TABLE alarm_signal (
    kind VARCHAR(24) NOT NULL,
    subject_id INTEGER NOT NULL,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL,
    executor_id INTEGER,
    job_id INTEGER,
    text VARCHAR(500),
    PRIMARY KEY (kind, subject_id, number)
);

CREATE INDEX ix_alarm_signal_oldest ON alarm_signal (at);

CREATE TABLE alarm (
    id INTEGER NOT NULL,
    rule_id INTEGER NOT NULL,
    subject VARCHAR(64) NOT NULL,
    closed_key INTEGER NOT NULL,
    kind VARCHAR(24) NOT NULL,
    severity VARCHAR(16) NOT NULL,
    executor_id INTEGER,
    job_id INTEGER,
    run_id INTEGER,
    told TEXT NOT NULL,
    count INTEGER NOT NULL,
    since BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    opened_at BIGINT NOT NULL,
    acknowledged_by VARCHAR(100),
    acknowledged_at BIGINT,
    assigned_to VARCHAR(100),
    muted_until BIGINT,
    repeats INTEGER NOT NULL,
    repeat_at BIGINT,
    escalate_at BIGINT,
    next_at BIGINT,
    escalated_at BIGINT,
    closed_at BIGINT,
    closed_by VARCHAR(100),
    PRIMARY KEY (id),
    CONSTRAINT uq_alarm_open UNIQUE (rule_id, subject, closed_key)
);

CREATE INDEX ix_alarm_closed ON alarm (closed_at);

CREATE INDEX ix_alarm_next ON alarm (next_at);

CREATE INDEX ix_alarm_of_executor ON alarm (executor_id, closed_key, last_at, id);

CREATE INDEX ix_alarm_of_job ON alarm (job_id, closed_key, last_at);

CREATE INDEX ix_alarm_open ON alarm (closed_key, last_at, id, executor_id);

CREATE INDEX ix_alarm_open_by_kind ON alarm (closed_key, kind, executor_id, last_at, severity);

CREATE INDEX ix_alarm_recent ON alarm (last_at, id, executor_id);

CREATE INDEX ix_alarm_recent_of_executor ON alarm (executor_id, last_at, id);

CREATE TABLE notification (
    id INTEGER NOT NULL,
    channel_id INTEGER NOT NULL,
    executor_id INTEGER NOT NULL,
    message_id VARCHAR(64) NOT NULL,
    state VARCHAR(16) NOT NULL,
    items INTEGER NOT NULL,
    due_at BIGINT NOT NULL,
    attempts INTEGER NOT NULL,
    lease_until BIGINT,
    claimed_by INTEGER,
    claim_token VARCHAR(32),
    written_at BIGINT NOT NULL,
    first_at BIGINT,
    ended_at BIGINT,
    answer VARCHAR(500),
    error VARCHAR(500),
    PRIMARY KEY (id)
);

CREATE INDEX ix_notification_due ON notification (state, due_at);

CREATE INDEX ix_notification_group ON notification (channel_id, executor_id, due_at);

CREATE INDEX ix_notification_leased ON notification (state, lease_until);

CREATE INDEX ix_notification_of_channel ON notification (channel_id, state, due_at);

CREATE INDEX ix_notification_recent ON notification (written_at, id);

CREATE TABLE notification_item (
    channel_id INTEGER NOT NULL,
    alarm_id INTEGER NOT NULL,
    occasion VARCHAR(16) NOT NULL,
    number INTEGER NOT NULL,
    notification_id INTEGER NOT NULL,
    PRIMARY KEY (channel_id, alarm_id, occasion, number)
);

CREATE INDEX ix_notification_item_of ON notification_item (notification_id, alarm_id);

CREATE INDEX ix_notification_item_of_alarm ON notification_item (alarm_id);

CREATE TABLE tickwheel_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT tickwheel_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO tickwheel_version (version_num) VALUES ('0001') RETURNING version_num;
