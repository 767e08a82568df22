/* SPDX-License-Identifier: Apache-2.0 */
/* The package `contrail`: scripts for native programs.
 *
 *   const contrail = require('contrail');
 *   const session = contrail.attach(pid);
 *   const {Interceptor, Module} = session.api;
 *   Interceptor.attach(Module.getGlobalExportByName('open'), {
 *     onEnter(args) { console.log(args[0].readUtf8String()); },
 *   }); */
'use strict';

const {Session} = require('./lib/session');
const {Trace} = require('./lib/trace');
const {record} = require('./lib/record');
const {Int64, UInt64} = require('./lib/int64');
const {runScript} = require('./lib/runner');

module.exports = {
  attach: (pid, options) => Session.attach(pid, options),
  spawn: (command, options) => Session.spawn(command, options),
  runScript,
  record,
  Session,
  Trace,
  Int64,
  UInt64,
};
