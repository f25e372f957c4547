# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The TPROC-C style load (tproc_c.py) in MariaDB: tables of InnoDB, rows, and transactions, which sysbench calls."""

from __future__ import annotations

from .tproc_c import C_CUSTOMER, C_ITEM, C_LAST, C_LAST_LOADED, CUSTOMERS, DELIVERED, DISTRICTS, ITEMS, KINDS, WEIGHTS

_DISTRICT_NUMBERS = range(1, DISTRICTS + 1)
_DIST_COLUMNS = [f"s_dist_{number:02d}" for number in _DISTRICT_NUMBERS]

# The rows of InnoDB are in the order of the primary key, so it is there before them.
TABLES = f"""
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), w_city varchar(20), w_state char(2),
  w_zip char(9), w_tax decimal(4, 4), w_ytd decimal(12, 2)) ENGINE = InnoDB;
CREATE TABLE district (d_id int, d_w_id int, d_name varchar(10), d_street_1 varchar(20), d_street_2 varchar(20), d_city varchar(20), d_state char(2),
  d_zip char(9), d_tax decimal(4, 4), d_ytd decimal(12, 2), d_next_o_id int, PRIMARY KEY (d_w_id, d_id)) ENGINE = InnoDB;
CREATE TABLE customer (c_id int, c_d_id int, c_w_id int, c_first varchar(16), c_middle char(2), c_last varchar(16), c_street_1 varchar(20),
  c_street_2 varchar(20), c_city varchar(20), c_state char(2), c_zip char(9), c_phone char(16), c_since datetime, c_credit char(2),
  c_credit_lim decimal(12, 2), c_discount decimal(4, 4), c_balance decimal(12, 2), c_ytd_payment decimal(12, 2), c_payment_cnt int, c_delivery_cnt int,
  c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id)) ENGINE = InnoDB;
CREATE TABLE history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date datetime, h_amount decimal(6, 2), h_data varchar(24))
  ENGINE = InnoDB;
CREATE TABLE new_order (no_o_id int, no_d_id int, no_w_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id)) ENGINE = InnoDB;
CREATE TABLE orders (o_id int, o_d_id int, o_w_id int, o_c_id int, o_entry_d datetime, o_carrier_id int, o_ol_cnt int, o_all_local int,
  PRIMARY KEY (o_w_id, o_d_id, o_id)) ENGINE = InnoDB;
CREATE TABLE order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int, ol_supply_w_id int, ol_delivery_d datetime, ol_quantity int,
  ol_amount decimal(6, 2), ol_dist_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)) ENGINE = InnoDB;
CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int, i_name varchar(24), i_price decimal(5, 2), i_data varchar(50)) ENGINE = InnoDB;
CREATE TABLE stock (s_i_id int, s_w_id int, s_quantity int, {", ".join(f"{column} char(24)" for column in _DIST_COLUMNS)}, s_ytd int, s_order_cnt int,
  s_remote_cnt int, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id)) ENGINE = InnoDB;
"""

INDEXES = """
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
"""

STATISTICS = "ANALYZE TABLE warehouse, district, customer, history, new_order, orders, order_line, item, stock;"


def _number(low: int | str, high: int | str) -> str:
    return f"({low} + floor(rand() * ({high} - {low} + 1)))"


