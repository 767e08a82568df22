/* SPDX-License-Identifier: Apache-2.0 */
/* libcrypto: SHA-256 of 100 MB, AES, HMAC, ChaCha20, key derivation, RSA and elliptic curve signatures, big numbers. */
#include "workload.h"
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_hex(const char *name, const unsigned char *bytes, size_t size) {
    printf("%s ", name);
    for (size_t i = 0; i < size; i++)
        printf("%02x", bytes[i]);
    putchar('\n');
}

static void digests(int scale) {
    enum { BLOCK = 1 << 20 };
    unsigned char *block = malloc(BLOCK), digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    for (size_t i = 0; i < BLOCK; i++)
        block[i] = (unsigned char)(i * 31 + i / 255);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    for (int i = 0; i < scale * 10; i++) { /* 100 MB in a full run */
        block[0] = (unsigned char)i;
        EVP_DigestUpdate(context, block, 1000000);
    }
    EVP_DigestFinal_ex(context, digest, &size);
    print_hex("sha256", digest, size);
    static const char *const names[] = {"MD5", "SHA1", "SHA512", "SHA3-256", "BLAKE2b512", "SM3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const EVP_MD *md = EVP_get_digestbyname(names[i]);
        if (md && EVP_Digest(block, 100000, digest, &size, md, NULL))
            print_hex(names[i], digest, size);
    }
    HMAC(EVP_sha256(), "key", 3, block, 1000, digest, &size);
    print_hex("hmac", digest, size);
    EVP_MD_CTX_free(context);
    free(block);
}

static void ciphers(void) {
    static const char *const names[] = {"aes-128-cbc", "aes-256-ctr", "chacha20", "aes-256-gcm", "camellia-128-cbc"};
    unsigned char key[32], iv[16], in[5000], encrypted[6000], back[6000];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i * 7);
    memset(key, 3, sizeof key);
    memset(iv, 5, sizeof iv);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        const EVP_CIPHER *cipher = EVP_get_cipherbyname(names[n]);
        EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
        int size = 0, more = 0, back_size = 0;
        if (!cipher || !EVP_EncryptInit_ex(context, cipher, NULL, key, iv)) {
            printf("%s is not there\n", names[n]);
            EVP_CIPHER_CTX_free(context);
            continue;
        }
        EVP_EncryptUpdate(context, encrypted, &size, in, sizeof in);
        EVP_EncryptFinal_ex(context, encrypted + size, &more);
        size += more;
        print_hex(names[n], encrypted + size - 16, 16);
        if (strstr(names[n], "gcm") == NULL) {
            EVP_DecryptInit_ex(context, cipher, NULL, key, iv);
            EVP_DecryptUpdate(context, back, &back_size, encrypted, size);
            EVP_DecryptFinal_ex(context, back + back_size, &more);
            printf("back %d\n", back_size + more == (int)sizeof in && memcmp(in, back, sizeof in) == 0);
        }
        EVP_CIPHER_CTX_free(context);
    }
    unsigned char derived[32];
    PKCS5_PBKDF2_HMAC("password", 8, key, 16, 1000, EVP_sha512(), sizeof derived, derived);
    print_hex("pbkdf2", derived, sizeof derived);
}

/* Keys are random; that their signatures verify is not. */
static void signatures(const char *kind, EVP_PKEY *key, const EVP_MD *md) {
    unsigned char signature[1024];
    size_t size = sizeof signature;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int made = key && EVP_DigestSignInit(context, NULL, md, NULL, key) == 1 &&
               EVP_DigestSign(context, signature, &size, (const unsigned char *)"message", 7) == 1;
    EVP_MD_CTX_free(context);
    context = EVP_MD_CTX_new();
    int verified = made && EVP_DigestVerifyInit(context, NULL, md, NULL, key) == 1 &&
                   EVP_DigestVerify(context, signature, size, (const unsigned char *)"message", 7) == 1;
    EVP_MD_CTX_free(context);
    context = EVP_MD_CTX_new();
    int refused = made && EVP_DigestVerifyInit(context, NULL, md, NULL, key) == 1 &&
                  EVP_DigestVerify(context, signature, size, (const unsigned char *)"Message", 7) != 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    printf("%s: made %d, verified %d, refused %d\n", kind, made, verified, refused);
    EVP_PKEY_free(key);
}

static void numbers(void) {
    BN_CTX *context = BN_CTX_new();
    BIGNUM *a = NULL, *b = NULL, *c = BN_new(), *m = NULL;
    BN_dec2bn(&a, "123456789012345678901234567890123456789");
    BN_dec2bn(&b, "987654321098765432109876543210987654321");
    BN_dec2bn(&m, "170141183460469231731687303715884105727");
    BN_mod_exp(c, a, b, m, context);
    char *text = BN_bn2dec(c);
    printf("power %s, prime %d\n", text, BN_check_prime(m, context, NULL));
    OPENSSL_free(text);
    BN_free(a);
    BN_free(b);
    BN_free(c);
    BN_free(m);
    BN_CTX_free(context);
}

void workload_crypto(int scale) {
    digests(scale);
    ciphers();
    signatures("rsa", EVP_RSA_gen(scale > 1 ? 2048 : 1024), EVP_sha256());
    signatures("p256", EVP_EC_gen("P-256"), EVP_sha256());
    signatures("ed25519", EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), NULL);
    numbers();
}
