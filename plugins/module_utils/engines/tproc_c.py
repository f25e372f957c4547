# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A TPROC-C style load for PostgreSQL: tables, rows, transactions, and the conditions that the data must meet.

Written from the rules of the TPC-C specification, revision 5.11 (clauses 1.3 tables, 2 transactions, 3.3.2 consistency, 4.3.3 rows, 5.2.3 mix). It is not
TPC-C, and no figure of it is a TPC-C result: there are no terminals, no keying and thinking times, no deferred queue of deliveries and no price, and the
transactions run in the database's procedures with 'read committed' unless told otherwise.
"""

from __future__ import annotations

DISTRICTS, CUSTOMERS, ITEMS = 10, 3000, 100_000
# Orders before the first undelivered one (4.3.3.1).
DELIVERED = 2100
# Constants C of NURand (2.1.6): of last names as loaded and as asked for later, which differ by 65 to 119 and not by 96 or 112; of customers; of items.
C_LAST_LOADED, C_LAST, C_CUSTOMER, C_ITEM = 33, 106, 259, 7911
# What the mix is made of (5.2.3), in tenths of a per mille. The 1 % of New-Orders that are rolled back (2.4.1.4) are a script of their own,
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

TABLES = """
CREATE TABLE warehouse (w_id int, w_name text, w_street_1 text, w_street_2 text, w_city text, w_state char(2), w_zip char(9), w_tax numeric(4, 4),
  w_ytd numeric(12, 2));
CREATE TABLE district (d_id int, d_w_id int, d_name text, d_street_1 text, d_street_2 text, d_city text, d_state char(2), d_zip char(9),
  d_tax numeric(4, 4), d_ytd numeric(12, 2), d_next_o_id int);
CREATE TABLE customer (c_id int, c_d_id int, c_w_id int, c_first text, c_middle char(2), c_last text, c_street_1 text, c_street_2 text, c_city text,
  c_state char(2), c_zip char(9), c_phone char(16), c_since timestamp, c_credit char(2), c_credit_lim numeric(12, 2), c_discount numeric(4, 4),
  c_balance numeric(12, 2), c_ytd_payment numeric(12, 2), c_payment_cnt int, c_delivery_cnt int, c_data text);
CREATE TABLE history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount numeric(6, 2), h_data text);
CREATE TABLE new_order (no_o_id int, no_d_id int, no_w_id int);
CREATE TABLE orders (o_id int, o_d_id int, o_w_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int, o_all_local int);
CREATE TABLE order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int, ol_supply_w_id int, ol_delivery_d timestamp,
  ol_quantity int, ol_amount numeric(6, 2), ol_dist_info char(24));