def _text(low: int, high: int) -> str:
    """Between low and high characters."""
    drawn = ", ".join(["md5(rand())"] * -(-high // 32))
    return f"left(concat({drawn}), {low if low == high else _number(low, high)})"


def _nurand(a: int, c: int, low: int, high: int) -> str:
    return f"((({_number(0, a)} | {_number(low, high)}) + {c}) % {high - low + 1} + {low})"


_SYLLABLES = "'BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'"


def _last_name(number: str) -> str:
    parts = (
        f"elt({digit} + 1, {_SYLLABLES})" for digit in (f"{number} DIV 100", f"{number} DIV 10 % 10", f"{number} % 10")
    )
    return f"concat({', '.join(parts)})"


# A transaction that fails is rolled back as a whole, and the driver learns of it.
_WHOLE = "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;"

PROCEDURES = f"""
DELIMITER //
-- The customer of a last name is the middle one by first name (2.5.2.2).
CREATE PROCEDURE customer_of(w int, d int, number int, OUT c int)
BEGIN
  DECLARE name varchar(16) DEFAULT {_last_name("number")};
  DECLARE middle int;
  SELECT (count(*) + 1) DIV 2 - 1 INTO middle FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = name;
  SELECT c_id INTO c FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = name ORDER BY c_first LIMIT 1 OFFSET middle;
END //

-- Two orders never wait for each other: rows of the stock are locked in one order.
CREATE PROCEDURE new_order(w int, d int, c int, line_count int, rolled_back boolean, warehouses int)
BEGIN
  DECLARE o, i, supply, quantity int;
  DECLARE number int DEFAULT 0;
  DECLARE all_local int DEFAULT 1;
  DECLARE warehouse_tax, district_tax, discount decimal(4, 4);
  DECLARE price decimal(5, 2);
  DECLARE district_info char(24);
  -- The limit keeps what was drawn from being drawn again for its sorting.
  DECLARE drawn CURSOR FOR
    SELECT item, supplier FROM (
      SELECT {_nurand(8191, C_ITEM, 1, ITEMS)} AS item,
             CASE WHEN warehouses > 1 AND rand() < 0.01 THEN (w + {_number(0, "warehouses - 2")}) % warehouses + 1 ELSE w END AS supplier
      FROM seq_1_to_15 LIMIT line_count) AS lines_drawn
    ORDER BY supplier, item;
  {_WHOLE}
  START TRANSACTION;
  SELECT w_tax INTO warehouse_tax FROM warehouse WHERE w_id = w;
  SELECT d_next_o_id, d_tax INTO o, district_tax FROM district WHERE d_w_id = w AND d_id = d FOR UPDATE;
  UPDATE district SET d_next_o_id = o + 1 WHERE d_w_id = w AND d_id = d;
  SELECT c_discount INTO discount FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  OPEN drawn;
  WHILE number < line_count DO
    FETCH drawn INTO i, supply;
    SET number = number + 1, quantity = {_number(1, 10)}, all_local = all_local AND supply = w;
    SELECT i_price INTO price FROM item WHERE i_id = i;
    UPDATE stock SET s_quantity = CASE WHEN s_quantity >= quantity + 10 THEN s_quantity - quantity ELSE s_quantity - quantity + 91 END,
        s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (supply <> w)
      WHERE s_w_id = supply AND s_i_id = i;
    SELECT elt(d, {", ".join(_DIST_COLUMNS)}) INTO district_info FROM stock WHERE s_w_id = supply AND s_i_id = i;
    INSERT INTO order_line VALUES (o, d, w, number, i, supply, NULL, quantity, quantity * price, district_info);
  END WHILE;
  CLOSE drawn;
  INSERT INTO orders VALUES (o, d, w, c, now(), NULL, line_count, all_local);
  INSERT INTO new_order VALUES (o, d, w);
  IF rolled_back THEN
    -- As when the last item is not known (2.4.2.3): all of it was done, and nothing of it stays.
    ROLLBACK;
  ELSE
    COMMIT;
  END IF;
END //

CREATE PROCEDURE payment(w int, d int, cw int, cd int, c int, amount decimal(6, 2))
BEGIN
  DECLARE warehouse_name, district_name varchar(10);
  {_WHOLE}
  START TRANSACTION;
  UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w;
  SELECT w_name INTO warehouse_name FROM warehouse WHERE w_id = w;
  UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d;
  SELECT d_name INTO district_name FROM district WHERE d_w_id = w AND d_id = d;
  -- Less than 0 is a last name, counted down from -1.
  IF c < 0 THEN CALL customer_of(cw, cd, -1 - c, c); END IF;
  UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
      c_data = CASE WHEN c_credit = 'BC' THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, d, w, amount, c_data), 500) ELSE c_data END
    WHERE c_w_id = cw AND c_d_id = cd AND c_id = c;
  INSERT INTO history VALUES (c, cd, cw, d, w, now(), amount, concat(warehouse_name, '    ', district_name));
  COMMIT;
END //

CREATE PROCEDURE order_status(w int, d int, c int)
BEGIN
  DECLARE balance decimal(12, 2);
  DECLARE o int;
  DECLARE quantities bigint;
  {_WHOLE}
  START TRANSACTION;
  IF c < 0 THEN CALL customer_of(w, d, -1 - c, c); END IF;
  SELECT c_balance INTO balance FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  SELECT max(o_id) INTO o FROM orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = c;
  SELECT sum(ol_quantity) INTO quantities FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
  COMMIT;
END //

-- The oldest order is locked as it is looked for, so two deliveries of a warehouse never take the same one (2.7.2).
CREATE PROCEDURE delivery(w int, carrier int)
BEGIN
  DECLARE o, c int;
  DECLARE d int DEFAULT 1;
  DECLARE amount decimal(12, 2);
  {_WHOLE}
  START TRANSACTION;
  WHILE d <= {DISTRICTS} DO
    SET o = NULL;
    SELECT no_o_id INTO o FROM new_order WHERE no_w_id = w AND no_d_id = d ORDER BY no_o_id LIMIT 1 FOR UPDATE;
    IF o IS NOT NULL THEN
      DELETE FROM new_order WHERE no_w_id = w AND no_d_id = d AND no_o_id = o;
      UPDATE orders SET o_carrier_id = carrier WHERE o_w_id = w AND o_d_id = d AND o_id = o;
      SELECT o_c_id INTO c FROM orders WHERE o_w_id = w AND o_d_id = d AND o_id = o;
      UPDATE order_line SET ol_delivery_d = now() WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
      SELECT sum(ol_amount) INTO amount FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
      UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    END IF;
    SET d = d + 1;
  END WHILE;
  COMMIT;
END //

CREATE PROCEDURE stock_level(w int, d int, threshold int)
BEGIN
  DECLARE next_o int;
  DECLARE low bigint;
  {_WHOLE}
  START TRANSACTION;
  SELECT d_next_o_id INTO next_o FROM district WHERE d_w_id = w AND d_id = d;
  SELECT count(DISTINCT s_i_id) INTO low FROM order_line JOIN stock ON s_w_id = w AND s_i_id = ol_i_id
    WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id >= next_o - 20 AND ol_o_id < next_o AND s_quantity < threshold;
  COMMIT;
END //
DELIMITER ;
"""

_ADDRESS = f"{_text(10, 20)}, {_text(10, 20)}, {_text(10, 20)}, {_text(2, 2)}, concat(lpad({_number(0, 9999)}, 4, '0'), '11111')"
# One in ten is an original (4.3.3.1).
_DATA = f"CASE WHEN rand() < 0.1 THEN concat({_text(9, 21)}, 'ORIGINAL', {_text(9, 21)}) ELSE {_text(26, 50)} END"
_ALL_CUSTOMERS = f"seq_1_to_{DISTRICTS} d JOIN seq_1_to_{CUSTOMERS} c"


def schema() -> str:
    return TABLES + PROCEDURES


def rows_of_items() -> str:
    return f"INSERT INTO item SELECT seq, {_number(1, 10000)}, {_text(14, 24)}, {_number(100, 10000)} / 100, {_DATA} FROM seq_1_to_{ITEMS};\n"


def rows_of(warehouse: int) -> str:
    """The rows of one warehouse (4.3.3.1), without those that all warehouses share."""
    w = int(warehouse)
    return f"""
INSERT INTO warehouse SELECT {w}, {_text(6, 10)}, {_ADDRESS}, {_number(0, 2000)} / 10000, 300000;
INSERT INTO district SELECT seq, {w}, {_text(6, 10)}, {_ADDRESS}, {_number(0, 2000)} / 10000, 30000, {CUSTOMERS} + 1 FROM seq_1_to_{DISTRICTS};
INSERT INTO customer SELECT c, d, {w}, {_text(8, 16)}, 'OE', {_last_name("name")}, {_ADDRESS}, lpad({_number(0, 99999999)}, 16, '0'), now(),
  CASE WHEN rand() < 0.1 THEN 'BC' ELSE 'GC' END, 50000, {_number(0, 5000)} / 10000, -10, 10, 1, 0, {_text(300, 500)}
  FROM (SELECT d.seq AS d, c.seq AS c, CASE WHEN c.seq <= 1000 THEN c.seq - 1 ELSE {_nurand(255, C_LAST_LOADED, 0, 999)} END AS name
        FROM {_ALL_CUSTOMERS} LIMIT {DISTRICTS * CUSTOMERS}) AS named;
INSERT INTO history SELECT c.seq, d.seq, {w}, d.seq, {w}, now(), 10, {_text(12, 24)} FROM {_ALL_CUSTOMERS};
INSERT INTO stock SELECT seq, {w}, {_number(10, 100)}, {", ".join([_text(24, 24)] * DISTRICTS)}, 0, 0, 0, {_DATA} FROM seq_1_to_{ITEMS};
INSERT INTO orders SELECT o, d, {w}, c, now(), CASE WHEN o <= {DELIVERED} THEN {_number(1, 10)} END, {_number(5, 15)}, 1
  FROM (SELECT row_number() OVER (PARTITION BY d.seq ORDER BY rand()) AS o, d.seq AS d, c.seq AS c FROM {_ALL_CUSTOMERS}) AS shuffled;
INSERT INTO new_order SELECT o_id, o_d_id, o_w_id FROM orders WHERE o_w_id = {w} AND o_id > {DELIVERED};
INSERT INTO order_line SELECT o_id, o_d_id, o_w_id, seq, {_number(1, ITEMS)}, o_w_id, CASE WHEN o_id <= {DELIVERED} THEN o_entry_d END, 5,
  CASE WHEN o_id <= {DELIVERED} THEN 0 ELSE {_number(1, 999999)} / 100 END, {_text(24, 24)}
  FROM orders JOIN seq_1_to_15 ON seq <= o_ol_cnt WHERE o_w_id = {w};
"""


# ---------------------------------------------------------------- what sysbench runs

# Each thread is a virtual user with a connection and a log of its own, whose lines are described in transactions.py.
# Each virtual user has a warehouse of its own as long as there are enough, as terminals have (2.4.1.1).
SCRIPT = f"""
local ffi = require("ffi")
ffi.cdef[[
  typedef struct {{ long seconds; long nanoseconds; }} storlab_time;
  int storlab_clock(int clock, storlab_time *time) __asm__("clock_gettime");
]]
local REALTIME, MONOTONIC = 0, 1

sysbench.cmdline.options = {{
  warehouses = {{"Warehouses", 1}},
  isolation = {{"Isolation of the transactions", "READ COMMITTED"}},
  tries = {{"How often a transaction is tried", 10}},
  log = {{"Prefix of the logs", "transactions"}},
}}

local time = ffi.new("storlab_time")
local function clock(which)
  ffi.C.storlab_clock(which, time)
  return tonumber(time.seconds), math.floor(tonumber(time.nanoseconds) / 1000)
end

local connection, log, id, home, number
local random = sysbench.rand.uniform

local function nurand(a, c, low, high)
  return (bit.bor(random(0, a), random(low, high)) + c) % (high - low + 1) + low
end

local function by_number()
  return nurand(1023, {C_CUSTOMER}, 1, {CUSTOMERS})
end

-- Less than 0 is a last name, counted down from -1.
local function by_name_or_number()
  if random(1, 100) <= 60 then
    return -1 - nurand(255, {C_LAST}, 0, 999)
  end
  return by_number()
end

local function new_order(rolled_back)
  return string.format("CALL new_order(%d, %d, %d, %d, %d, %d)", home, random(1, {DISTRICTS}), by_number(), random(5, 15), rolled_back,
    sysbench.opt.warehouses)
end

local calls = {{
  new_order = function() return new_order(0) end,
  new_order_rolled_back = function() return new_order(1) end,
  -- 15 % are of a customer of another warehouse, where there is one (2.5.1.2).
  payment = function()
    local d, warehouses = random(1, {DISTRICTS}), sysbench.opt.warehouses
    local cw, cd = home, d
    if warehouses > 1 and random(1, 100) > 85 then
      cw, cd = (home + random(0, warehouses - 2)) % warehouses + 1, random(1, {DISTRICTS})
    end
    return string.format("CALL payment(%d, %d, %d, %d, %d, %.2f)", home, d, cw, cd, by_name_or_number(), random(100, 500000) / 100)
  end,
  order_status = function() return string.format("CALL order_status(%d, %d, %d)", home, random(1, {DISTRICTS}), by_name_or_number()) end,
  delivery = function() return string.format("CALL delivery(%d, %d)", home, random(1, 10)) end,
  -- A terminal asks for the stock of its own district.
  stock_level = function()
    local d = 1 + math.floor(id / sysbench.opt.warehouses) % {DISTRICTS}
    return string.format("CALL stock_level(%d, %d, %d)", home, d, random(10, 20))
  end,
}}
local kinds = {{{", ".join(f'{{"{kind}", {WEIGHTS[kind]}}}' for kind in KINDS)}}}

function thread_init()
  id, number = sysbench.tid, 0
  home = 1 + id % sysbench.opt.warehouses
  connection = sysbench.sql.driver():connect()
  connection:query("SET SESSION TRANSACTION ISOLATION LEVEL " .. sysbench.opt.isolation)
  log = assert(io.open(sysbench.opt.log .. "." .. id, "w"))
  log:setvbuf("full", 4096)
end

function thread_done()
  log:close()
  connection:disconnect()
end

local function draw()
  local drawn = random(1, {sum(WEIGHTS.values())})
  for index, kind in ipairs(kinds) do
    drawn = drawn - kind[2]
    if drawn <= 0 then
      return index - 1, calls[kind[1]]()
    end
  end
end

function event()
  local kind, call = draw()
  local begun_s, begun_us = clock(MONOTONIC)
  local tries, done = 0, false
  repeat
    local answered, problem = pcall(connection.query, connection, call)
    done, tries = answered, tries + 1
    -- What the database refused for the sake of isolation is tried again; all else ends the load.
    if not answered and not (type(problem) == "table" and problem.errcode == sysbench.error.RESTART_EVENT) then
      error(problem, 0)
    end
  until done or tries >= sysbench.opt.tries
  local ended_s, ended_us = clock(MONOTONIC)
  number = number + 1
  local took = done and string.format("%d", (ended_s - begun_s) * 1000000 + ended_us - begun_us) or "failed"
  local now_s, now_us = clock(REALTIME)
  assert(log:write(string.format("%d %d %s %d %d %d %d\\n", id, number, took, kind, now_s, now_us, tries - 1)))
end
"""
