// Verifies the DSSE envelope ARGV[2] with the public key (PEM) ARGV[3], by sigstore's own code; prints the statement.
const { readFileSync } = require("fs");
const { createPublicKey } = require("crypto");
const { envelopeFromJSON } = require("@sigstore/bundle");
const { Verifier, toSignedEntity } = require("@sigstore/verify");

const [envelope, key] = process.argv.slice(2).map((path) => readFileSync(path, "utf8"));
const dsseEnvelope = envelopeFromJSON(JSON.parse(envelope));
const publicKey = createPublicKey(key);
const verifier = new Verifier(
  {
    certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [],
    publicKey: () => ({ publicKey, validFor: () => true }),
  },
  { ctlogThreshold: 0, tlogThreshold: 0, tsaThreshold: 0 },
);
const content = { $case: "publicKey", publicKey: { hint: dsseEnvelope.signatures[0].keyid } };
verifier.verify(
  toSignedEntity({ content: { $case: "dsseEnvelope", dsseEnvelope }, verificationMaterial: { content, tlogEntries: [] } }),
);
if (dsseEnvelope.payloadType !== "application/vnd.in-toto+json") throw new Error(dsseEnvelope.payloadType);
process.stdout.write(dsseEnvelope.payload);
