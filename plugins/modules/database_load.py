#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: database_load
short_description: Makes a private database on a datastore, for a TPROC-C style load
version_added: 1.0.0
description:
  - Makes one PostgreSQL or MariaDB of a testbed on the file system of a datastore, loads warehouses into it, checks what it has loaded, and leaves it running;
    or ends it and removes it with all that it holds.
  - The rows and transactions follow the rules of the TPC-C specification. It is not TPC-C, and no figure of it is a TPC-C result; C(docs/database.md) says why.
  - It is private. A user without rights runs it, it listens on no network, and its socket is in a folder that only this user enters,
    C(/run/storlab-database/<testbed_id>). Databases of the distribution are not looked at.
  - It is in C(storlab-database) on the mount point of the layer. A folder of that name without this testbed's stamp is refused. A record of it is also
    recorded in C(/run/storlab/<testbed_id>/database.json).
  - PostgreSQL needs its own programs C(initdb), C(pg_ctl), C(postgres), C(psql) and C(pgbench), of version 11 or later. MariaDB needs C(mariadbd),
    C(mariadb-install-db) and C(mariadb), of version 10.6 or later, and C(sysbench).
options:
  testbed_id:
    description: The testbed that the database belongs to.
    type: str
    required: true
  state:
    description: V(present) makes it as it is described and starts it, V(absent) ends and removes it.
    type: str
    choices: [present, absent]
    default: present
  database:
    description: Which database it is. A testbed has at most one per host; O(state=absent) removes it, whichever it is.
    type: str
    choices: [postgresql, mariadb]
    default: postgresql
  layer:
    description: Layer of a datastore that is mounted on this host. The file system mounted there must be that one.
    type: str
    default: ""
  warehouses:
    description: Warehouses, of about 105 MiB each in PostgreSQL and 145 MiB in MariaDB. A database with another number is recreated.
    type: int
    default: 1
  shared_buffers_mib:
    description:
      - Memory in which the database keeps pages, MariaDB's C(innodb_buffer_pool_size). Pages that fit in it are not read from the layer, nor pages in the
        host's page cache, which InnoDB goes around by C(O_DIRECT) where the file system allows it.
    type: int
    default: 128
  max_wal_mib:
    description: PostgreSQL's C(max_wal_size), about which its log is allowed to grow on the layer; MariaDB's C(innodb_log_file_size), which it always has.
    type: int
    default: 1024
  settings:
    description: Further parameters of the database, beside those that keep it private.
    type: dict
    default: {}
  bin_dir:
    description: Folder with the database's programs. By default the host's own, the newest version of PostgreSQL.
    type: path
  hammerdb_dir:
    description:
      - Folder of your own copy of HammerDB on the host, of version 4.6 or later, which the database's user may read. With it HammerDB makes the rows and issues
        the load, in the place of pgbench or sysbench.
    type: path
  user:
    description: User that runs it. By default C(postgres) or C(mysql) where there is one, else C(nobody).
    type: str
    default: ""
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.layers
attributes:
  check_mode:
    description: Changes nothing, and refuses what would be refused.
    support: full
  diff_mode:
    description: Shows the steps.
    support: full
  platform:
    description: Linux.
    support: full
    platforms: linux
seealso:
  - module: storlab.testbed.database_measure
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: A database of ten warehouses on a datastore
  storlab.testbed.database_load:
    testbed_id: lab
    layers: "{{ ansible_facts.storlab_layers }}"
    layer: datastore-ds1
    warehouses: 10

- name: Remove it
  storlab.testbed.database_load:
    testbed_id: lab
    state: absent
"""

RETURN = r"""
steps:
  description: Changes made, or planned in check mode.
  returned: always
  type: list
  elements: dict
  contains:
    op:
      description: V(stop), V(remove), V(make), V(start) or V(load).
      returned: always
      type: str
      sample: load
    target:
      description: The object of the step.
      returned: always
      type: str
      sample: warehouses
    was:
      description: The state before; null where there is none.
      returned: always
      type: str
      sample: null
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: str
      sample: 10 warehouses
database:
  description: The database, its C(version), C(warehouses) and C(folder).
  returned: when O(state=present)
  type: dict
  sample: {version: "15.8", warehouses: 10, folder: /srv/storlab/ds1/storlab-database}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.run import database


def main() -> None:
    module = AnsibleModule(argument_spec=database.LOAD_SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**converge(database.Area, module.params, module.check_mode))


if __name__ == "__main__":
    main()