CREATE TABLE item (i_id int, i_im_id int, i_name text, i_price numeric(5, 2), i_data text);
CREATE TABLE stock (s_i_id int, s_w_id int, s_quantity int, s_dist char(24)[], s_ytd int, s_order_cnt int, s_remote_cnt int, s_data text);
"""

# In PL/pgSQL, because a function of SQL would be made part of the query and evaluated once for all rows.
FUNCTIONS = """
CREATE FUNCTION between_ints(low int, high int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN RETURN low + floor(random() * (high - low + 1))::int; END $$;

CREATE FUNCTION nurand(a int, c int, low int, high int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN RETURN ((between_ints(0, a) | between_ints(low, high)) + c) % (high - low + 1) + low; END $$;

CREATE FUNCTION last_name(number int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  parts text[] := ARRAY['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'];
BEGIN RETURN parts[number / 100 + 1] || parts[number / 10 % 10 + 1] || parts[number % 10 + 1]; END $$;

-- The customer of a last name is the middle one by first name (2.5.2.2).
CREATE FUNCTION customer_of(w int, d int, number int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  ids int[];
BEGIN
  SELECT array_agg(c_id ORDER BY c_first) INTO ids FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = last_name(number);
  RETURN ids[(cardinality(ids) + 1) / 2];
END $$;
"""

PROCEDURES = f"""
-- Two orders never wait for each other: rows of the stock are locked in one order.
CREATE PROCEDURE new_order(w int, d int, c int, lines int, rolled_back boolean, warehouses int) LANGUAGE plpgsql AS $$
DECLARE
  o int; line record; number int := 0; all_local int; warehouse_tax numeric; district_tax numeric; discount numeric; price numeric; district_info text;
  supply int[]; items int[];
BEGIN
  SELECT w_tax INTO warehouse_tax FROM warehouse WHERE w_id = w;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = w AND d_id = d RETURNING d_next_o_id - 1, d_tax INTO o, district_tax;
  SELECT c_discount INTO discount FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  SELECT array_agg(item ORDER BY warehouse, item), array_agg(warehouse ORDER BY warehouse, item), min((warehouse = w)::int)
    INTO items, supply, all_local
    FROM (SELECT nurand(8191, {C_ITEM}, 1, {ITEMS}) AS item,
                 CASE WHEN warehouses > 1 AND random() < 0.01 THEN (w + between_ints(0, warehouses - 2)) % warehouses + 1 ELSE w END AS warehouse
          FROM generate_series(1, lines)) AS drawn;
  INSERT INTO orders VALUES (o, d, w, c, localtimestamp, NULL, lines, all_local);
  INSERT INTO new_order VALUES (o, d, w);
  FOR line IN SELECT * FROM unnest(items, supply) AS drawn (item, warehouse) LOOP
    number := number + 1;
    SELECT i_price INTO price FROM item WHERE i_id = line.item;
    DECLARE
      quantity int := between_ints(1, 10);
    BEGIN
      UPDATE stock SET s_quantity = CASE WHEN s_quantity >= quantity + 10 THEN s_quantity - quantity ELSE s_quantity - quantity + 91 END,
          s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (line.warehouse <> w)::int
        WHERE s_w_id = line.warehouse AND s_i_id = line.item RETURNING s_dist[d] INTO district_info;
      INSERT INTO order_line VALUES (o, d, w, number, line.item, line.warehouse, NULL, quantity, quantity * price, district_info);
    END;
  END LOOP;
  IF rolled_back THEN
    -- As when the last item is not known (2.4.2.3): all of it was done, and nothing of it stays.
    ROLLBACK;
  END IF;
END $$;

CREATE PROCEDURE payment(w int, d int, cw int, cd int, c int, amount numeric) LANGUAGE plpgsql AS $$
DECLARE
  warehouse_name text; district_name text;
BEGIN
  UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w RETURNING w_name INTO warehouse_name;
  UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d RETURNING d_name INTO district_name;
  -- Less than 0 is a last name, counted down from -1.
  IF c < 0 THEN c := customer_of(cw, cd, -1 - c); END IF;
  UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
      c_data = CASE WHEN c_credit = 'BC' THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, d, w, amount, c_data), 500) ELSE c_data END
    WHERE c_w_id = cw AND c_d_id = cd AND c_id = c;
  INSERT INTO history VALUES (c, cd, cw, d, w, localtimestamp, amount, warehouse_name || '    ' || district_name);
END $$;

CREATE PROCEDURE order_status(w int, d int, c int) LANGUAGE plpgsql AS $$
DECLARE
  balance numeric; o int; quantities bigint;
BEGIN
  IF c < 0 THEN c := customer_of(w, d, -1 - c); END IF;
  SELECT c_balance INTO balance FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  SELECT o_id INTO o FROM orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = c ORDER BY o_id DESC LIMIT 1;
  SELECT sum(ol_quantity) INTO quantities FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
END $$;

-- One delivery of a warehouse at a time, as from its queue (2.7.2); two at once would look for the same oldest order.
CREATE PROCEDURE delivery(w int, carrier int) LANGUAGE plpgsql AS $$
DECLARE
  o int; c int; amount numeric;
BEGIN
  PERFORM pg_advisory_xact_lock(w);
  FOR d IN 1 .. {DISTRICTS} LOOP
    SELECT no_o_id INTO o FROM new_order WHERE no_w_id = w AND no_d_id = d ORDER BY no_o_id LIMIT 1;
    CONTINUE WHEN o IS NULL;
    DELETE FROM new_order WHERE no_w_id = w AND no_d_id = d AND no_o_id = o;
    UPDATE orders SET o_carrier_id = carrier WHERE o_w_id = w AND o_d_id = d AND o_id = o RETURNING o_c_id INTO c;
    UPDATE order_line SET ol_delivery_d = localtimestamp WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
    SELECT sum(ol_amount) INTO amount FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
    UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  END LOOP;
END $$;

CREATE PROCEDURE stock_level(w int, d int, threshold int) LANGUAGE plpgsql AS $$
DECLARE
  next_o int; low bigint;
BEGIN
  SELECT d_next_o_id INTO next_o FROM district WHERE d_w_id = w AND d_id = d;
  SELECT count(DISTINCT s_i_id) INTO low FROM order_line JOIN stock ON s_w_id = w AND s_i_id = ol_i_id
    WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id >= next_o - 20 AND ol_o_id < next_o AND s_quantity < threshold;
END $$;
"""

INDEXES = """
ALTER TABLE warehouse ADD PRIMARY KEY (w_id);
ALTER TABLE district ADD PRIMARY KEY (d_w_id, d_id);
ALTER TABLE customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id);
ALTER TABLE new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id);
ALTER TABLE orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id);
ALTER TABLE order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number);
ALTER TABLE item ADD PRIMARY KEY (i_id);
ALTER TABLE stock ADD PRIMARY KEY (s_w_id, s_i_id);
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
"""


# Expressions in place of functions, whose calls would take most of the time that loading takes.
def _number(low: int, high: int) -> str:
    return f"({low} + floor(random() * {high - low + 1})::int)"


def _text(low: int, high: int) -> str:
    """Between low and high characters."""
    drawn = " || ".join(["md5(random()::text)"] * -(-high // 32))
    return f"left({drawn}, {low if low == high else _number(low, high)})"


def _nurand(a: int, c: int, low: int, high: int) -> str:
    return f"((({_number(0, a)} | {_number(low, high)}) + {c}) % {high - low + 1} + {low})"


_ADDRESS = f"{_text(10, 20)}, {_text(10, 20)}, {_text(10, 20)}, {_text(2, 2)}, lpad({_number(0, 9999)}::text, 4, '0') || '11111'"
# One in ten is an original (4.3.3.1).
_DATA = f"CASE WHEN random() < 0.1 THEN {_text(9, 21)} || 'ORIGINAL' || {_text(9, 21)} ELSE {_text(26, 50)} END"
_LAST_NAME = f"last_name(CASE WHEN c <= 1000 THEN c - 1 ELSE {_nurand(255, C_LAST_LOADED, 0, 999)} END)"
_ALL_CUSTOMERS = f"generate_series(1, {DISTRICTS}) d, generate_series(1, {CUSTOMERS}) c"


def schema() -> str:
    return TABLES + FUNCTIONS + PROCEDURES


def rows_of_items() -> str:
    return (
        f"INSERT INTO item SELECT i, {_number(1, 10000)}, {_text(14, 24)}, {_number(100, 10000)} / 100.0, {_DATA} "
        f"FROM generate_series(1, {ITEMS}) i;\n"
    )


def rows_of(warehouse: int) -> str:
    """The rows of one warehouse (4.3.3.1), without those that all warehouses share."""
    w = int(warehouse)
    return f"""
