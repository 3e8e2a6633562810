"""All cases of all tables."""

import zlib

import cases_binary
import cases_creation
import cases_index
import cases_linear
import cases_movement
import cases_nn
import cases_reduce
import cases_unary
import rows

TABLES = (cases_unary, cases_binary, cases_reduce, cases_movement, cases_index, cases_nn, cases_linear, cases_creation)


def every_case():
    for module in TABLES:
        for kind, table in module.TABLES.items():
            yield from rows.cases_of(kind, table)


def by_name():
    found = {}
    for case in every_case():
        if case.name in found:
            raise ValueError("twice: " + case.name)
        found[case.name] = case
    return found


def sample(cases, count):
    """About `count` of the cases, the same ones on every day: a row of every kind, then one of every row."""
    order = lambda case: zlib.crc32(case.name.encode())
    by_row, by_kind = {}, {}
    for case in sorted(cases, key=order):
        if case.kind != "large":
            by_row.setdefault(case.row, case)
            by_kind.setdefault(case.kind, case)
    rest = sorted(set(by_row.values()) - set(by_kind.values()), key=order)
    chosen = {*by_kind.values(), *rest[: count - len(by_kind)]}
    return [case for case in cases if case in chosen]
