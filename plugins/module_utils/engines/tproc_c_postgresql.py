# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The TPROC-C style load (tproc_c.py) in PostgreSQL: tables, rows, and transactions, which pgbench calls."""

from __future__ import annotations

from .tproc_c import C_CUSTOMER, C_ITEM, C_LAST, C_LAST_LOADED, CUSTOMERS, DELIVERED, DISTRICTS, ITEMS

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

STATISTICS = "VACUUM ANALYZE; CHECKPOINT;"
