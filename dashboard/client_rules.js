'use strict';

// The rules of a client as bars: what is left of each, and what its next request comes to.

// What a rule would answer to the next request, were it in force. `cost` is the units that it takes.
function verdictOf({ override, remaining, retry_after: wait }, cost) {
  if (override?.ban) return { level: 'bad', text: wait === null ? 'banned' : `banned for ${shortest(wait)}` };
  if (override?.exempt) return { level: 'good', text: 'not counted' };
  if (wait !== null) return { level: 'bad', text: `denied for ${shortest(wait)}` };
  if (remaining === null) return { level: 'unknown', text: 'depends on the request' };
  return remaining >= cost ? { level: 'good', text: 'passes' } : { level: 'bad', text: 'denied always' };
}

function nextOf(rule, cost) {
  const verdict = verdictOf(rule, cost);
  return rule.dry_run && verdict.level === 'bad' ? { level: 'warning', text: `would be ${verdict.text}` } : verdict;
}

// The limit of a rule, as it is for this client.
function clientLimitOf({ algorithm, limit, dry_run: isDryRun, override }, { window, calendar }) {
  const shown = limit === null ? 'that depends on the request' : count(limit);
  return [
    limitOf({ algorithm, limit: shown, window_seconds: window, calendar }),
    ...(isDryRun ? ['dry run'] : []),
    ...(override ? [isForAll(override) ? 'changed for all clients' : 'changed for this client'] : []),
  ].join(', ');
}

// How much of a rule's capacity is taken, in whole per cent, as $redis_rate_limit_used has it. Null: nobody knows.
function usedOf({ override, capacity, remaining }) {
  if (override?.ban) return 100;
  if (override?.exempt || remaining === null || !(capacity > 0)) return null;
  return Math.floor((100 * (capacity - Math.min(remaining, capacity))) / capacity);
}

function usedOfTightest(rules) {
  const known = Object.values(rules).map(usedOf).filter((used) => used !== null);
  return known.length > 0 ? Math.max(...known) : null;
}

class ClientRules {
  constructor(table) {
    this.rows = new Map(); // by names of rules
    const columns = ['Rule', 'Left', 'Used', 'Full again', 'Next request', 'On this host'];
    const head = element('thead', {}, element('tr', {}, ...columns.map((name) => element('th', { scope: 'col' }, name))));
    this.body = element('tbody');
    table.className = 'stacked';
    table.replaceChildren(head, this.body);
  }

  static makeRow(name) {
    const limit = element('small');
    const left = element('span');
    const used = element('i');
    const bar = element('div', { class: 'bar', role: 'meter', 'aria-label': `Left of ${name}`, 'aria-valuemin': 0 }, used);
    const [part, reset, next, host] = ['Used', 'Full again', 'Next request', 'On this host']
      .map((label) => element('td', { 'data-label': label }));
    const pill = element('span');
    next.append(pill);
    const place = element('tr', {}, element('th', { scope: 'row' }, name, limit),
      element('td', { class: 'drawing' }, bar, left), part, reset, next, host);
    return { limit, left, used, bar, part, reset, pill, host, place };
  }

  // `rules` are those of GET key, `configured` those of GET zones.
  show(rules, configured) {
    this.rows = new Map(Object.keys(rules).map((name) => [name, this.rows.get(name) ?? ClientRules.makeRow(name)]));
    arrange(this.body, [...this.rows.values()].map(({ place }) => place));
    for (const [name, rule] of Object.entries(rules)) this.showRule(this.rows.get(name), rule, configured[name] ?? {});
  }

  showRule(row, rule, configured) {
    const { remaining, capacity, reset, denied_here: isDenied, leased_here: leased } = rule;
    const next = nextOf(rule, configured.cost ?? 1);
    const isKnown = remaining !== null && capacity !== null;
    tell(row.limit, clientLimitOf(rule, configured));
    tell(row.left, isKnown ? `${count(remaining)} of ${count(capacity)}` : 'depends on the request');
    const part = usedOf(rule);
    tell(row.part, part === null ? '–' : `${part} %`);
    row.bar.hidden = !isKnown;
    if (isKnown) {
      row.bar.setAttribute('aria-valuemax', capacity);
      row.bar.setAttribute('aria-valuenow', remaining);
      row.used.className = { bad: 'rejected', warning: 'trial' }[next.level] ?? 'passed';
      row.used.style.width = `${capacity > 0 ? Math.min(100, (100 * remaining) / capacity) : 0}%`;
    }
    tell(row.reset, reset === null ? '–' : reset === 0 ? 'it is full' : `in ${shortest(reset)}`);
    row.pill.className = `state ${next.level}`;
    tell(row.pill, next.text);
    const here = [...(isDenied ? ['known to be denied'] : []), ...(leased > 0 ? [`${count(leased)} leased`] : [])];
    tell(row.host, here.join(', ') || '·');
  }
}

// What it all comes to, by the rules that are no dry run.
function stateOf(rules, configured) {
  const inForce = Object.entries(rules).filter(([, rule]) => !rule.dry_run)
    .map(([name, rule]) => ({ name, rule, next: nextOf(rule, configured[name]?.cost ?? 1) }));
  if (inForce.length === 0) return { level: 'unknown', text: 'no rule is in force' };
  const banned = inForce.find(({ rule }) => rule.override?.ban);
  if (banned) return banned.next;
  const bad = inForce.find(({ next }) => next.level === 'bad');
  if (bad) return { level: 'bad', text: `${bad.name}: ${bad.next.text}` };
  if (inForce.every(({ rule }) => rule.override?.exempt)) return { level: 'good', text: 'exempt' };
  if (inForce.some(({ next }) => next.level === 'unknown')) return { level: 'unknown', text: 'depends on the request' };
  return { level: 'good', text: 'passes' };
}

// Those that hold for the client, each once.
function overridesOf(rules) {
  const all = Object.values(rules).map(({ override }) => override).filter((override) => override !== null);
  return [...new Map(all.map((override) => [OverrideTable.idOf(override), override])).values()];
}
