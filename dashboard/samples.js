'use strict';

// By how much the counters of status.json grew from each time it was read to the next.

const span = 120; // seconds that are kept
const averaged = 5; // seconds in a number

// What a rule comes to in a request, in the order in which charts stack it.
const outcomes = [
  { name: 'passed', label: 'passed', of: ['passed', 'local_passed'] },
  { name: 'uncharged', label: 'granted, but another rule denied', of: ['uncharged'] },
  { name: 'trial', label: 'a dry run would hold it back', of: ['dry_run_rejected', 'dry_run_delayed'] },
  { name: 'delayed', label: 'delayed', of: ['delayed', 'local_delayed'] },
  { name: 'failed', label: 'no verdict', of: ['error_open', 'error_closed', 'invalid'] },
  { name: 'rejected', label: 'rejected', of: ['rejected', 'local_rejected'] },
];
const all = outcomes.flatMap((outcome) => outcome.of);
const local = ['local_passed', 'local_delayed', 'local_rejected'];
const failed = ['error_open', 'error_closed', 'invalid'];
const refused = ['rejected', 'local_rejected', 'error_closed'];
const elsewhere = ['rejected_by_deny_cache', 'rejected_by_override', 'leased']; // of these, not by Redis
const settlements = ['charged', 'returned', 'lost']; // of requests that have ended, by their final costs
const counters = [...all, ...elsewhere, ...settlements];

// Dry runs and grants that were not charged are left out: nothing tells where they come from.
const sources = [
  {
    name: 'redis',
    label: 'Redis',
    of: (rates) => Math.max(0, sum(rates, ['passed', 'delayed', 'rejected']) - sum(rates, elsewhere)),
  },
  { name: 'lease', label: 'leases', of: (rates) => rates.leased },
  { name: 'deny_cache', label: 'deny cache', of: (rates) => rates.rejected_by_deny_cache },
  { name: 'override', label: 'bans', of: (rates) => rates.rejected_by_override },
  { name: 'local', label: 'this host alone', of: (rates) => sum(rates, local) },
  { name: 'none', label: 'none', of: (rates) => sum(rates, failed) },
];

const percentiles = ['p50', 'p90', 'p99'];

// What happened between two statuses, the oldest first: { time in ms, seconds since the status
// before, outcomes, sources, latencies, grew }. `outcomes` and `sources` have numbers a second for a
// rule's id, `latencies` latency_seconds for a backend's name. `grew` is by how much all counters
// grew: only the newest samples still have it.
const samples = [];
let last; // { time, status }: what the next one is compared with

function sum(counts, names) {
  return names.reduce((total, name) => total + counts[name], 0);
}

const everyRule = ''; // the id of all of them together
const ruleId = (zone, rule) => `${zone}: ${rule}`;

function rulesOf(status) {
  return Object.entries(status.zones).flatMap(([zone, { rules }]) =>
    Object.entries(rules).map(([name, counts]) => ({ id: ruleId(zone, name), zone, name, counts })));
}

// A counter that got smaller began anew.
const grown = (now, before = 0) => (now < before ? now : now - before);

const growth = (names, now, before) =>
  Object.fromEntries(names.map((name) => [name, grown(now[name], before?.[name])]));

// What a zone has counted for one of its rules, which may be missing.
function countsOf({ rules, overrides }, rule) {
  const counts = rules[rule];
  return counts && {
    ...counts,
    ...counts.settlements,
    rejected_by_override: overrides.rejected[rule] ?? 0,
    leased: counts.leases.requests,
  };
}

// A zone that is new or has another size began anew. A rule that is new in its zone need not have:
// it may have been there before an earlier reload.
function addZone(grew, name, now, before) {
  const isSame = before?.size_bytes === now.size_bytes;
  for (const rule of Object.keys(now.rules)) {
    const counts = countsOf(now, rule);
    const earlier = isSame ? countsOf(before, rule) ?? counts : undefined;
    grew.rules.set(ruleId(name, rule), growth(counters, counts, earlier));
  }
  // A key counts from when it is taken in: one that was not kept before has counted from 0.
  const earlier = new Map(isSame ? before.top_rejected.map((top) => [shownTop(top), top.rejected]) : []);
  const keys = now.top_rejected.map((top) => [shownTop(top), grown(top.rejected, earlier.get(shownTop(top)))]);
  grew.keys.set(name, new Map(keys));
}

function addBackend(grew, name, now, before = now) {
  const errors = growth(Object.keys(now.errors), now.errors, before.errors);
  grew.backends.set(name, { ...growth(['checks'], now, before), errors });
}