INSERT INTO warehouse SELECT {w}, {_text(6, 10)}, {_ADDRESS}, {_number(0, 2000)} / 10000.0, 300000;
INSERT INTO district SELECT d, {w}, {_text(6, 10)}, {_ADDRESS}, {_number(0, 2000)} / 10000.0, 30000, {CUSTOMERS} + 1 FROM generate_series(1, {DISTRICTS}) d;
INSERT INTO customer SELECT c, d, {w}, {_text(8, 16)}, 'OE', {_LAST_NAME}, {_ADDRESS}, lpad({_number(0, 99999999)}::text, 16, '0'), localtimestamp,
  CASE WHEN random() < 0.1 THEN 'BC' ELSE 'GC' END, 50000, {_number(0, 5000)} / 10000.0, -10, 10, 1, 0, {_text(300, 500)} FROM {_ALL_CUSTOMERS};
INSERT INTO history SELECT c, d, {w}, d, {w}, localtimestamp, 10, {_text(12, 24)} FROM {_ALL_CUSTOMERS};
INSERT INTO stock SELECT i, {w}, {_number(10, 100)}, ARRAY[{", ".join([_text(24, 24)] * DISTRICTS)}], 0, 0, 0, {_DATA} FROM generate_series(1, {ITEMS}) i;
INSERT INTO orders SELECT o, d, {w}, c, localtimestamp, CASE WHEN o <= {DELIVERED} THEN {_number(1, 10)} END, {_number(5, 15)}, 1
  FROM (SELECT row_number() OVER (PARTITION BY d ORDER BY random()) AS o, d, c FROM {_ALL_CUSTOMERS}) AS shuffled;
