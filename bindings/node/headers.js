/* SPDX-License-Identifier: Apache-2.0 */
/* For the build: prints the folder of node_api.h of the Node that runs this, or nothing when there is none. */
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const prefix = path.dirname(path.dirname(fs.realpathSync(process.execPath)));
const places = [path.join(prefix, 'include', 'node'), '/usr/include/node', '/usr/include/nodejs/src'];
const found = places.find((place) => fs.existsSync(path.join(place, 'node_api.h')));
if (found && Number(process.versions.node.split('.')[0]) >= 18)
  process.stdout.write(found);
