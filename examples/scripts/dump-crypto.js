/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps what goes into a digest of OpenSSL: int EVP_DigestUpdate(EVP_MD_CTX *ctx, const void *data, size_t count).
 *
 *   echo hello | contrail script examples/scripts/dump-crypto.js -- openssl dgst -sha256 */
'use strict';

const SHOWN = 64;

Interceptor.attach(Module.getGlobalExportByName('EVP_DigestUpdate'), {
  onEnter(args) {
    const count = args[2].toUInt32();
    console.error(`EVP_DigestUpdate: ${count} bytes`);
    if (count > 0)
      console.error(hexdump(args[1], {length: Math.min(count, SHOWN), header: false}));
  },
});
