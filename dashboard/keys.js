'use strict';

// How a client is named in the API's queries. The part behind the page's # is such a query, so that
// a link leads to a client, and reloading the page stays there.

// What a form or another program has percent-encoded, with all else that a query cannot have as it is.
const completed = (encoded) => encoded.replace(/[^%\w.~-]/gu, encodeURIComponent);

const keyKinds = {
  text: (text) => `key=${encodeURIComponent(text)}`,
  encoded: (text) => `key=${completed(text)}`,
  sha256: (text) => `key_sha256=${completed(text)}`,
};

// Top keys have bytes that are not printable ASCII in the form \x22.
function keyOfTop(shown) {
  return `key=${shown.replace(/\\x([0-9a-f]{2})|[^]/g, (one, hex) => (hex ? `%${hex}` : encodeURIComponent(one)))}`;
}

// Names of zones and rules need no encoding: they are of A-Za-z0-9._/-.
const clientQuery = (zone, key) => `zone=${zone}&${key}`;

// The zone and the key that the page's address names, as far as it does.
function addressed() {
  const [, zone, key] = /^#zone=([\w./-]+)(?:&(key(?:_sha256)?=[^&]+))?$/.exec(location.hash) ?? [];
  return { zone, key };
}

// The query that names whom an override is for, or null if the API does not tell the key.
function ownerQuery({ zone, key, key_encoded: encoded, key_sha256: digest, rule }, showsKeys) {
  const ofRule = rule === null ? '' : `&rule=${rule}`;
  if (key === null) return `zone=${zone}${ofRule}`;
  if (digest) return clientQuery(zone, `key_sha256=${digest}`) + ofRule;
  return encoded && showsKeys ? clientQuery(zone, `key=${completed(encoded)}`) + ofRule : null;
}
