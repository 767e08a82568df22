/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and loads the addon: beside the package where it is installed, in a build directory, or where
 * CONTRAIL_NODE_ADDON says. */
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const HOME = path.dirname(__dirname);

function places() {
  return place ? [place] : [
    path.join(HOME, 'contrail.node'),
    path.join(HOME, '..', '..', 'build', 'bindings', 'node', 'contrail.node'),
  ];
}

let loaded;
let place = process.env.CONTRAIL_NODE_ADDON;

/* Not through the environment: programs that are started inherit that. */
function setPlace(file) {
  place = file;
}

/* The exports of the addon; throws with a remedy when there is none. */
function addon() {
  if (loaded)
    return loaded;
  const found = places().find((place) => fs.existsSync(place));
  if (!found)
    throw new Error('the addon contrail.node is not installed: build Contrail where Node and its headers are, ' +
      'or name the file in CONTRAIL_NODE_ADDON');
  loaded = require(path.resolve(found));
  return loaded;
}

module.exports = {addon, setPlace};
