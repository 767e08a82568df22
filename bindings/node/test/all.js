/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every test of this folder that needs no target, in one process: all.js [addon]. */
'use strict';

const fs = require('node:fs');

if (process.argv[2])
  process.env.CONTRAIL_NODE_ADDON = process.argv[2];
for (const name of fs.readdirSync(__dirname).sort())
  if (name.endsWith('.test.js'))
    require('./' + name);