INSERT INTO new_order SELECT o_id, o_d_id, o_w_id FROM orders WHERE o_w_id = {w} AND o_id > {DELIVERED};
INSERT INTO order_line SELECT o_id, o_d_id, o_w_id, line, {_number(1, ITEMS)}, o_w_id, CASE WHEN o_id <= {DELIVERED} THEN o_entry_d END, 5,
  CASE WHEN o_id <= {DELIVERED} THEN 0 ELSE {_number(1, 999999)} / 100.0 END, {_text(24, 24)}
  FROM orders CROSS JOIN LATERAL generate_series(1, o_ol_cnt) line WHERE o_w_id = {w};
"""


# Each virtual user has a warehouse of its own as long as there are enough, as terminals have (2.4.1.1).
_HOME = "\\set w 1 + mod(:client_id, :warehouses)\n"
_NAME_OR_NUMBER = f"""\\set number ((random(0, 1023) | random(1, {CUSTOMERS})) + {C_CUSTOMER}) % {CUSTOMERS} + 1
\\set name -1 - ((random(0, 255) | random(0, 999)) + {C_LAST}) % 1000
\\set c case when random(1, 100) <= 60 then :name else :number end
"""


def _new_order(rolled_back: str) -> str:
    return f"""{_HOME}\\set d random(1, {DISTRICTS})
\\set c ((random(0, 1023) | random(1, {CUSTOMERS})) + {C_CUSTOMER}) % {CUSTOMERS} + 1
\\set lines random(5, 15)
CALL new_order(:w, :d, :c, :lines, {rolled_back}, :warehouses);
"""


# One file for pgbench each, in the order of KINDS. 15 % of payments are of a customer of another warehouse, where there is one (2.5.1.2).
SCRIPTS = {
    "new_order": _new_order("false"),
    "new_order_rolled_back": _new_order("true"),
    "payment": f"""{_HOME}\\set d random(1, {DISTRICTS})
\\set amount random(100, 500000)
\\set away case when :warehouses > 1 and random(1, 100) > 85 then 1 else 0 end
\\set other 1 + mod(:w + random(0, greatest(:warehouses - 2, 0)), :warehouses)
\\set cw case when :away = 1 then :other else :w end
\\set any random(1, {DISTRICTS})
\\set cd case when :away = 1 then :any else :d end
{_NAME_OR_NUMBER}CALL payment(:w, :d, :cw, :cd, :c, :amount / 100.0);
""",
    "order_status": f"{_HOME}\\set d random(1, {DISTRICTS})\n{_NAME_OR_NUMBER}CALL order_status(:w, :d, :c);\n",
    "delivery": f"{_HOME}\\set carrier random(1, 10)\nCALL delivery(:w, :carrier);\n",
    # A terminal asks for the stock of its own district.
    "stock_level": f"""{_HOME}\\set d 1 + mod(:client_id / :warehouses, {DISTRICTS})
