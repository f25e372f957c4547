# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A TPROC-C style load: what is the same in every database, and the conditions that the data must meet. tproc_c_<database>.py has tables and transactions.

Written from the rules of the TPC-C specification, revision 5.11 (clauses 1.3 tables, 2 transactions, 3.3.2 consistency, 4.3.3 rows, 5.2.3 mix). It is not
TPC-C, and no figure of it is a TPC-C result: there are no terminals, no keying and thinking times, no deferred queue of deliveries and no price, and the
transactions run in the database's procedures with 'read committed' unless set otherwise.
"""

from __future__ import annotations

from collections.abc import Collection

DISTRICTS, CUSTOMERS, ITEMS = 10, 3000, 100_000
# Orders before the first undelivered one (4.3.3.1).
DELIVERED = 2100
# Constants C of NURand (2.1.6): of last names as loaded and as asked for later, which differ by 65 to 119 and not by 96 or 112; of customers; of items.
C_LAST_LOADED, C_LAST, C_CUSTOMER, C_ITEM = 33, 106, 259, 7911
# The mix (5.2.3), in tenths of a per mille. The 1 % of New-Orders that are rolled back (2.4.1.4) are a script of their own,
# so that it is known how many were.
KINDS = ("new_order", "new_order_rolled_back", "payment", "order_status", "delivery", "stock_level")
WEIGHTS = {
    "new_order": 4455,
    "new_order_rolled_back": 45,
    "payment": 4300,
    "order_status": 400,
    "delivery": 400,
    "stock_level": 400,
}

# ---------------------------------------------------------------- consistency, clause 3.3.2

_ORDERED = (
    "SELECT o_w_id w, o_d_id d, max(o_id) last, count(*) orders, sum(o_ol_cnt) line_count FROM orders GROUP BY 1, 2"
)
_OPEN = (
    "SELECT no_w_id w, no_d_id d, min(no_o_id) first, max(no_o_id) last, count(*) orders FROM new_order GROUP BY 1, 2"
)
_LINES = "SELECT ol_w_id w, ol_d_id d, count(*) line_count FROM order_line GROUP BY 1, 2"
_PAID = "SELECT h_c_w_id w, h_c_d_id d, h_c_id c, sum(h_amount) amount FROM history GROUP BY 1, 2, 3"
_DELIVERED = (
    "SELECT o_w_id w, o_d_id d, o_c_id c, sum(ol_amount) amount FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id "
    "WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3"
)
_DISTRICT = "concat('warehouse ', d_w_id, ', district ', d_id)"
_CUSTOMER = "concat('warehouse ', c_w_id, ', district ', c_d_id, ', customer ', c_id)"
_ORDER = "concat('warehouse ', o_w_id, ', district ', o_d_id, ', order ', o_id)"

# {number of the condition: (what holds, query of what breaks it, each as a text)}. A count that is missing is not equal to anything.
# In words that every database knows.
CONDITIONS = {
    1: (
        "W_YTD = sum(D_YTD)",
        "SELECT concat('warehouse ', w_id) AS breaks FROM warehouse LEFT JOIN (SELECT d_w_id w, sum(d_ytd) ytd FROM district GROUP BY 1) s ON w = w_id "
        "WHERE (w_ytd = ytd) IS NOT TRUE",
    ),
    2: (
        "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        f"SELECT {_DISTRICT} AS breaks FROM district LEFT JOIN ({_ORDERED}) o ON o.w = d_w_id AND o.d = d_id "
        f"LEFT JOIN ({_OPEN}) n ON n.w = d_w_id AND n.d = d_id "
        # Where all orders are delivered there is no newest open one.
        "WHERE (d_next_o_id - 1 = o.last) IS NOT TRUE OR n.last <> o.last",
    ),
    3: (
        "max(NO_O_ID) - min(NO_O_ID) + 1 = number of open orders",
        f"SELECT concat('warehouse ', w, ', district ', d) AS breaks FROM ({_OPEN}) n WHERE last - first + 1 <> orders",
    ),
    4: (
        "sum(O_OL_CNT) = number of order lines",
        f"SELECT {_DISTRICT} AS breaks FROM district LEFT JOIN ({_ORDERED}) o ON o.w = d_w_id AND o.d = d_id "
        f"LEFT JOIN ({_LINES}) l ON l.w = d_w_id AND l.d = d_id "
        "WHERE (o.line_count = l.line_count) IS NOT TRUE",
    ),
    5: (
        "an order has no carrier exactly while it is open",
        f"SELECT {_ORDER} AS breaks FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id "
        "WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    6: (
        "O_OL_CNT = number of lines of the order",
        f"SELECT {_ORDER} AS breaks FROM orders LEFT JOIN (SELECT ol_w_id w, ol_d_id d, ol_o_id o, count(*) line_count FROM order_line GROUP BY 1, 2, 3) l "
        "ON w = o_w_id AND d = o_d_id AND o = o_id WHERE (o_ol_cnt = line_count) IS NOT TRUE",
    ),
    7: (
        "a line has no delivery date exactly while its order has no carrier",
        "SELECT concat('warehouse ', ol_w_id, ', district ', ol_d_id, ', order ', ol_o_id, ', line ', ol_number) AS breaks FROM order_line "
        "LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id "
        "WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    8: (
        "W_YTD = sum(H_AMOUNT)",
        "SELECT concat('warehouse ', w_id) AS breaks FROM warehouse LEFT JOIN (SELECT h_w_id w, sum(h_amount) amount FROM history GROUP BY 1) h ON w = w_id "
        "WHERE (w_ytd = amount) IS NOT TRUE",
    ),
    9: (
        "D_YTD = sum(H_AMOUNT)",
        f"SELECT {_DISTRICT} AS breaks FROM district LEFT JOIN (SELECT h_w_id w, h_d_id d, sum(h_amount) amount FROM history GROUP BY 1, 2) h "
        "ON w = d_w_id AND d = d_id WHERE (d_ytd = amount) IS NOT TRUE",
    ),
    10: (
        "C_BALANCE = sum(OL_AMOUNT of delivered lines) - sum(H_AMOUNT)",
        f"SELECT {_CUSTOMER} AS breaks FROM customer LEFT JOIN ({_PAID}) h ON h.w = c_w_id AND h.d = c_d_id AND h.c = c_id "
        f"LEFT JOIN ({_DELIVERED}) l ON l.w = c_w_id AND l.d = c_d_id AND l.c = c_id "
        "WHERE c_balance <> coalesce(l.amount, 0) - coalesce(h.amount, 0)",
    ),
    11: (
        f"orders - open orders = {DELIVERED}, before the first transaction",
        f"SELECT {_DISTRICT} AS breaks FROM district LEFT JOIN ({_ORDERED}) o ON o.w = d_w_id AND o.d = d_id "
        f"LEFT JOIN ({_OPEN}) n ON n.w = d_w_id AND n.d = d_id "
        f"WHERE (o.orders - n.orders = {DELIVERED}) IS NOT TRUE",
    ),
    12: (
        "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT of delivered lines)",
        f"SELECT {_CUSTOMER} AS breaks FROM customer LEFT JOIN ({_DELIVERED}) l ON l.w = c_w_id AND l.d = c_d_id AND l.c = c_id "
        "WHERE c_balance + c_ytd_payment <> coalesce(l.amount, 0)",
    ),
}
# It speaks of the rows as they were loaded; a delivery closes an order that stays in ORDERS.
LOADED_ONLY = (11,)


def consistency(loaded: bool, only: Collection[int] = tuple(CONDITIONS)) -> str:
    """The query of all conditions: one row 'number|how many break it|one of them' each. loaded: before the first transaction."""
    return "\n".join(
        f"SELECT concat('{number}|', count(*), '|', coalesce(min(breaks), '')) FROM ({query}) AS broken;"
        for number, (_text, query) in CONDITIONS.items()
        if number in only and (loaded or number not in LOADED_ONLY)
    )


def read_consistency(text: str) -> list[dict[str, object]]:
    """[{condition, text, ok, broken, example?}] of what the client printed."""
    checks = []
    for line in text.splitlines():
        number, broken, example = line.split("|", 2)
        checks.append(
            {
                "condition": f"3.3.2.{number}",
                "text": CONDITIONS[int(number)][0],
                "ok": broken == "0",
                "broken": int(broken),
                **({"example": example} if example else {}),
            }
        )
    return checks


# Orders that were ever placed, by the districts' counters: what was acknowledged must be there afterwards.
PLACED = "SELECT sum(d_next_o_id - 1) FROM district;"