function growthBetween(now, before) {
  const grew = { rules: new Map(), keys: new Map(), backends: new Map() };
  for (const [name, zone] of Object.entries(now.zones)) addZone(grew, name, zone, before.zones[name]);
  const rules = [...grew.rules.values()];
  const total = (name) => rules.reduce((subtotal, counts) => subtotal + counts[name], 0);
  grew.rules.set(everyRule, Object.fromEntries(counters.map((name) => [name, total(name)])));
  for (const [name, backend] of Object.entries(now.backends)) {
    addBackend(grew, name, backend, before.backends[name]);
  }
  return grew;
}

function makeSample(time, length, now, before) {
  const grew = growthBetween(now, before);
  const backends = Object.entries(now.backends);
  const ofEachRule = (read) => new Map([...grew.rules].map(([id, counts]) => [id, read(counts)]));
  return {
    time,
    seconds: length,
    outcomes: ofEachRule((counts) => outcomes.map(({ of }) => sum(counts, of) / length)),
    sources: ofEachRule((counts) => sources.map(({ of }) => of(counts) / length)),
    latencies: new Map(backends.map(([name, backend]) => [name, backend.latency_seconds])),
    grew,
  };
}

// Takes what status.json was at a time. Nothing follows on what was before a long sleep, or before
// the clock was set back.
function addSample(status, time) {
  const before = last;
  last = { time, status };
  const length = (time - before?.time) / 1000;
  if (length > 0 && length < span) {
    samples.push(makeSample(time, length, status, before.status));
    while (samples[0].time < time - span * 1000) samples.shift();
    delete samples.at(-2 - averaged)?.grew;
  } else {
    samples.length = 0;
  }
}

// The newest samples, of so many seconds together.
function newest(length = averaged) {
  let from = samples.length;
  for (let covered = 0; covered < length && samples[from - 1]?.grew; from -= 1) {
    covered += samples[from - 1].seconds;
  }
  return samples.slice(from);
}

// A second, lately: `read` tells what it is in what grew, if it is there.
function recent(read, lately = newest()) {
  const total = lately.reduce((subtotal, { grew }) => subtotal + (read(grew) ?? 0), 0);
  return total / lately.reduce((subtotal, sample) => subtotal + sample.seconds, 0) || 0;
}

// Of each counter of a rule.
function ratesOf(id) {
  const lately = newest();
  const rateOf = (name) => recent(({ rules }) => rules.get(id)?.[name], lately);
  return Object.fromEntries(counters.map((name) => [name, rateOf(name)]));
}

// The outcomes of a rule, or the sources of its verdicts, in each sample: a row for each of them.
function historyOf(id, kind, series) {
  const rates = samples.map((sample) => sample[kind].get(id));
  return series.map((each, i) => rates.map((numbers) => numbers?.[i] ?? 0));
}

// Whether a rule is a dry run is not told, and may have changed meanwhile: it is one if it would have
// held requests back in the samples that are kept, and held none back.
function isDryRun(history) {
  const occurs = (name) => outcomes.some((outcome, i) => outcome.name === name && Math.max(...history[i]) > 0);
  return occurs('trial') && !occurs('delayed') && !occurs('rejected');
}

// Whether a rule has rejected each of its latest checks: at least ten, and no more than half a minute old.
function rejectsAll(history) {
  const [enough, longest] = [10, 30]; // checks, and seconds
  const isRejected = ({ name }) => name === 'rejected';
  const rejections = history[outcomes.findIndex(isRejected)];
  let rejected = 0;
  for (let at = samples.length - 1, age = 0; at >= 0 && age < longest; at -= 1) {
    if (outcomes.some((outcome, i) => !isRejected(outcome) && history[i][at] > 0)) return false;
    rejected += rejections[at] * samples[at].seconds;
    if (Math.round(rejected) >= enough) return true;
    age += samples[at].seconds;
  }
  return false;
}

// How many requests a rule has held back in the samples that are kept, those that are worst for clients first.
function troubleOfRule({ history }) {
  const total = (isCounted) => history.filter((row, i) => isCounted(outcomes[i].name))
    .reduce((subtotal, row) => row.reduce((all, number, at) => all + number * samples[at].seconds, subtotal), 0);
  return [
    total((name) => name === 'rejected' || name === 'failed'),
    ...['trial', 'delayed'].map((each) => total((name) => name === each)),
  ].map(Math.round);
}

// What is shown of a key that is rejected most. No other key is shown so: what is no printable ASCII is escaped.
const shownTop = ({ key, is_cut: isCut = false }) => (isCut ? `${key}…` : key);

// All rules as they are now.
function currentRules() {
  return rulesOf(last.status).map((rule) => {
    const history = historyOf(rule.id, 'outcomes', outcomes);
    return { ...rule, rates: ratesOf(rule.id), history, isDryRun: isDryRun(history) };
  });
}