\\set threshold random(10, 20)
CALL stock_level(:w, :d, :threshold);
""",
}


# ---------------------------------------------------------------- consistency, clause 3.3.2

_ORDERED = "SELECT o_w_id w, o_d_id d, max(o_id) last, count(*) orders, sum(o_ol_cnt) lines FROM orders GROUP BY 1, 2"
_OPEN = (
    "SELECT no_w_id w, no_d_id d, min(no_o_id) first, max(no_o_id) last, count(*) orders FROM new_order GROUP BY 1, 2"
)
_LINES = "SELECT ol_w_id w, ol_d_id d, count(*) lines FROM order_line GROUP BY 1, 2"
_PAID = "SELECT h_c_w_id w, h_c_d_id d, h_c_id c, sum(h_amount) amount FROM history GROUP BY 1, 2, 3"
_DELIVERED = (
    "SELECT o_w_id w, o_d_id d, o_c_id c, sum(ol_amount) amount FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id "
    "WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3"
)
_DISTRICT = "format('warehouse %s, district %s', d_w_id, d_id)"
_CUSTOMER = "format('warehouse %s, district %s, customer %s', c_w_id, c_d_id, c_id)"
_ORDER = "format('warehouse %s, district %s, order %s', o_w_id, o_d_id, o_id)"

# {number of the condition: (what holds, query of what breaks it, each as a text)}. A count that is missing is not equal to anything.
CONDITIONS = {
    1: (
        "W_YTD = sum(D_YTD)",
        "SELECT format('warehouse %s', w_id) FROM warehouse LEFT JOIN (SELECT d_w_id w, sum(d_ytd) ytd FROM district GROUP BY 1) s ON w = w_id "
        "WHERE w_ytd IS DISTINCT FROM ytd",
    ),
    2: (
        "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        f"SELECT {_DISTRICT} FROM district LEFT JOIN ({_ORDERED}) o ON o.w = d_w_id AND o.d = d_id LEFT JOIN ({_OPEN}) n ON n.w = d_w_id AND n.d = d_id "
        # Where all orders are delivered there is no newest open one.
        "WHERE d_next_o_id - 1 IS DISTINCT FROM o.last OR n.last <> o.last",
    ),
    3: (
        "max(NO_O_ID) - min(NO_O_ID) + 1 = number of open orders",
        f"SELECT format('warehouse %s, district %s', w, d) FROM ({_OPEN}) n WHERE last - first + 1 <> orders",
    ),
    4: (
        "sum(O_OL_CNT) = number of order lines",
        f"SELECT {_DISTRICT} FROM district LEFT JOIN ({_ORDERED}) o ON o.w = d_w_id AND o.d = d_id LEFT JOIN ({_LINES}) l ON l.w = d_w_id AND l.d = d_id "
        "WHERE o.lines IS DISTINCT FROM l.lines",
    ),
    5: (
        "an order has no carrier exactly while it is open",
        f"SELECT {_ORDER} FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id "
        "WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    6: (
        "O_OL_CNT = number of lines of the order",
        f"SELECT {_ORDER} FROM orders LEFT JOIN (SELECT ol_w_id w, ol_d_id d, ol_o_id o, count(*) lines FROM order_line GROUP BY 1, 2, 3) l "
        "ON w = o_w_id AND d = o_d_id AND o = o_id WHERE o_ol_cnt IS DISTINCT FROM lines",
    ),
    7: (
        "a line has no delivery date exactly while its order has no carrier",
        "SELECT format('warehouse %s, district %s, order %s, line %s', ol_w_id, ol_d_id, ol_o_id, ol_number) FROM order_line "
        "LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id "
        "WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    8: (
        "W_YTD = sum(H_AMOUNT)",
        "SELECT format('warehouse %s', w_id) FROM warehouse LEFT JOIN (SELECT h_w_id w, sum(h_amount) amount FROM history GROUP BY 1) h ON w = w_id "
        "WHERE w_ytd IS DISTINCT FROM amount",
    ),
    9: (
        "D_YTD = sum(H_AMOUNT)",
        f"SELECT {_DISTRICT} FROM district LEFT JOIN (SELECT h_w_id w, h_d_id d, sum(h_amount) amount FROM history GROUP BY 1, 2) h "
        "ON w = d_w_id AND d = d_id WHERE d_ytd IS DISTINCT FROM amount",
    ),
    10: (
        "C_BALANCE = sum(OL_AMOUNT of delivered lines) - sum(H_AMOUNT)",
        f"SELECT {_CUSTOMER} FROM customer LEFT JOIN ({_PAID}) h ON h.w = c_w_id AND h.d = c_d_id AND h.c = c_id "
        f"LEFT JOIN ({_DELIVERED}) l ON l.w = c_w_id AND l.d = c_d_id AND l.c = c_id "
        "WHERE c_balance <> coalesce(l.amount, 0) - coalesce(h.amount, 0)",
    ),
    11: (
        f"orders - open orders = {DELIVERED}, before the first transaction",
        f"SELECT {_DISTRICT} FROM district LEFT JOIN ({_ORDERED}) o ON o.w = d_w_id AND o.d = d_id LEFT JOIN ({_OPEN}) n ON n.w = d_w_id AND n.d = d_id "
        f"WHERE o.orders - n.orders IS DISTINCT FROM {DELIVERED}",
    ),
    12: (
        "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT of delivered lines)",
        f"SELECT {_CUSTOMER} FROM customer LEFT JOIN ({_DELIVERED}) l ON l.w = c_w_id AND l.d = c_d_id AND l.c = c_id "
        "WHERE c_balance + c_ytd_payment <> coalesce(l.amount, 0)",
    ),
}
# It speaks of the rows as they were loaded; a delivery closes an order that stays in ORDERS.
LOADED_ONLY = (11,)


def consistency(loaded: bool) -> str:
    """The query of all conditions: one row 'number|how many break it|one of them' each. loaded: before the first transaction."""
    return "\n".join(
        f"SELECT {number}, count(*), min(breaks) FROM ({query}) AS broken (breaks);"
        for number, (_text, query) in CONDITIONS.items()
        if loaded or number not in LOADED_ONLY
    )


def read_consistency(text: str) -> list[dict[str, object]]:
    """[{condition, text, ok, broken, example?}] of what psql printed."""
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
