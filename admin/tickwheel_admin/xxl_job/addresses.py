"""Addresses of executors: one spelling, and resolved to addresses that may be called."""

from __future__ import annotations

from tickwheel_admin.domain.executors.xxl_addresses import InvalidAddress as InvalidAddress
from tickwheel_admin.domain.executors.xxl_addresses import check_literal as check_literal
from tickwheel_admin.domain.executors.xxl_addresses import join as join
from tickwheel_admin.domain.executors.xxl_addresses import literal_ip as literal_ip
from tickwheel_admin.domain.executors.xxl_addresses import normalise as normalise
from tickwheel_admin.domain.network_guard import AddressGuard as AddressGuard
from tickwheel_admin.domain.network_guard import ForbiddenAddress as ForbiddenAddress
from tickwheel_admin.web.guarded_resolver import GuardedResolver as GuardedResolver
